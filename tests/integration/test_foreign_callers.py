"""Callers for whom somebody else vouches: every wrong way to show it, and that it counts for one agent alone."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from taskfabric.domain.errors import BadInput, NotAuthenticated, Refused, Unavailable
from taskfabric.domain.principal import Kind, Trust, Via
from taskfabric.ports.credentials import NewPrincipal
from taskfabric.settings import Settings, load
from taskfabric.stores.jwks import KeySet
from taskfabric.surfaces import schemes
from taskfabric.surfaces.auth import Door, presented
from taskfabric.surfaces.schemes import Schemes
from taskfabric.testing import TestDatabase, TestServer
from taskfabric.wiring import SYSTEM, House, build, check_guarded, first_human

ISSUER = "https://login.example"
PUBLIC = "https://board.example"
SECRET = "a-word-of-sixteen-or-more"
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CURVE = ec.generate_private_key(ec.SECP256R1())


def jwk(key: Any, kid: str, algorithm: str) -> dict[str, Any]:
    maker = jwt.algorithms.ECAlgorithm if algorithm.startswith("ES") else jwt.algorithms.RSAAlgorithm
    return {**maker.to_jwk(key.public_key(), as_dict=True), "kid": kid, "alg": algorithm, "use": "sig"}


KEYS = {"keys": [jwk(RSA, "r1", "RS256"), jwk(CURVE, "e1", "ES256")]}


def token(key: Any = RSA, *, kid: str | None = "r1", algorithm: str = "RS256", **claims: Any) -> str:
    """A good token of alice's for the agent echo, but for what is said."""
    plain = {
        "iss": ISSUER,
        "sub": "idp|alice",
        "aud": f"{PUBLIC}/agents/echo",
        "exp": int(time.time()) + 300,
        "scope": "openid a2a",
    }
    whole = {name: value for name, value in (plain | claims).items() if value is not None}
    return jwt.encode(whole, key, algorithm=algorithm, headers={"kid": kid} if kid else {})


