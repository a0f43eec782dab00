"""Agent cards over A2A: for everybody, cheap to ask for again, signed where there is a key."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from a2a.types import AgentCard
from a2a.utils.signing import create_signature_verifier
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from google.protobuf.json_format import ParseDict

from taskfabric.domain.errors import BadInput
from taskfabric.settings import load
from taskfabric.surfaces.a2a.cards import Cards
from taskfabric.testing import TestDatabase, TestServer
from tests.integration.calling import Exchange, exchange, hire
from tests.integration.hiring import until

CARD = "/agents/helper/.well-known/agent-card.json"


@pytest.fixture(scope="module")
def agents(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    home = tmp_path_factory.mktemp("home")
    with (
        server.database() as database,
        exchange(database.dsn, home, a2a__default_agent="helper", server__public_url="https://board.example") as made,
    ):
        yield made


def _read(agents: Exchange, path: str = CARD, **headers: str) -> Any:
    return agents.served.request("GET", path, name=None, headers=headers)


def test_a_card_says_where_how_and_with_what_credential(agents: Exchange) -> None:
    """The public URL counts, whatever address it was asked at."""
    card = _read(agents).json
    assert card["supportedInterfaces"] == [
        {"url": "https://board.example/agents/helper", "protocolBinding": binding, "protocolVersion": "1.0"}
        for binding in ("JSONRPC", "HTTP+JSON")
    ]
    assert card["securityRequirements"]
    assert set(card["securitySchemes"]) == {
        name for requirement in card["securityRequirements"] for name in requirement["schemes"]
    }
    ParseDict(card, AgentCard())


def test_a_card_that_has_not_changed_is_not_sent_again(agents: Exchange) -> None:
    first = _read(agents)
    assert first.headers["cache-control"] == "public, max-age=300"
    assert first.headers["last-modified"].endswith("GMT")
    again = _read(agents, **{"If-None-Match": f'W/"x", {first.headers["etag"]}'})
    assert (again.status, again.body) == (304, b"")
    assert agents.served.request("HEAD", CARD, name=None).body == b""


def test_a_changed_file_is_another_card(agents: Exchange) -> None:
    before = _read(agents)
    hire(agents.served, agents.home, "helper", description="Knows more now.", concurrency=16)
    after = until(lambda: got if (got := _read(agents)).body != before.body else None, what="the card changes")
    assert after.headers["etag"] != before.headers["etag"]


def test_the_default_agents_card_stands_at_the_root(agents: Exchange) -> None:
    assert _read(agents, "/.well-known/agent-card.json").json == _read(agents).json


def test_the_path_of_before_is_not_served(agents: Exchange) -> None:
    assert agents.served.request("GET", "/agents/helper/.well-known/agent.json").status == 404


def test_cards_can_be_kept_from_strangers(database: TestDatabase, tmp_path: Path) -> None:
    with exchange(database.dsn, tmp_path, a2a__public_cards=False) as agents:
        assert _read(agents).status == 401
        assert agents.served.request("GET", CARD, name="bob").status == 200
        assert agents.served.request("GET", CARD, name="qwen").status == 404


def test_an_agent_without_an_extended_card_says_so_and_refuses_it(database: TestDatabase, tmp_path: Path) -> None:
    """SEC-EXTCARD-004"""
    with exchange(database.dsn, tmp_path, a2a__extended_card=False) as agents:
        assert _read(agents).json["capabilities"]["extendedAgentCard"] is False
        assert agents.code("GetExtendedAgentCard", {}) == -32004
        assert agents.speak("HTTP+JSON", "GetExtendedAgentCard", {}).status == 400
        assert agents.speak("HTTP+JSON", "GetExtendedAgentCard", {}, name=None).status == 401


def test_a_signed_card_is_what_the_key_says_and_nothing_else(database: TestDatabase, tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    file = tmp_path / "card.pem"
    file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    with exchange(database.dsn, tmp_path, a2a__signing_key=str(file)) as agents:
        card = ParseDict(_read(agents).json, AgentCard())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    verify = create_signature_verifier(lambda kid, jku: public.decode(), ["ES256"])
    verify(card)
    protected = card.signatures[0].protected
    assert set(json.loads(base64.urlsafe_b64decode(protected + "=" * (-len(protected) % 4)))) == {"alg", "kid", "typ"}
    card.description = "somebody else"
    with pytest.raises(Exception, match="signature"):
        verify(card)


def test_a_key_that_is_none_stops_the_server(tmp_path: Path) -> None:
    (tmp_path / "card.pem").write_text("no key")
    settings = load(env={}, home=tmp_path, overrides={"a2a.signing_key": str(tmp_path / "card.pem")})
    with pytest.raises(BadInput, match="signing_key"):
        Cards(settings.a2a, schemes={}, requirements=[])
