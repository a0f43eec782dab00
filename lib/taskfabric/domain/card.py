"""The agent card: the file that describes an agent. Never a task; a bare "card" is a task's face."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import time, timedelta
from enum import StrEnum

from taskfabric.domain.principal import Trust


class CardKind(StrEnum):
    """What carries out the agent's work."""

    MODEL = "model"
    COMMAND = "command"
    PYTHON = "python"
    REMOTE = "remote"
    HUMAN = "human"


class Cost(StrEnum):
    """What a run costs: a flat subscription, electricity, or money per use (off unless the card says so)."""

    FLAT = "flat"
    LOCAL = "local"
    METERED = "metered"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """Any endpoint that LiteLLM speaks."""

    model: str  # as LiteLLM names it, e.g. openai/qwen3
    endpoint: str = ""  # base URL; "" = the provider's own
    key_env: str = ""  # the environment variable that holds the key; "" = none needed
    context_chars: int = 60_000  # budget for refs in the prompt; what does not fit is visibly cut
    max_tokens: int = 4096
    temperature: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSpec:
    """A program, never a shell: the list is the argument vector, in which ``{prompt}``, ``{workspace}`` and
    ``{result}`` are replaced."""

    argv: tuple[str, ...]
    prompt: str = "stdin"  # stdin | argument: how the prompt reaches it
    env: tuple[str, ...] = ()  # names of environment variables granted to it
    paths: tuple[str, ...] = ()  # folders of the owner's home it may read, "~/…"; "+" at the end: write too
    output_cap: int = 1 << 20  # bytes of output kept
    shape: str = "text"  # text | claude-json | kimi-json: how its output is read
    provider: str = ""  # for the limit classifier


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSpec:
    """How a remote agent is told who asks."""

    key_env: str = ""  # the environment variable that holds the credential; "" = none is shown
    header: str = ""  # the header that carries it; "" = Authorization: Bearer


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A quota window of the account that is known beforehand."""

    name: str  # five_hour, daily, …
    length: timedelta
    limit: int  # units in it
    calendar: str = ""  # "" = rolling; day | week | month = resets with the calendar in the card's zone
    reserve: float = 0.2  # share kept for interactive work near the end
    unit: str = "runs"  # runs | tokens | cents (a budget); what is counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Hours:
    """Waking hours, in the card's zone."""

    begin: time
    end: time  # before ``begin``: past midnight
    days: frozenset[int] = frozenset(range(7))  # 0 = Monday


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCard:
    """One agent, as its file says. ``domain.card_file`` reads it strictly; see cards/README.md for every key."""

    name: str
    kind: CardKind
    description: str = ""
    enabled: bool = True
    persona: str = ""  # a folder below cards/personas
    tiers: tuple[str, ...] = ()  # () = every tier
    capabilities: tuple[str, ...] = ()
    cost: Cost = Cost.LOCAL
    allow_metered: bool = False
    trust: Trust = Trust.SANDBOXED
    tools: tuple[str, ...] = ()
    queues: tuple[str, ...] = ("pool",)  # drained beside its own
    lease: timedelta = timedelta(minutes=10)
    concurrency: int = 1
    max_runtime: timedelta = timedelta(hours=1)
    watchdog: timedelta = timedelta(minutes=15)  # no output, event or file for so long: the run is stuck
    account: str = ""  # what its quota belongs to; "" = its own name
    degraded: bool = False  # may answer while the board is away
    zone: str = "UTC"
    model: ModelSpec | None = None
    command: CommandSpec | None = None
    entry: str = ""  # python: "module:function"
    url: str = ""  # remote: the agent's address
    remote: RemoteSpec | None = None
    windows: tuple[Window, ...] = ()
    hours: Hours | None = None
    probe: str = ""  # a URL that must answer, or a command, before it is open
    wake: tuple[str, ...] = ()  # a command that wakes an on-demand node
    idle_stop: timedelta | None = None  # run ``sleep`` after so long without work
    sleep: tuple[str, ...] = ()
    gpu_mb: int = 0
    ram_mb: int = 0
    keep_loaded: bool = False  # never evicted for another
    beside: tuple[str, ...] = ()  # cards it may share a GPU with
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def account_name(self) -> str:
        return self.account or self.name
