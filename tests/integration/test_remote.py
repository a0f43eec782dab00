"""The client: the same errors as in the server, repeated only where that is harmless, and it finds its way back."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import orjson
import pytest

from taskfabric.domain.errors import (
    BadInput,
    FabricError,
    LeaseLost,
    NotAuthenticated,
    NotFound,
    Refused,
    Unavailable,
)
from taskfabric.remote import RemoteFabric
from taskfabric.services import verbs
from taskfabric.services.verbs import FenceArg
from taskfabric.testing import TestServer
from tests.integration.serving import Served, serving


@pytest.fixture(scope="module")
def served(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with server.database() as database, serving(database.dsn, tmp_path_factory.mktemp("home")) as running:
        yield running


def test_a_task_goes_its_whole_way(served: Served) -> None:
    alice, kimi = served.fabric("alice"), served.fabric("kimi", instance="kimi@box")
    task = alice.call(verbs.Submit(title="tidy the attic", description="all of it", to="kimi")).task
    [claimed] = kimi.call(verbs.Claim())
    assert claimed.task.id == task.id
    [renewal] = kimi.call(verbs.Renew(fences=(FenceArg.of(claimed.fence),)))
    assert renewal.until is not None
    assert kimi.call(verbs.Done(fence=FenceArg.of(claimed.fence), note="tidy")).note == "tidy"
    assert not alice.call(verbs.Verify(task=task.id)).is_open
    thread = alice.call(verbs.Show(task=task.id))
    assert "kimi@box" in thread.entries[0].text


def test_errors_come_back_as_the_same_class_with_facts_and_next_step(served: Served) -> None:
    alice, kimi = served.fabric("alice"), served.fabric("kimi")
    with pytest.raises(NotFound) as missing:
        alice.call(verbs.Show(task=999_999))
    assert missing.value.next
    task = alice.call(verbs.Submit(title="x", to="kimi")).task
    [claimed] = kimi.call(verbs.Claim())
    kimi.call(verbs.Release(fence=FenceArg.of(claimed.fence)))
    with pytest.raises(LeaseLost) as lost:
        kimi.call(verbs.Done(fence=FenceArg.of(claimed.fence), note="late"))
    assert lost.value.facts["task"] == task.id
    with pytest.raises(Refused):
        kimi.call(verbs.Move(task=task.id, column="Done"))


def test_many_calls_are_one_request_and_each_has_its_own_result(served: Served) -> None:
    answers = served.fabric("alice").call_many([verbs.Hello(), verbs.Show(task=999_999), verbs.ListQueues()])
    assert isinstance(answers[0], verbs.Greeting)
    assert isinstance(answers[1], NotFound)
    assert isinstance(answers[2], list)
    assert {queue.name for queue in answers[2]} >= {"pool", "alice"}


def test_threads_share_a_client(served: Served) -> None:
    alice = served.fabric("alice")
    wrong: list[object] = []

    def ask() -> None:
        for _ in range(20):
            if alice.call(verbs.Hello()).name != "alice":
                wrong.append(1)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_wrong_token_is_not_authenticated(served: Served) -> None:
    with pytest.raises(NotAuthenticated):
        RemoteFabric(served.url, "fab_wrong").call(verbs.Hello())
    for token in ("", "a b", "a\r\nX: y", "é"):
        with pytest.raises(NotAuthenticated):
            RemoteFabric(served.url, token)


@pytest.mark.parametrize(
    "url", ["", "ftp://x", "127.0.0.1:1", "http://", "http://x:99999", "http://x/?a=b", "http://a b"]
)
def test_what_is_no_url_is_said_so(url: str) -> None:
    with pytest.raises(BadInput):
        RemoteFabric(url, "t")


def test_nobody_there_is_unavailable_with_the_url_and_the_next_step() -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(Unavailable) as away:
            RemoteFabric(url, "t").call(verbs.Submit(title="x"))
    assert url in away.value.message
    assert "fabric up" in away.value.next
    assert away.value.facts["sent"] is False


def test_the_events_are_read_page_by_page(served: Served) -> None:
    alice = served.fabric("alice")
    task = alice.call(verbs.Submit(title="followed", to="alice")).task
    alice.call(verbs.Comment(task=task.id, text="a word"))
    events = list(alice.events(task=task.id))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


def test_following_brings_what_happens_from_now_on_and_resumes_where_it_was(served: Served) -> None:
    alice = served.fabric("alice")
    task = alice.call(verbs.Submit(title="followed", to="alice")).task
    with closing(alice.events("", task=task.id, follow=True)) as stream:
        first = next(stream)
        alice.call(verbs.Comment(task=task.id, text="a word"))
        second = next(stream)
    assert [first.seq, second.seq] == [1, 2]
    alice.call(verbs.Comment(task=task.id, text="another"))
    with closing(alice.events(str(second.cursor), task=task.id, follow=True)) as stream:
        assert next(stream).seq == 3


def test_following_what_one_may_not_see_is_not_found(served: Served) -> None:
    task = served.fabric("alice").call(verbs.Submit(title="private", to="alice")).task
    with pytest.raises(NotFound):
        next(iter(served.fabric("kimi").events(task=task.id, follow=True)))


# ---------------------------------------------------------------- bad networks


@contextmanager
def answering(*answers: bytes | None) -> Iterator[tuple[str, list[bytes]]]:
    """A server that gives these answers, one a connection; None closes without one. The requests are kept."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            for answer in answers:
                conn, _ = listener.accept()
                with conn:
                    got = conn.recv(100_000)
                    while b"\r\n\r\n" not in got:
                        got += conn.recv(100_000)
                    heard.append(got)
                    if answer is not None:
                        conn.sendall(answer)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", heard
        finally:
            thread.join(10)


