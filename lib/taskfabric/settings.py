"""Settings: one frozen object, read once at start, every value checked, every unknown name refused.

Order, later wins: ``config/default.toml`` (complete, so nothing here has a default of its own),
``$FABRIC_HOME/config.toml``, the file named by ``--config`` or ``FABRIC_CONFIG``, the environment, the command line.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, NewType, TypeVar, get_type_hints
from urllib.parse import urlsplit

from taskfabric import assets
from taskfabric.domain.errors import BadInput
from taskfabric.home import fabric_home
from taskfabric.logs import LogFormat, LogLevel, redact
from taskfabric.units import duration, show_duration, show_size, size

__all__ = ["TYPES", "VARIABLES", "Settings", "fabric_home", "load"]

Bytes = NewType("Bytes", int)
Dsn = NewType("Dsn", str)  # shown with its password hidden
Place = NewType("Place", str)  # a Dsn, or the address of a Kanboard
Secret = NewType("Secret", str)  # never shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The one HTTP server."""

    host: str
    port: int  # 0 = any free one
    public_url: str  # "" = http://host:port
    threads: int
    renew_threads: int
    body_limit: Bytes
    wait_cap: timedelta
    allow_remote: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How often a task may end each way that gives its attempt back."""

    parks: int
    waits: int
    releases: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryBackoff:
    """How long a failed task waits: base, base*factor, … up to max."""

    base: timedelta
    factor: float
    max: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The largest score that still is of a tier; above ``medium`` is large."""

    small: int
    medium: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """Where the board is, and its rules about leases and order."""

    url: Place
    kanboard_token: Secret
    database: Dsn
    pool_size: int
    lease: timedelta
    renew_every: timedelta
    max_lease: timedelta
    human_lease: timedelta
    max_attempts: int
    late_result_limit: Bytes
    take_order: tuple[int, ...]
    aging: timedelta
    sweep_per_claim: int
    poll_interval: timedelta
    idle_backoff: timedelta
    notify_per_second: int
    bounds: Bounds
    retry_backoff: RetryBackoff
    score: Score

    @property
    def dsn(self) -> str:
        """The PostgreSQL to use; "" = the embedded one."""
        return self.database if self.kanboard else self.url or self.database

    @property
    def kanboard(self) -> str:
        """The address of the stock Kanboard that is the board; "" = the board is our own."""
        return self.url if self.url.startswith(("http://", "https://")) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How large a task may be, and how many one agent may make."""

    title: int  # characters
    description: Bytes
    note: Bytes
    tags: int
    tag_length: int  # characters
    needs: int
    refs: int
    attachment: Bytes
    per_hour: int
    open_per_agent: int
    depth: int
    fan_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """What is kept of the record."""

    chunk_retention: timedelta
    spending_retention: timedelta
    report_retention: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Jwt:
    """Tokens of an identity provider."""

    issuer: str
    keys: str
    algorithms: tuple[str, ...]
    scope: str
    leeway: timedelta
    keys_for: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Mtls:
    """Client certificates, as a TLS terminator before us has seen them."""

    header: str
    secret_header: str
    secret: Secret
    peers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Auth:
    """How guessing is slowed down, how long a principal stays known without the database, who else may vouch."""

    failures_before_delay: int
    delay: timedelta
    cache: timedelta
    pin_tries: int
    pin_lock: timedelta
    app_token: Secret  # of the user ``jsonrpc`` of Kanboard's API; "" = there is none
    api_key_header: str
    jwt: Jwt
    mtls: Mtls


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeper:
    """How often the keeper and the schedules look, and when a person is reminded."""

    every: timedelta
    cron_every: timedelta
    escalate_after: timedelta
    question_span: timedelta
    zabbix: str  # host:port of a Zabbix server or proxy; "" = none
    zabbix_host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Router:
    """How ``auto`` judges what a task asks for."""

    encoder: bool
    threshold: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """Where changes of cards are told, as Kanboard tells them."""

    url: str  # "" = nowhere
    token: Secret
    allow_private: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class A2A:
    """What callers over A2A may do, and how agents run for them in the server."""

    threads: int
    wait_cap: timedelta
    pickup: timedelta
    body_limit: Bytes
    depth: int
    parts: int
    streams: int
    input_modes: str
    public_cards: bool
    default_agent: str
    streaming: bool
    push: bool
    extended_card: bool
    signing_key: str
    card_max_age: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """How owners of tasks are told by calls to addresses of theirs."""

    allow_hosts: tuple[str, ...]
    per_task: int
    tries: int
    timeout: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What the programs write down, and how much of it is kept."""

    level: LogLevel
    format: LogFormat
    rotate_bytes: Bytes
    keep: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set. Functions receive the values they need, never this object."""

    server: Server
    board: Board
    limits: Limits
    journal: Journal
    auth: Auth
    keeper: Keeper
    router: Router
    webhook: Webhook
    a2a: A2A
    push: Push
    log: Log

    def show(self) -> dict[str, object]:
        """The settings as they would be written in TOML, for ``fabric config show``; passwords are hidden."""
        return _shown(self)


# ---------------------------------------------------------------- values


def _shown(value: object) -> dict[str, object]:
    assert is_dataclass(value)
    hints = get_type_hints(type(value))
    shape: dict[str, object] = {}
    for field in fields(value):
        item = getattr(value, field.name)
        if is_dataclass(item):
            shape[field.name] = _shown(item)
        elif isinstance(item, timedelta):
            shape[field.name] = show_duration(item)
        elif hints[field.name] is Bytes:
            shape[field.name] = show_size(item)
        elif hints[field.name] in (Dsn, Place):
            shape[field.name] = redact(item)
        elif hints[field.name] is Secret:
            shape[field.name] = "(set, not shown)" if item else ""
        elif isinstance(item, tuple):
            shape[field.name] = list(item)
        else:
            shape[field.name] = item
    return shape


def _string(raw: object) -> str:
    if not isinstance(raw, str) or "\0" in raw:
        raise ValueError("a string")
    return raw


def _boolean(raw: object) -> bool:
    known: dict[object, bool] = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if isinstance(raw, bool):
        return raw
    if not isinstance(raw, str) or raw.lower() not in known:
        raise ValueError("true or false")
    return known[raw.lower()]


def _integer(raw: object) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int | str) or not re.fullmatch(r"\d{1,9}", str(raw)):
        raise ValueError("a whole number from 0 to 999999999")
    return int(raw)


def _number(raw: object) -> float:
    if (
        isinstance(raw, bool)
        or not isinstance(raw, int | float | str)
        or not re.fullmatch(r"\d{1,9}(\.\d+)?", str(raw))
    ):
        raise ValueError("a number that is not negative")
    return float(raw)


def _integers(raw: object) -> tuple[int, ...]:
    items = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(items, list):
        raise ValueError("a list of whole numbers")  # noqa: TRY004 (what somebody wrote is wrong, not our call)
    return tuple(_integer(item.strip() if isinstance(item, str) else item) for item in items)


def _strings(raw: object) -> tuple[str, ...]:
    items = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(items, list):
        raise ValueError("a list of strings")  # noqa: TRY004 (what somebody wrote is wrong, not our call)
    return tuple(word for item in items if (word := _string(item).strip()))


def _dsn(raw: object) -> Dsn:
    text = _string(raw)
    if text and not text.startswith(("postgresql://", "postgres://")):
        raise ValueError('"" or a URL that begins with postgresql://')
    return Dsn(text)


def _place(raw: object) -> Place:
    text = _string(raw)
    if text and not text.startswith(("postgresql://", "postgres://", "http://", "https://")):
        raise ValueError('"", a URL that begins with postgresql://, or the http:// address of a Kanboard')
    return Place(text)


_READERS: Final[Mapping[object, Callable[[object], object]]] = {
    str: _string,
    bool: _boolean,
    int: _integer,
    float: _number,
    timedelta: lambda raw: raw if isinstance(raw, timedelta) else duration(_string(raw)),
    Bytes: lambda raw: size(_string(raw)),
    Dsn: _dsn,
    Place: _place,
    Secret: lambda raw: Secret(_string(raw)),
    tuple[int, ...]: _integers,
    tuple[str, ...]: _strings,
    LogLevel: lambda raw: _one_of(LogLevel, raw),
    LogFormat: lambda raw: _one_of(LogFormat, raw),
}

_Word = TypeVar("_Word", LogLevel, LogFormat)


def _one_of(words: type[_Word], raw: object) -> _Word:
    text = _string(raw).lower()
    if text not in set(words):
        raise ValueError("one of " + ", ".join(words))
    return words(text)


# ---------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True, kw_only=True)
class _Raw:
    """A value as it was written, and where."""

    value: object
    source: str


def _types(section: type, prefix: str = "") -> Iterator[tuple[str, object]]:
    """(path, type) of every setting below a section."""
    for name, kind in get_type_hints(section).items():
        if isinstance(kind, type) and is_dataclass(kind):
            yield from _types(kind, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", kind


TYPES: Final[Mapping[str, object]] = dict(_types(Settings))
VARIABLES: Final[Mapping[str, str]] = {
    **{"FABRIC_" + path.upper().replace(".", "_"): path for path in TYPES},
    "FABRIC_BOARD": "board.url",
    "DATABASE_URL": "board.database",
    "KANBOARD_TOKEN": "board.kanboard_token",
}


def _unknown(name: str, known: Mapping[str, object], source: str) -> BadInput:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}?" if close else "`fabric config show` lists every setting"
    return BadInput(f"{source}: there is no setting {name}", next=hint, setting=name, source=source)


def _from_file(file: Path, *, may_be_missing: bool = False) -> dict[str, _Raw]:
    """The settings in a TOML file. Raises BadInput when it cannot be read or holds a name that is not known."""
    try:
        tree = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        if may_be_missing and isinstance(error, FileNotFoundError | NotADirectoryError):
            return {}
        reason = error.strerror or str(error)
        raise BadInput(f"the settings file {file} cannot be read: {reason}", source=str(file)) from error
    except ValueError as error:  # not TOML, or not UTF-8
        raise BadInput(f"the settings file {file} is not valid TOML: {error}", source=str(file)) from error
    return {path: _Raw(value=value, source=str(file)) for path, value in _leaves(tree, str(file))}


def _leaves(tree: Mapping[str, object], source: str, prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in tree.items():
        path = prefix + key
        is_section = any(known.startswith(f"{path}.") for known in TYPES)
        if path in TYPES:
            yield path, value
        elif is_section and isinstance(value, dict):
            yield from _leaves(value, source, f"{path}.")
        elif is_section:
            raise BadInput(f"{source}: {path} is a section, not a value", next=f"write it as [{path}]", setting=path)
        else:
            raise _unknown(path, TYPES, source)


def _from_environment(env: Mapping[str, str]) -> dict[str, _Raw]:
    """The settings among the variables; an empty variable is not set.

    A variable of a section that exists (``FABRIC_SERVER_…``), or that nearly is a setting, and is none, is an error;
    other names that begin with FABRIC_ belong to the programs that read them.
    """
    found: dict[str, _Raw] = {}
    sections = tuple(f"FABRIC_{field.name.upper()}_" for field in fields(Settings))
    for name, value in env.items():
        path = VARIABLES.get(name)
        if path is None:
            near = name.startswith("FABRIC_") and difflib.get_close_matches(name, VARIABLES, n=1, cutoff=0.9)
            if name.startswith(sections) or near:
                raise _unknown(name, VARIABLES, "environment")
        elif value:
            # The long name says more than the short one.
            if path in found and name in ("FABRIC_BOARD", "DATABASE_URL", "KANBOARD_TOKEN"):
                continue
            found[path] = _Raw(value=value, source=name)
    return found


def load(
    *,
    env: Mapping[str, str],
    home: Path,
    config: Path | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Settings:
    """The settings of a fabric whose home is ``home``.

    ``config`` is the file named on the command line (else ``FABRIC_CONFIG``); ``overrides`` are settings given there
    (``{"server.port": 9000}``). Raises BadInput that names the setting, where it was written, and what would be valid.
    """
    named = config or (Path(env["FABRIC_CONFIG"]).expanduser() if env.get("FABRIC_CONFIG") else None)
    raw = _from_file(assets.path("config/default.toml"))
    raw |= _from_file(home / "config.toml", may_be_missing=True)
    if named is not None:
        raw |= _from_file(named)
    raw |= _from_environment(env)
    for path, value in (overrides or {}).items():
        if path not in TYPES:
            raise _unknown(path, TYPES, "command line")
        raw[path] = _Raw(value=value, source="command line")
    if raw["board.renew_every"].value == "auto":
        third = _read("board.lease", timedelta, raw["board.lease"]) / 3
        raw["board.renew_every"] = _Raw(value=third, source=raw["board.lease"].source)
    settings = _build(Settings, raw)
    for broken in _contradictions(settings):
        raise BadInput(broken, next="`fabric config show` prints what is in force", setting=broken.split()[0])
    return settings


_Value = TypeVar("_Value")


def _read(path: str, kind: type[_Value], raw: _Raw) -> _Value:
    try:
        value = _READERS[kind](raw.value)
    except ValueError as error:
        given = "what was given" if kind is Secret else redact(repr(raw.value))[:80]
        raise BadInput(f"{raw.source}: {path} must be {error}, not {given}", setting=path, source=raw.source) from error
    return value  # type: ignore[return-value]  # the reader in the table under a type returns that type


def _build(section: Callable[..., _Value], raw: Mapping[str, _Raw], prefix: str = "") -> _Value:
    values: dict[str, object] = {}
    for name, kind in get_type_hints(section).items():
        path = prefix + name
        is_section = isinstance(kind, type) and is_dataclass(kind)
        values[name] = _build(kind, raw, f"{path}.") if is_section else _read(path, kind, raw[path])
    return section(**values)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _contradictions_of_foreigners(server: Server, auth: Auth) -> Iterator[tuple[bool, str]]:
    """What would let in whom nobody has checked, or nobody at all."""
    jwt, mtls, header = auth.jwt, auth.mtls, re.compile(r"[A-Za-z][A-Za-z0-9-]{1,63}")
    yield (
        not auth.api_key_header
        or (header.fullmatch(auth.api_key_header) is not None and auth.api_key_header.lower() != "authorization"),
        'auth.api_key_header must be the name of a header such as "X-API-Key", or ""',
    )
    yield (not jwt.keys or bool(jwt.issuer), "auth.jwt.keys needs auth.jwt.issuer, whose tokens they prove")
    yield (
        not jwt.issuer or _is_guarded_url(jwt.issuer),
        "auth.jwt.issuer must be an https:// address (http:// only on this machine)",
    )
    yield (
        "://" not in jwt.keys or _is_guarded_url(jwt.keys),
        "auth.jwt.keys must be a file or an https:// address (http:// only on this machine)",
    )
    yield (
        not jwt.issuer or bool(server.public_url),
        "server.public_url must be set with auth.jwt: a token counts for the agent's address below it",
    )
    yield (
        bool(jwt.algorithms) and set(jwt.algorithms) <= _ALGORITHMS,
        f"auth.jwt.algorithms must be some of {', '.join(sorted(_ALGORITHMS))}",
    )
    yield (jwt.leeway <= timedelta(minutes=5), "auth.jwt.leeway must be at most 5m")
    yield (
        not mtls.header
        or (
            len(mtls.secret) >= 16
            and bool(mtls.peers)
            and header.fullmatch(mtls.header) is not None
            and header.fullmatch(mtls.secret_header) is not None
        ),
        "auth.mtls.header needs auth.mtls.peers and an auth.mtls.secret of 16 characters: else anybody could write it",
    )


_ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)


def _is_guarded_url(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname or ""))


def _contradictions(settings: Settings) -> Iterator[str]:
    """Each combination that cannot work, as a sentence that begins with the setting to change."""
    server, board, limits, auth = settings.server, settings.board, settings.limits, settings.auth
    rules: tuple[tuple[bool, str], ...] = (
        (server.port <= 65535, "server.port must be at most 65535"),
        (server.threads >= 1, "server.threads must be at least 1"),
        (server.renew_threads >= 1, "server.renew_threads must be at least 1, or load would cost leases"),
        (
            server.allow_remote or _is_loopback(server.host),
            f"server.host {server.host!r} can be reached from other machines, and server.allow_remote is false",
        ),
        (
            not server.public_url or re.fullmatch(r"https?://[^\s?#]*[^\s?#/]", server.public_url) is not None,
            "server.public_url must be an http:// or https:// address without a slash at its end",
        ),
        (
            server.body_limit >= limits.attachment * 4 // 3 + 2**16,
            "server.body_limit must hold limits.attachment in base64 (four thirds of it, and 64KiB)",
        ),
        (board.pool_size > server.renew_threads, "board.pool_size must be larger than server.renew_threads"),
        (
            board.renew_every <= board.lease / 3,
            "board.renew_every must be at most a third of board.lease, or one lost renewal loses the lease",
        ),
        (board.max_attempts >= 1, "board.max_attempts must be at least 1"),
        (sorted(board.take_order) == [0, 1, 2, 3], "board.take_order must hold 0, 1, 2 and 3, each once"),
        (board.max_lease >= board.lease, "board.max_lease must be at least board.lease, which every agent gets"),
        (board.sweep_per_claim >= 1, "board.sweep_per_claim must be at least 1, or expired leases would stay"),
        (board.idle_backoff >= board.poll_interval, "board.idle_backoff must not be shorter than board.poll_interval"),
        (board.notify_per_second >= 1, "board.notify_per_second must be at least 1"),
        (board.retry_backoff.factor >= 1, "board.retry_backoff.factor must be at least 1"),
        (
            board.retry_backoff.max >= board.retry_backoff.base,
            "board.retry_backoff.max must not be shorter than board.retry_backoff.base",
        ),
        (board.score.medium > board.score.small, "board.score.medium must be larger than board.score.small"),
        (
            settings.journal.spending_retention >= timedelta(days=32),
            "journal.spending_retention must be at least 32d, or the use of a month could not be counted",
        ),
        (settings.router.threshold <= 1, "router.threshold must lie between 0 and 1"),
        (limits.title >= 1, "limits.title must be at least 1"),
        (settings.a2a.threads >= 1, "a2a.threads must be at least 1"),
        (
            timedelta(seconds=1) <= settings.a2a.wait_cap <= timedelta(minutes=10),
            "a2a.wait_cap must lie between 1s and 10m",
        ),
        (1 <= settings.a2a.depth <= 100, "a2a.depth must lie between 1 and 100"),
        (settings.a2a.parts >= 1, "a2a.parts must be at least 1"),
        (1 <= settings.push.per_task <= 100, "push.per_task must lie between 1 and 100"),
        (1 <= settings.push.tries <= 100, "push.tries must lie between 1 and 100"),
        (
            timedelta(seconds=1) <= settings.push.timeout <= timedelta(seconds=30),
            "push.timeout must lie between 1s and 30s, or one delivery would overtake another",
        ),
        (auth.failures_before_delay >= 1, "auth.failures_before_delay must be at least 1"),
        (
            re.fullmatch(r"(?:https?://[^\s/@?#]+(?:[/?]\S*)?)?", settings.webhook.url) is not None,
            'webhook.url must be "" or an address that begins with http:// or https://',
        ),
        (
            re.fullmatch(r"([\x21-\x7e]{32,128})?", auth.app_token) is not None,
            'auth.app_token must be "" or 32 to 128 characters without a space',
        ),
        (auth.pin_tries >= 1, "auth.pin_tries must be at least 1"),
        *_contradictions_of_foreigners(server, auth),
        (
            timedelta(seconds=1) <= settings.keeper.every <= board.lease,
            "keeper.every must lie between 1s and board.lease",
        ),
        (
            timedelta(seconds=1) <= settings.keeper.cron_every <= timedelta(minutes=5),
            "keeper.cron_every must lie between 1s and 5m, or slots would come late",
        ),
        (
            not settings.keeper.zabbix or re.fullmatch(r"[^\s:/]+:\d{1,5}", settings.keeper.zabbix) is not None,
            'keeper.zabbix must be written host:port, or be ""',
        ),
    )
    return (sentence for holds, sentence in rules if not holds)
