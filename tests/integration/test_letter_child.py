"""Letters to a person's own addresses: sent by a process of their own, to places that are public or exempt."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskfabric.ports.notifier import Reach, Taken
from taskfabric.stores.egress import WebEgress
from taskfabric.stores.notifier import AppriseNotifier
from tests.unit.listener import Heard, heard_at

# In the place of apprise: it posts to where the address leads, follows what it is told to, and opens what it likes.
STAND_IN = """
import subprocess, urllib.error, urllib.request
class Apprise:
    @staticmethod
    def instantiate(url):
        return None if "unknown" in url else Service(url)
class Service:
    def __init__(self, url):
        self.url = "http://" + url.partition("://")[2]
    def notify(self, body, title):
        if "program" in self.url:
            subprocess.run(["true"])
        data = f"{title}|{body}".encode()
        try:
            urllib.request.urlopen(urllib.request.Request(self.url, data), timeout=5)
        except urllib.error.HTTPError as error:
            urllib.request.urlopen(urllib.request.Request(error.headers["Location"], data), timeout=5)
        return True
"""


@pytest.fixture
def apprise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "apprise.py").write_text(STAND_IN, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


@pytest.fixture
def heard() -> Iterator[Heard]:
    with heard_at() as made:
        yield made


def sent(tmp_path: Path, *urls: str, allow: tuple[str, ...] = (), had: frozenset[str] = frozenset()) -> Taken:
    notifier = AppriseNotifier(tmp_path / "notify.toml", lambda name: (), WebEgress(), allow_hosts=allow)
    return notifier.send(Reach(own=urls), "a subject", "a body", letter=7, had=had)


@pytest.mark.usefixtures("apprise")
def test_a_letter_goes_to_a_host_that_is_exempt(tmp_path: Path, heard: Heard) -> None:
    for allow in (("127.0.0.1",), (f"127.0.0.1:{heard.port}",), (f"localhost:{heard.port}",)):
        assert sent(tmp_path, f"json://127.0.0.1:{heard.port}/x", allow=allow).problem == ""
    assert [call.body for call in heard.requests] == [b"a subject|a body"] * 3


@pytest.mark.usefixtures("apprise")
def test_nothing_is_connected_to_but_what_is_public_whatever_the_name_says(tmp_path: Path, heard: Heard) -> None:
    for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]"):
        got = sent(tmp_path, f"json://{host}:{heard.port}/secret", allow=("127.0.0.1:1",))
        assert got.problem.startswith("address 1 of 1 failed")
        assert "secret" not in got.problem
    assert heard.requests == []


@pytest.mark.usefixtures("apprise")
def test_a_redirect_leads_no_further_than_the_address_itself(tmp_path: Path, heard: Heard) -> None:
    with heard_at() as inner:
        heard.answer = (307, {"Location": inner.url})
        got = sent(tmp_path, f"json://127.0.0.1:{heard.port}/x", allow=(f"127.0.0.1:{heard.port}",))
        assert got.problem
        assert (len(heard.requests), inner.requests) == (1, [])


@pytest.mark.usefixtures("apprise")
def test_no_program_is_started_for_it(tmp_path: Path, heard: Heard) -> None:
    got = sent(tmp_path, f"json://127.0.0.1:{heard.port}/program", allow=("127.0.0.1",))
    assert "PermissionError" in got.problem
    assert heard.requests == []


@pytest.mark.usefixtures("apprise")
def test_each_address_takes_it_or_not_by_itself_and_once(tmp_path: Path, heard: Heard) -> None:
    urls = (f"json://127.0.0.1:{heard.port}/x", "json://unknown.example/x", "syslog://")
    got = sent(tmp_path, *urls, allow=("127.0.0.1",))
    assert len(got.by) == 1
    assert "address 2 of 3 is none that apprise knows" in got.problem
    assert "address 3 of 3 may not be used" in got.problem
    assert sent(tmp_path, *urls, allow=("127.0.0.1",), had=got.by).by == got.by
    assert len(heard.requests) == 1


def test_without_apprise_it_waits_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "apprise.py").write_text("raise ImportError", encoding="utf-8")
    assert "not installed" in sent(tmp_path, "json://93.184.215.14/x").problem


def test_apprise_itself_sends_it_and_keeps_away_from_what_is_not_public(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: Heard
) -> None:
    found = importlib.util.find_spec("apprise")
    if found is None or found.origin is None:
        pytest.skip("apprise is not installed")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    url = f"json://127.0.0.1:{heard.port}/x"
    assert sent(tmp_path, url, allow=("127.0.0.1",)).problem == ""
    assert b"a subject" in heard.requests[0].body
    with heard_at() as inner:
        heard.answer = (307, {"Location": inner.url})
        assert sent(tmp_path, url, allow=(f"127.0.0.1:{heard.port}",)).problem
        assert inner.requests == []
    assert sent(tmp_path, url).problem == "address 1 of 1 did not take it"
    assert len(heard.requests) == 2
