"""What can be set: a section a class, and how the settings are shown."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from datetime import timedelta
from typing import NewType, get_type_hints

from taskfabric.logs import LogFormat, LogLevel, redact
from taskfabric.units import show_duration, show_size

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
