"""The door: nothing but /healthz answers without a credential, and the credential decides everything."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from taskfabric.domain.errors import BadInput, NotAuthenticated
from taskfabric.domain.principal import Caller, Kind, Principal, Trust, Via
from taskfabric.settings import load
from taskfabric.surfaces.auth import Door, Presented, Sites, presented
from taskfabric.testing import TestServer
from tests.integration.serving import Served, serving

HELLO = {"jsonrpc": "2.0", "id": 1, "method": "fabric.hello"}
KIMI = Caller(principal=Principal(id=7, name="kimi", kind=Kind.AGENT, trust=Trust.SANDBOXED), via=Via.TOKEN)


@pytest.fixture(scope="module")
def served(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with server.database() as database, serving(database.dsn, tmp_path_factory.mktemp("home")) as running:
        yield running


def basic(user: str, token: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()}


@pytest.mark.parametrize("path", ["/jsonrpc.php", "/events", "/nowhere", "/healthz/", "/jsonrpc.php/", "//healthz"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
def test_nothing_answers_without_a_credential(served: Served, path: str, method: str) -> None:
    reply = served.request(method, path, name=None)
    assert reply.status == 401
    assert reply.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(("method", "status"), [("GET", 303), ("HEAD", 303), ("POST", 403), ("PUT", 405)])
def test_a_page_answers_without_a_session_only_with_the_way_to_the_sign_in(
    served: Served, method: str, status: int
) -> None:
    reply = served.request(method, "/", name=None)
    assert reply.status == status
    assert reply.headers.get("location", "/sign-in") == "/sign-in"


@pytest.mark.parametrize("path", ["/jsonrpc.php", "/events", "/nowhere"])
def test_nothing_answers_to_a_wrong_token(served: Served, path: str) -> None:
    for method in ("GET", "POST"):
        reply = served.request(method, path, b"{}", headers={"Authorization": f"Bearer fab_{path}{method}"})
        assert reply.status == 401


def test_health_answers_everybody_and_says_nothing_else(served: Served) -> None:
    reply = served.request("GET", "/healthz", name=None, headers={"Host": "anything.example"})
    assert reply.status == 200
    assert set(reply.json) == {"ok", "board", "version"}


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic",
        "Basic !!!",
        "Basic " + base64.b64encode(b"nocolon").decode(),
        "Digest x",
        "x" * 5000,
        "Bearer \xe9",
        "Basic " + base64.b64encode(b"\xff\xfe:x").decode(),
    ],
)
def test_what_is_no_credential_is_none(served: Served, authorization: str) -> None:
    assert served.rpc(HELLO, name=None, headers={"Authorization": authorization}).status == 401


def test_a_token_is_its_owners_password_and_nobody_elses(served: Served) -> None:
    token = served.tokens["alice"]
    assert served.rpc(HELLO, headers=basic("alice", token)).json["result"]["name"] == "alice"
    assert served.rpc(HELLO, headers=basic("bob", token)).status == 401


def test_arguments_never_say_who_calls(served: Served) -> None:
    answer = served.call("fabric.list", {"limit": 1, "principal": "alice"}, name="kimi")
    assert answer["error"]["data"]["name"] == "bad-input"


def test_a_revoked_token_is_worth_nothing_at_once(served: Served) -> None:
    served.add("shortlived", Kind.AGENT, Trust.SANDBOXED)
    assert served.rpc(HELLO, name="shortlived").status == 200
    principal = served.house.credentials.principal("shortlived")
    assert principal is not None
    [credential] = served.house.credentials.tokens(principal.id)
    assert "result" in served.call("fabric.token.revoke", {"id": credential.id})
    assert served.rpc(HELLO, name="shortlived").status == 401


def test_the_instance_is_printable_short_and_without_parentheses() -> None:
    shown = presented([(b"authorization", b"Bearer t"), (b"x-fabric-instance", "ki(mi)\x07@böx".encode())], "::1")
    assert shown is not None
    assert shown.instance == "kimi@böx"
    shown = presented([(b"authorization", b"Bearer t"), (b"x-fabric-instance", b"x" * 5000)], "::1")
    assert shown is not None
    assert len(shown.instance) == 80


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "", "[::1", "localhost.evil", "é"]
)
def test_a_name_that_is_not_ours_is_answered_by_nobody(served: Served, host: str) -> None:
    reply = served.rpc(HELLO, headers={"Host": host})
    assert reply.status in (400, 421)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:9", "[::1]:8420", "LOCALHOST:1"])
def test_loopback_names_are_ours(served: Served, host: str) -> None:
    assert served.rpc(HELLO, headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1.evil.example"]
)
def test_a_page_of_another_site_causes_nothing(served: Served, origin: str) -> None:
    reply = served.rpc(HELLO, headers={"Origin": origin})
    assert reply.status == 403
    assert reply.json["error"]["facts"]["rule"] == "origin"


def test_our_own_page_may_call(served: Served) -> None:
    assert served.rpc(HELLO, headers={"Origin": served.url}).status == 200


def test_a_public_url_is_one_of_our_names_and_our_origin() -> None:
    sites = Sites(host="0.0.0.0", public_url="https://board.example", allow_remote=True)
    assert sites.knows(b"board.example")
    assert sites.knows(b"192.168.1.5:8420")
    assert not sites.knows(b"evil.example")
    sites.check_origin(b"https://board.example", b"10.0.0.1")


def test_a_host_that_others_can_reach_needs_permission() -> None:
    with pytest.raises(BadInput, match="allow_remote"):
        load(env={}, home=Path("/nonexistent"), overrides={"server.host": "0.0.0.0"})


# ---------------------------------------------------------------- guessing


class Store:
    """One good token; counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def authenticate(self, token: str) -> Caller | None:
        self.asked += 1
        return KIMI if token == "good" else None


