"""Which server to ask, and with which token.

``FABRIC_URL`` and ``FABRIC_TOKEN`` from the environment, else both from ``.env`` here: a folder's file never directs
the environment's token to a server of its own. What the one source leaves out comes from the fabric that runs on this
machine: ``runtime.json`` in its home says where, ``credentials`` beside it holds its owner's token.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from taskfabric.domain.errors import BadInput, NotAuthenticated, Unavailable

if TYPE_CHECKING:
    from taskfabric.remote.line import Line

RUNTIME: Final = "runtime.json"
CREDENTIALS: Final = "credentials"
SERVICES: Final = "services.json"  # tokens of the fabric's own services, 0600
WORKERS: Final = "workers.json"  # tokens of the agents whose workers run here, 0600
LOCK: Final = "up.lock"
_NAMES: Final = ("FABRIC_URL", "FABRIC_TOKEN")


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """A server and the caller's token for it."""

    url: str  # without a slash at its end
    token: str = field(repr=False)


def find(env: Mapping[str, str], cwd: Path) -> Where:
    """Raises Unavailable when no server is known, NotAuthenticated when no token for it is."""
    given = {name: env[name] for name in _NAMES if env.get(name)}
    filed = _dotenv(cwd)
    named = given or filed
    url, token = named.get("FABRIC_URL", ""), named.get("FABRIC_TOKEN", "")
    if not url or not token:
        local = home(env, cwd)
        here = str((running(local) or {}).get("url", ""))
        if not url and given and normal(filed.get("FABRIC_URL", here)) != normal(here):
            raise NotAuthenticated(
                f"the environment's FABRIC_TOKEN is not sent to the server that {cwd / '.env'} names",
                next="set FABRIC_URL beside it, or put both into that file",
                url=filed["FABRIC_URL"],
            )
        if not url and not here:
            raise Unavailable(
                f"no fabric runs here (looked in {local})",
                next="start one with `fabric up`, or name a server with FABRIC_URL and FABRIC_TOKEN",
                home=str(local),
            )
        url = url or here
        if not token and normal(url) == normal(here):
            token = str((read(local / CREDENTIALS) or {}).get("token", ""))
    if not token:
        raise NotAuthenticated(
            f"there is no token for {url}",
            next="set FABRIC_TOKEN to one that somebody with access there makes: `fabric token create NAME`",
        )
    return Where(url=normal(url), token=token)


def connect(where: Where) -> Line:
    """The client of that server."""
    from taskfabric.remote.line import Line

    return Line(where.url, where.token, instance=f"fabric@{os.uname().nodename}")


def home(env: Mapping[str, str], cwd: Path) -> Path:
    """The home of the fabric of this place."""
    from taskfabric.home import fabric_home

    return fabric_home(env, cwd)


def normal(url: str) -> str:
    """One spelling for one server. Raises BadInput for what is no address of a server."""
    text = url.strip().rstrip("/")
    scheme, found, rest = text.partition("://")
    if not found or scheme.lower() not in ("http", "https") or not rest or any(c.isspace() for c in rest):
        if not text:
            return ""
        raise BadInput(f"{url[:80]!r} is not the address of a server", next="set FABRIC_URL to http://host:port")
    host, slash, path = rest.partition("/")
    name, colon, port = host.lower().partition(":")
    return f"{scheme.lower()}://{'127.0.0.1' if name == 'localhost' else name}{colon}{port}{slash}{path}"


def read(path: Path) -> dict[str, Any] | None:
    """A JSON object of ours; None when it is absent, unreadable or half-written."""
    try:
        shape = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return shape if isinstance(shape, dict) else None


def is_alive(running: Mapping[str, Any]) -> bool:
    """Whether the process that wrote runtime.json still runs, and is not another one with its number."""
    from taskfabric.surfaces.cli.process import is_running

    return is_running(running.get("pid"), running.get("started_ticks"))


def running(home: Path) -> dict[str, Any] | None:
    """What runtime.json says, if the supervisor that wrote it lives."""
    shape = read(home / RUNTIME)
    return shape if shape is not None and is_alive(shape) else None


def is_held(home: Path) -> bool:
    """Whether a supervisor starts, runs or stops in this home: it holds the lock there as long as it lives."""
    import fcntl

    try:
        with (home / LOCK).open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def reachable(host: str) -> str:
    """How a client on this machine writes the host that a server listens on."""
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def answers(host: str, port: int) -> bool:
    """Whether the server that listens there says that it is well."""
    import http.client

    conn = http.client.HTTPConnection(host, port, timeout=5)
    try:
        conn.request("GET", "/healthz")
        return conn.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        conn.close()


def _dotenv(cwd: Path) -> dict[str, str]:
    """Our two names from ``.env`` here. One that belongs to somebody else is passed over: it could name his server."""
    path = cwd / ".env"
    try:
        if path.stat().st_uid not in (os.geteuid(), 0) or b"FABRIC_" not in path.read_bytes()[:1_000_000]:
            return {}
    except OSError:
        return {}
    from dotenv import dotenv_values

    found = dotenv_values(path, interpolate=False)
    return {name: value for name in _NAMES if (value := found.get(name))}