class Gate:
    """The door with everything switched on, and requests that come to it."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.schemes = Schemes.of(house.settings)
        auth = house.settings.auth
        self.door = Door(
            house.credentials, failures=auth.failures_before_delay, delay=auth.delay, foreign=house.foreign
        )

    def enter(
        self, *headers: tuple[str, str], path: str = "/agents/echo/", address: str = "198.51.100.7"
    ) -> tuple[str, Via]:
        """Who comes in, and as what. Raises NotAuthenticated, Refused."""
        raw = [(name.lower().encode(), value.encode()) for name, value in headers]
        shown = presented(raw, address, schemes=self.schemes, path=path)
        if shown is None:
            raise NotAuthenticated("nothing was shown")
        caller = self.door.admit(shown)
        return caller.principal.name, caller.via

    def bearer(self, token: str, **more: Any) -> str:
        return self.enter(("Authorization", f"Bearer {token}"), **more)[0]

    def certificate(self, subject: str, secret: str = SECRET, *more: tuple[str, str], **where: Any) -> str:
        where.setdefault("address", "192.0.2.10")
        return self.enter(("X-Client-Subject", subject), ("X-Terminator-Secret", secret), *more, **where)[0]

    def token_of(self, name: str) -> str:
        found = self.house.credentials.principal(name)
        assert found is not None
        return self.house.credentials.create_token(found.id, name="t", via=Via.TOKEN, stamp=SYSTEM)[0]


def settings_of(folder: Path, **more: object) -> Settings:
    (folder / "keys.json").write_text(json.dumps(KEYS))
    overrides: dict[str, object] = {
        "server.public_url": PUBLIC,
        "auth.api_key_header": "X-API-Key",
        "auth.jwt.issuer": ISSUER,
        "auth.jwt.keys": str(folder / "keys.json"),
        "auth.jwt.scope": "a2a",
        "auth.mtls.header": "X-Client-Subject",
        "auth.mtls.secret": SECRET,
        "auth.mtls.peers": ["192.0.2.10"],
    }
    return load(env={}, home=folder, overrides=overrides | {k.replace("__", "."): v for k, v in more.items()})


IDENTITIES = """
[jwt]
"idp|alice" = "alice"
"idp|nobody" = "nobody"
[mtls]
"CN=kimi,O=House" = "kimi"
"CN=alice" = "alice"
"""


@contextlib.contextmanager
def opened(dsn: str, folder: Path) -> Iterator[Gate]:
    (folder / "identities.toml").write_text(IDENTITIES)
    with contextlib.closing(build(settings_of(folder), dsn, home=folder, name="test")) as house:
        first_human(house, "alice")
        house.credentials.add_principal(NewPrincipal(name="kimi", kind=Kind.AGENT, trust=Trust.SANDBOXED), SYSTEM)
        yield Gate(house)


@pytest.fixture
def gate(database: TestDatabase, tmp_path: Path) -> Iterator[Gate]:
    with opened(database.dsn, tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def standing(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """One gate for all tests that change nothing."""
    with server.database() as database, opened(database.dsn, tmp_path_factory.mktemp("home")) as made:
        yield made


# ---------------------------------------------------------------- tokens of a provider


def test_a_token_of_the_provider_is_the_account_that_the_file_names(gate: Gate) -> None:
    assert gate.enter(("Authorization", f"Bearer {token()}")) == ("alice", Via.TOKEN)
    assert gate.bearer(token(CURVE, kid="e1", algorithm="ES256")) == "alice"
    assert gate.bearer(token(aud=["https://else.example", f"{PUBLIC}/agents/echo/"])) == "alice"
    assert gate.bearer(token(scope=None, scp=["a2a"])) == "alice"


def hmac_with_public_key() -> str:
    """The oldest trick: the public key taken for a shared secret."""
    import base64
    import hashlib
    import hmac

    def part(value: object) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    claims = {"iss": ISSUER, "sub": "idp|alice", "aud": f"{PUBLIC}/agents/echo", "exp": int(time.time()) + 300}
    body = part({"alg": "HS256", "kid": "r1"}) + b"." + part(claims)
    secret = json.dumps(KEYS["keys"][0]).encode()
    sign = base64.urlsafe_b64encode(hmac.new(secret, body, hashlib.sha256).digest()).rstrip(b"=")
    return (body + b"." + sign).decode()


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda: token(OTHER), id="another-key"),
        pytest.param(lambda: token(kid="r2"), id="unknown-key"),
        pytest.param(lambda: token(OTHER, kid=None), id="no-key-named"),
        pytest.param(lambda: token(algorithm="RS512"), id="algorithm-not-allowed"),
        pytest.param(lambda: token(CURVE, kid="r1", algorithm="ES256"), id="key-of-another-kind"),
        pytest.param(lambda: jwt.encode({"sub": "idp|alice"}, "", algorithm="none"), id="unsigned"),
        pytest.param(hmac_with_public_key, id="public-key-as-secret"),
        pytest.param(lambda: token(exp=int(time.time()) - 120), id="expired"),
        pytest.param(lambda: token(exp=None), id="without-an-end"),
        pytest.param(lambda: token(nbf=int(time.time()) + 600), id="not-yet"),
        pytest.param(lambda: token(iss="https://evil.example"), id="another-issuer"),
        pytest.param(lambda: token(aud=f"{PUBLIC}/agents/other"), id="another-agent"),
        pytest.param(lambda: token(aud=PUBLIC), id="the-whole-board"),
        pytest.param(lambda: token(aud=f"{PUBLIC}/agents/echo/../other"), id="a-longer-path"),
        pytest.param(lambda: token(aud=None), id="without-audience"),
        pytest.param(lambda: token(sub=None), id="without-subject"),
        pytest.param(lambda: token(sub="idp|mallory"), id="unknown-subject"),
        pytest.param(lambda: token(sub="idp|nobody"), id="no-such-account"),
        pytest.param(lambda: token(sub="alice"), id="an-account-is-no-subject"),
        pytest.param(lambda: token()[:-6] + "AAAAAA", id="broken-signature"),
        pytest.param(lambda: "a.b.c", id="nonsense"),
        pytest.param(lambda: "..", id="empty"),
    ],
)
def test_every_wrong_token_is_refused_alike(standing: Gate, wrong: Any) -> None:
    """SEC-AUTH: missing, invalid, expired, foreign."""
    with pytest.raises(NotAuthenticated, match="not, or no longer, valid"):
        standing.bearer(wrong())


def test_a_token_without_the_scope_is_known_and_still_refused(gate: Gate) -> None:
    for scope in ("openid", "", None, "a2ab"):
        with pytest.raises(Refused) as refused:
            gate.bearer(token(scope=scope))
        assert refused.value.facts["rule"] == "scope"
        assert not isinstance(refused.value, NotAuthenticated)


def test_a_token_counts_for_agents_and_nowhere_else(gate: Gate) -> None:
    for path in ("/jsonrpc.php", "/events", "/agents/other/", "/agents/../jsonrpc.php", "/agents/"):
        with pytest.raises(NotAuthenticated):
            gate.bearer(token(), path=path)


def test_a_disabled_account_is_nobody_whatever_its_token_says(gate: Gate) -> None:
    alice = gate.house.credentials.principal("alice")
    assert alice is not None
    gate.house.credentials.set_active(alice.id, False, SYSTEM)
    with pytest.raises(NotAuthenticated):
        gate.bearer(token())


def test_a_name_that_is_taken_out_of_the_file_is_nobody_at_once(gate: Gate, tmp_path: Path) -> None:
    assert gate.bearer(token()) == "alice"
    (tmp_path / "identities.toml").write_text("[jwt]\n")
    with pytest.raises(NotAuthenticated):
        gate.bearer(token())


def test_a_broken_file_leaves_the_last_good_one_in_force(gate: Gate, tmp_path: Path) -> None:
    assert gate.bearer(token()) == "alice"
    (tmp_path / "identities.toml").write_text('[jwtt]\n"x" = "y"\n')
    assert gate.bearer(token()) == "alice"


# ---------------------------------------------------------------- keys from an address


class Provider:
    """An identity provider on the loopback."""

    def __init__(self) -> None:
        self.keys: Mapping[str, Any] = KEYS
        self.status = 200
        self.issuer = ""
        self.asked: list[str] = []


@contextlib.contextmanager
def provided() -> Iterator[Provider]:
    provider = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            provider.asked.append(self.path)
            document = {"issuer": provider.issuer, "jwks_uri": f"{here}/keys"}
            body = json.dumps(document if "well-known" in self.path else provider.keys).encode()
            self.send_response(provider.status)
            self.send_header("Location", f"{here}/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    here = f"http://127.0.0.1:{server.server_address[1]}"
    provider.issuer = here
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_keys_come_from_the_issuers_own_document_and_are_kept() -> None:
    with provided() as provider:
        keys = KeySet("", issuer=provider.issuer, fresh=600)
        assert keys.find("r1", "RS256") is not None
        assert keys.find("e1", "ES256") is not None
    assert provider.asked == ["/.well-known/openid-configuration", "/keys"]


def test_a_document_of_another_issuer_is_not_believed() -> None:
    with provided() as provider:
        keys = KeySet("", issuer=provider.issuer, fresh=600)
        provider.issuer = "https://evil.example"
        with pytest.raises(Unavailable):
            keys.find("r1", "RS256")


def test_unknown_keys_make_us_ask_twice_a_minute_at_most() -> None:
    now = [0.0]
    with provided() as provider:
        keys = KeySet(f"{provider.issuer}/keys", issuer="x", fresh=600, clock=lambda: now[0])
        for number in range(50):
            assert keys.find(f"invented-{number}", "RS256") is None
        assert len(provider.asked) == 1
        provider.keys = {"keys": [jwk(OTHER, "r2", "RS256")]}
        now[0] = 31.0
        assert keys.find("r2", "RS256") is not None
        assert len(provider.asked) == 2


def test_while_the_provider_is_away_its_last_keys_count_for_an_hour() -> None:
    now = [0.0]
    with provided() as provider:
        keys = KeySet(f"{provider.issuer}/keys", issuer="x", fresh=600, clock=lambda: now[0])
        assert keys.find("r1", "RS256") is not None
        provider.status = 500
        now[0] = 3000.0
        assert keys.find("r1", "RS256") is not None
        now[0] = 5000.0
        with pytest.raises(Unavailable):
            keys.find("r1", "RS256")


def test_a_redirect_to_other_keys_is_not_followed() -> None:
    with provided() as provider:
        provider.status = 302
        with pytest.raises(Unavailable):
            KeySet(f"{provider.issuer}/keys", issuer="x", fresh=600).find("r1", "RS256")
    assert provider.asked == ["/keys"]


def test_a_shared_secret_among_the_keys_is_none() -> None:
    with provided() as provider:
        provider.keys = {"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "s"}]}
        assert KeySet(f"{provider.issuer}/keys", issuer="x", fresh=600).find("s", "RS256") is None


# ---------------------------------------------------------------- API keys


def test_a_token_may_stand_in_the_header_for_keys(gate: Gate) -> None:
    ours = gate.token_of("kimi")
    assert gate.enter(("X-API-Key", ours))[0] == "kimi"
    gate.house.credentials.revoke_all(gate.house.credentials.principal("kimi").id, SYSTEM)  # type: ignore[union-attr]
    for wrong in (ours, "fab_wrong", ""):
        with pytest.raises(NotAuthenticated):
            gate.enter(("X-API-Key", wrong))


def test_two_credentials_are_none(gate: Gate) -> None:
    ours = gate.token_of("kimi")
    for headers in (
        (("X-API-Key", ours), ("Authorization", f"Bearer {ours}")),
        (("X-API-Key", ours), ("X-API-Key", ours)),
        (("Authorization", f"Bearer {ours}"), ("Authorization", f"Bearer {ours}")),
    ):
        with pytest.raises(NotAuthenticated, match="nothing was shown"):
            gate.enter(*headers)


def test_what_is_not_switched_on_does_not_count(gate: Gate) -> None:
    gate.schemes = Schemes()
    for header in (("X-API-Key", gate.token_of("kimi")), ("X-Client-Subject", "CN=kimi,O=House")):
        with pytest.raises(NotAuthenticated, match="nothing was shown"):
            gate.enter(header, ("X-Terminator-Secret", SECRET), address="192.0.2.10")


# ---------------------------------------------------------------- certificates


def test_a_certificate_that_the_terminator_has_seen_is_the_account_that_the_file_names(gate: Gate) -> None:
    assert gate.certificate("CN=kimi,O=House") == "kimi"
    assert gate.certificate("CN=kimi,O=House", address="::ffff:192.0.2.10") == "kimi"


def test_the_header_of_anybody_else_means_nothing(gate: Gate) -> None:
    kimi = "CN=kimi,O=House"
    for attempt in (
        lambda: gate.certificate(kimi, address="198.51.100.7"),
        lambda: gate.certificate(kimi, "wrong"),
        lambda: gate.certificate(kimi, ""),
        lambda: gate.enter(("X-Client-Subject", kimi), address="192.0.2.10"),
        lambda: gate.certificate(kimi, SECRET, ("X-Client-Subject", "CN=alice")),
        lambda: gate.certificate(kimi, SECRET, ("X-Terminator-Secret", SECRET)),
        lambda: gate.certificate("CN=mallory"),
        lambda: gate.certificate(""),
        lambda: gate.certificate("C" * 2000),
        lambda: gate.certificate(kimi, path="/jsonrpc.php"),
    ):
        with pytest.raises(NotAuthenticated):
            attempt()


def test_a_forged_header_takes_nothing_from_a_good_token(gate: Gate) -> None:
    ours = ("Authorization", f"Bearer {gate.token_of('kimi')}")
    assert gate.certificate("CN=alice", "wrong", ours, address="198.51.100.7") == "kimi"


def test_a_token_behind_a_certificate_must_be_the_same_ones(gate: Gate) -> None:
    ours = ("Authorization", f"Bearer {gate.token_of('kimi')}")
    assert gate.certificate("CN=kimi,O=House", SECRET, ours) == "kimi"
    with pytest.raises(NotAuthenticated, match="same one"):
        gate.certificate("CN=alice", SECRET, ours)


# ---------------------------------------------------------------- what a card tells, and what may not be configured


def test_the_card_names_what_is_switched_on_and_nothing_else(tmp_path: Path) -> None:
    plain, alone = schemes.told(load(env={}, home=tmp_path))
    assert (list(plain), alone) == (["bearer"], [{"schemes": {"bearer": {"list": []}}}])
    all_of_them, any_of = schemes.told(settings_of(tmp_path))
    assert list(all_of_them) == ["bearer", "apiKey", "jwt", "mtls"]
    assert {"schemes": {"jwt": {"list": ["a2a"]}}} in any_of
    found, _ = schemes.told(settings_of(tmp_path, auth__jwt__keys=""))
    url = found["jwt"]["openIdConnectSecurityScheme"]["openIdConnectUrl"]
    assert url == f"{ISSUER}/.well-known/openid-configuration"


@pytest.mark.parametrize(
    "more",
    [
        {"auth__mtls__secret": ""},
        {"auth__mtls__secret": "short"},
        {"auth__mtls__peers": []},
        {"auth__mtls__header": "a b"},
        {"auth__jwt__issuer": "http://login.example"},
        {"auth__jwt__keys": "http://login.example/keys"},
        {"auth__jwt__issuer": ""},
        {"auth__jwt__algorithms": ["HS256"]},
        {"auth__jwt__algorithms": ["none"]},
        {"auth__jwt__algorithms": []},
        {"auth__jwt__leeway": "1h"},
        {"auth__api_key_header": "Authorization"},
        {"auth__api_key_header": "X-Key: 1"},
        {"server__public_url": ""},
    ],
)
def test_a_configuration_that_would_let_in_anybody_is_refused(tmp_path: Path, more: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        settings_of(tmp_path, **more)


def test_the_terminators_secret_is_never_shown(tmp_path: Path) -> None:
    assert SECRET not in str(settings_of(tmp_path).show())


def test_a_server_for_other_machines_does_not_start_while_nobody_has_a_token(
    database: TestDatabase, tmp_path: Path
) -> None:
    open_to_all = load(env={}, home=tmp_path, overrides={"server.host": "0.0.0.0", "server.allow_remote": True})
    with contextlib.closing(build(open_to_all, database.dsn, home=tmp_path, name="test")) as house:
        with pytest.raises(BadInput, match="nobody has a token"):
            check_guarded(house)
        first_human(house, "alice")
        check_guarded(house)