class Guesser:
    """A door with a clock, and somebody before it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.store = Store()
        self.door = Door(self.store, failures=5, delay=timedelta(minutes=15), clock=lambda: self.now)  # type: ignore[arg-type]

    def tries(self, token: str, *, user: str | None = None, address: str = "10.0.0.9") -> bool:
        try:
            self.door.admit(Presented(token=token, user=user, address=address, instance=""))
        except NotAuthenticated:
            return False
        return True


def test_after_five_failures_the_store_is_asked_no_more_until_the_delay_is_over() -> None:
    guesser = Guesser()
    for number in range(20):
        assert not guesser.tries(f"wrong{number}", user="kimi")
    assert guesser.store.asked == 5
    assert not guesser.tries("good", user="kimi")
    guesser.now = 15 * 60
    assert guesser.tries("good", user="kimi")


@pytest.mark.parametrize("user", ["jsonrpc", None])
def test_guesses_at_a_secret_that_a_person_chose_are_looked_up_five_times(user: str | None) -> None:
    """However long they are, and however they begin."""
    guesser = Guesser()
    for number in range(50):
        assert not guesser.tries(f"{number:02}-our-house-and-its-app-token-of-the-board", user=user)
    assert guesser.store.asked == 5


def test_a_drawn_token_is_looked_up_however_much_was_guessed_in_its_owners_name() -> None:
    guesser = Guesser()
    for number in range(50):
        assert not guesser.tries(f"wrong{number}", user="kimi")
    guesser.tries(f"fab_{'x' * 43}", user="kimi")
    assert guesser.store.asked == 6


def test_guessing_in_a_neighbours_name_does_not_lock_him_out() -> None:
    guesser = Guesser()
    assert guesser.tries("good", user="kimi")
    for number in range(20):
        guesser.tries(f"wrong{number}", user="kimi")
    assert guesser.tries("good", user="kimi")
    assert guesser.tries("good", user="kimi", address="10.0.0.8")


def test_guessers_take_a_bounded_memory() -> None:
    guesser = Guesser()
    for number in range(12_000):
        guesser.tries("x", user=f"user{number}")
    assert len(guesser.door._guesses._failed) <= 10_000
