"""The way out: which addresses may be asked, told before anything is sent and again when it is."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from taskfabric.domain.errors import BadInput, Unavailable
from taskfabric.stores.egress import WebEgress, check_header, is_public, read
from tests.unit.listener import heard_at

PUBLIC = "93.184.215.14"


def to(*addresses: str) -> WebEgress:
    """Every name leads to these addresses."""
    return WebEgress(resolve=lambda host, port: addresses)


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://[fe80::1]/",
        "http://[fec0::1]/",
        "http://[fd00::1]/",
        "http://10.0.0.1/",
        "http://100.64.0.1/",
        "http://192.168.1.1:8080/",
        "http://0.0.0.0/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "http://localhost/",
        "http://LOCALHOST./",
    ],
)
def test_an_address_that_is_not_public_is_refused_at_registration(url: str) -> None:
    """a2a-python #786, a2a-go #373, a2a-js #584."""
    with pytest.raises(BadInput, match=r"not public|can be found"):
        WebEgress().check(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://2130706433/",
        "http://127.1/",
        "http://0x7f000001/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://017700000001/",
        "http://127.0.0.1./",
        "http://1.2.3.4.5/",
        "http://[::1%25lo]/",
        "http://[v1.a]/",
        "ftp://example.org/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:6379/_FLUSHALL",
        "//example.org/",
        "example.org",
        "",
        "http://",
        "http:///path",
        "http://user@example.org/",
        "http://example.org@127.0.0.1/",
        "http://example.org\\@127.0.0.1/",
        "http://example.org/\r\nX-Admin: 1",
        "http://exa mple.org/",
        "http://example.org/#fragment",
        "http://example.org:0/",
        "http://example.org:99999/",
        "http://ex\N{CYRILLIC SMALL LETTER A}mple.org/",
        "http://\N{CIRCLED DIGIT ONE}27.0.0.1/",
        "http://-a.example/",
        "http://" + "a" * 2100 + ".example/",
    ],
)
def test_an_address_that_can_be_read_in_two_ways_is_refused(url: str) -> None:
    with pytest.raises(BadInput):
        to(PUBLIC).check(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://hook.example/",
        "http://hook.example:8080/a/b?c=d",
        "https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]/",
        "https://xn--bcher-kva.example/",
        "https://hook.example./x",
    ],
)
def test_a_public_address_may_be_asked(url: str) -> None:
    to(PUBLIC).check(url)


def test_one_private_address_among_several_is_enough_to_refuse() -> None:
    with pytest.raises(BadInput, match="not public"):
        to(PUBLIC, "10.0.0.7").check("https://hook.example/")


def test_an_address_of_the_internet_is_public_and_what_hides_another_is_judged_by_that() -> None:
    assert is_public(PUBLIC)
    assert is_public("::ffff:93.184.215.14")
    assert is_public("64:ff9b::5db8:d70e")
    assert not is_public("::ffff:10.0.0.1")
    assert not is_public("64:ff9b::a00:1")
    assert not is_public("fe80::1%eth0")
    assert not is_public("nonsense")


def test_a_name_that_leads_elsewhere_by_the_time_it_is_called_is_refused_then() -> None:
    """Rebinding: public when it is registered, private when it is used."""
    answers = iter([[PUBLIC], ["127.0.0.1"]])
    with heard_at() as listener:
        egress = WebEgress(resolve=lambda host, port: next(answers))
        url = f"http://hook.example:{listener.port}/"
        egress.check(url)
        with pytest.raises(BadInput, match="not public"):
            egress.post(url, b"{}", {})
    assert listener.requests == []


def test_the_connection_goes_to_the_address_that_was_judged() -> None:
    asked: list[str] = []

    def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"]

    with heard_at() as listener:
        egress = WebEgress(allow_hosts=["hook.example"], resolve=resolve)
        status = egress.post(f"http://hook.example:{listener.port}/in?a=1", b'{"a":1}', {"X-Word": "two words"})
    assert (status, asked) == (200, ["hook.example"])
    (request,) = listener.requests
    assert (request.path, request.body) == ("/in?a=1", b'{"a":1}')
    assert request.headers["host"] == f"hook.example:{listener.port}"
    assert request.headers["x-word"] == "two words"


def test_a_redirect_is_an_answer_and_is_not_followed() -> None:
    with heard_at() as inside, heard_at() as outside:
        outside.answer = (302, {"Location": inside.url})
        egress = WebEgress(allow_hosts=[f"127.0.0.1:{outside.port}"])
        assert egress.post(outside.url, b"{}", {}) == 302
        assert len(outside.requests) == 1
        assert inside.requests == []


def test_an_allowed_host_may_be_named_with_its_port_and_only_that_is_allowed() -> None:
    egress = WebEgress(allow_hosts=["127.0.0.1:8080", "[::1]"])
    egress.check("http://127.0.0.1:8080/")
    egress.check("http://[::1]/")
    with pytest.raises(BadInput):
        egress.check("http://127.0.0.1:8081/")


def test_an_allowed_host_needs_no_name_server_to_be_registered() -> None:
    def nobody(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror

    WebEgress(allow_hosts=["example.com"], resolve=nobody).check("https://example.com/hook")
    with pytest.raises(BadInput, match="can be found"):
        WebEgress(resolve=nobody).check("https://example.com/hook")


@contextmanager
def trickling() -> Iterator[int]:
    """A receiver that sends a byte now and then, for ever."""
    listening = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def serve() -> None:
        with listening, listening.accept()[0] as conn:
            while not ended.wait(0.05):
                try:
                    conn.sendall(b"H")
                except OSError:
                    return

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        ended.set()
        thread.join(20)


def test_a_receiver_that_speaks_slowly_is_left_when_the_time_is_over() -> None:
    with trickling() as port, pytest.raises(Unavailable):
        WebEgress(allow_hosts=["127.0.0.1"], timeout=0.4).post(f"http://127.0.0.1:{port}/", b"{}", {})


def test_nobody_there_is_said_so() -> None:
    with pytest.raises(Unavailable, match="connection refused"):
        WebEgress(allow_hosts=["127.0.0.1"], timeout=2).post("http://127.0.0.1:9/", b"{}", {})


@pytest.mark.parametrize(
    ("name", "value"),
    [("X-Word", "a\r\nX-Admin: 1"), ("X-Word", "a\nb"), ("X-Word", "\x00"), ("X Word", "a"), ("X:", "")],
)
def test_a_value_that_would_begin_another_header_is_refused(name: str, value: str) -> None:
    """a2a-rs #124."""
    with pytest.raises(BadInput):
        check_header(name, value)


def test_what_is_read_is_what_is_connected_to() -> None:
    place = read("https://Hook.Example:8443/a?b=c")
    assert (place.secure, place.host, place.port, place.target) == (True, "hook.example", 8443, "/a?b=c")
    assert place.authority == "hook.example:8443"