def http(status: int, shape: object) -> bytes:
    body = shape if isinstance(shape, bytes) else orjson.dumps(shape)
    return b"HTTP/1.1 %d X\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


def good() -> bytes:
    return http(200, {"jsonrpc": "2.0", "id": 1, "result": []})


def test_a_read_is_repeated_when_the_answer_is_lost() -> None:
    with answering(None, good()) as (url, heard):
        assert RemoteFabric(url, "t").call(verbs.ListQueues()) == []
    assert len(heard) == 2


def test_a_write_whose_answer_is_lost_is_not_repeated_and_its_outcome_is_unknown() -> None:
    with answering(None) as (url, heard), pytest.raises(Unavailable) as unknown:
        RemoteFabric(url, "t").call(verbs.Submit(title="x"))
    assert len(heard) == 1
    assert unknown.value.facts["sent"] is True


def test_a_submission_with_a_key_is_repeated() -> None:
    wrong = http(200, {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "seen twice"}})
    with answering(None, wrong) as (url, heard), pytest.raises(FabricError, match="seen twice"):
        RemoteFabric(url, "t").call(verbs.Submit(title="x", key="k"))
    assert len(heard) == 2


def test_a_busy_server_is_asked_again_whatever_the_verb() -> None:
    busy = Unavailable("busy", busy=True, sent=False)
    answer = http(503, {"jsonrpc": "2.0", "id": None, "error": {"code": -32006, "message": "", "data": busy.to_json()}})
    with answering(answer, good()) as (url, heard):
        assert RemoteFabric(url, "t").call(verbs.Claim()) == []
    assert len(heard) == 2


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_proxy_without_a_server_is_unavailable(status: int) -> None:
    with answering(http(status, b"<h1>Bad Gateway</h1>")) as (url, _), pytest.raises(Unavailable):
        RemoteFabric(url, "t").call(verbs.Claim())


@pytest.mark.parametrize(
    "answer",
    [
        http(200, b"<html>"),
        http(404, b"{}"),
        http(200, [1]),
        http(302, b""),
        http(200, {"result": 5}),
    ],
)
def test_what_is_no_fabric_is_said_so(answer: bytes) -> None:
    with answering(answer) as (url, _), pytest.raises(BadInput, match="not as a fabric"):
        RemoteFabric(url, "t").call(verbs.Claim())


def test_what_is_no_http_is_unavailable() -> None:
    with answering(b"SSH-2.0-OpenSSH_9.9\r\n\r\n") as (url, _), pytest.raises(Unavailable):
        RemoteFabric(url, "t").call(verbs.Claim())


def test_a_server_that_never_answers_costs_the_timeout_and_no_more() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unavailable, match="no answer in time"):
            RemoteFabric(url, "t", timeout=0.05).call(verbs.Claim())


def test_a_stream_that_breaks_off_is_resumed_at_its_last_event() -> None:
    shape = {"cursor": "5-6", "kind": "x", "at": "2026-11-30T17:00:00Z", "task": 1, "seq": 1, "project_id": 1}
    shape |= {"actor": "a", "via": "token", "epoch": None, "data": {}}
    head = b"HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\n\r\n"
    event = b"id: 5-6\ndata: " + orjson.dumps(shape) + b"\n\n"
    with answering(head + b"id: 3-4\n\n", head + event, head + event) as (url, heard):
        stream = RemoteFabric(url, "t").events("end", follow=True)
        next(stream)
        next(stream)
    assert [b"cursor=" + mark in got for got, mark in zip(heard, [b"end", b"3-4", b"5-6"], strict=True)] == [True] * 3
