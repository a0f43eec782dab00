"""Every way to show who one is, on a real server: every operation with what is missing, wrong, over or not enough."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import jwt
import pytest

from taskfabric.stores.identities import read
from taskfabric.testing import TestServer
from tests.integration.calling import Exchange, exchange, message, shape
from tests.integration.test_a2a_auth import METHODS, params
from tests.integration.test_foreign_callers import ISSUER, KEYS, OTHER, PUBLIC, SECRET, token

HELPER: Final = f"{PUBLIC}/agents/helper"
Headers = dict[str, str]


def bearer(credential: str) -> Headers:
    return {"Authorization": f"Bearer {credential}"}


def seen(subject: str, secret: str = SECRET) -> Headers:
    return {"X-Client-Subject": subject, "X-Terminator-Secret": secret}


@pytest.fixture(scope="module")
def agents(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    """A server that knows all of them; the terminator is this machine."""
    home: Path = tmp_path_factory.mktemp("home")
    (home / "keys.json").write_text(json.dumps(KEYS))
    (home / "identities.toml").write_text('[jwt]\n"idp|alice" = "alice"\n[mtls]\n"CN=alice,O=House" = "alice"\n')
    switched_on: dict[str, Any] = {
        "server__public_url": PUBLIC,
        "auth__api_key_header": "X-API-Key",
        "auth__jwt__issuer": ISSUER,
        "auth__jwt__keys": str(home / "keys.json"),
        "auth__jwt__scope": "a2a",
        "auth__mtls__header": "X-Client-Subject",
        "auth__mtls__secret": SECRET,
        "auth__mtls__peers": ["127.0.0.1"],
    }
    with server.database() as database, exchange(database.dsn, home, **switched_on) as made:
        yield made


def test_each_of_them_is_alice_and_sees_her_tasks(agents: Exchange) -> None:
    task = agents.send("hello")["id"]
    for headers in (
        bearer(token(aud=HELPER)),
        {"X-API-Key": agents.served.tokens["alice"]},
        seen("CN=alice,O=House"),
        seen("CN=alice,O=House") | bearer(token(aud=HELPER)),
    ):
        answer = agents.post(shape("GetTask", {"id": task}), name=None, headers=headers)
        assert (answer.status, answer.json["result"]["id"]) == (200, task)


def test_two_credentials_at_once_are_none_and_that_is_said(agents: Exchange) -> None:
    both = bearer(agents.served.tokens["alice"]) | {"X-API-Key": agents.served.tokens["alice"]}
    answer = agents.post(shape("GetTask", {"id": "x"}), name=None, headers=both)
    assert (answer.status, answer.json["error"]["message"]) == (401, "more than one credential was sent")


def test_the_readmes_example_of_identities_is_read() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    example = readme.partition("# identities.toml\n")[2].partition("```")[0]
    assert read(example, "README.md") == {("jwt", "auth0|5f7c8e"): "alice", ("mtls", "CN=kimi,O=House"): "kimi"}


WRONG: Final[dict[str, Any]] = {
    "nothing": lambda: {},
    "a token of another key": lambda: bearer(token(OTHER, aud=HELPER)),
    "a token for another agent": lambda: bearer(token(aud=f"{PUBLIC}/agents/other")),
    "a token of another issuer": lambda: bearer(token(aud=HELPER, iss="https://evil.example")),
    "a token that has ended": lambda: bearer(token(aud=HELPER, exp=int(time.time()) - 90)),
    "an unsigned token": lambda: bearer(jwt.encode({"sub": "idp|alice", "aud": HELPER}, "", algorithm="none")),
    "a stranger's token": lambda: bearer(token(aud=HELPER, sub="idp|mallory")),
    "a wrong key": lambda: {"X-API-Key": "fab_wrong"},
    "a provider's token as a password": lambda: {"Authorization": f"Digest {token(aud=HELPER)}"},
    "a forged certificate": lambda: seen("CN=alice,O=House", "not-the-terminators-word"),
    "a stranger's certificate": lambda: seen("CN=mallory"),
    "somebody else's certificate and her token": lambda: seen("CN=mallory") | bearer(token(aud=HELPER)),
}


@pytest.mark.parametrize("kind", WRONG)
def test_no_operation_is_open_to_a_wrong_one(agents: Exchange, kind: str) -> None:
    """SEC-AUTH-001, -002, -004, SEC-EXTCARD-001: 401, whatever is asked, and nothing on the board."""
    rows = agents.rows()
    for method in METHODS:
        answer = agents.post(shape(method, params(method, "x")), name=None, headers=WRONG[kind]())
        assert answer.status == 401, (method, answer.body)
        assert "www-authenticate" in answer.headers
    assert agents.rows() == rows


def test_no_operation_is_open_to_a_token_without_the_scope(agents: Exchange) -> None:
    """SEC-AUTH-003: known, and not allowed: 403."""
    rows = agents.rows()
    for method in METHODS:
        body = shape(method, params(method, "x"))
        assert agents.post(body, name=None, headers=bearer(token(aud=HELPER, scope="openid"))).status == 403, method
    assert agents.rows() == rows


def test_a_providers_token_opens_nothing_but_its_agent(agents: Exchange) -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "fabric.hello", "params": {}}
    good = bearer(token(aud=HELPER))
    assert agents.post(hello, name=None, headers=good, path="/jsonrpc.php").status == 401
    assert agents.post(hello, name=None, headers=seen("CN=alice,O=House"), path="/jsonrpc.php").status == 401
    assert agents.served.request("GET", "/events", name=None, headers=good).status == 401
    assert agents.post(shape("ListTasks", {}), name=None, headers=good, agent="other").status == 401


def test_the_card_tells_which_of_them_it_takes(agents: Exchange) -> None:
    card = agents.served.request("GET", "/agents/helper/.well-known/agent-card.json", name=None).json
    assert set(card["securitySchemes"]) == {"bearer", "apiKey", "jwt", "mtls"}
    assert card["securitySchemes"]["apiKey"]["apiKeySecurityScheme"]["name"] == "X-API-Key"
    assert {"schemes": {"jwt": {"list": ["a2a"]}}} in card["securityRequirements"]


def test_the_secrets_of_a_caller_reach_no_task_and_no_event(agents: Exchange) -> None:
    shown = token(aud=HELPER)
    body = shape("SendMessage", {"message": message("hello")})
    assert agents.post(body, name=None, headers=bearer(shown)).status == 200
    with agents.served.house.database.connection() as conn:
        for table in ("tasks", "comments", "journal", "a2a_events", "chunks"):
            rows = conn.execute(f"SELECT x::text FROM {table} x").fetchall()
            assert shown[-40:] not in str(rows)
            assert SECRET not in str(rows)
