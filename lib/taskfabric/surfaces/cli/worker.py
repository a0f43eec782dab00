"""``fabric worker NAME``: the worker of one agent card in the foreground, on this machine, for whichever server.

It runs with a token of the agent's own: the one of the environment, the one that the local fabric keeps for its
workers, or one that is made for it now and kept for the next time.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import sys
from pathlib import Path
from typing import Final

from taskfabric.domain.errors import BadInput, FabricError, Unavailable
from taskfabric.surfaces.cli.command import Command, Context, Parser
from taskfabric.surfaces.cli.leases import state_folder
from taskfabric.surfaces.cli.where import WORKERS, find, read, running


def _worker(ctx: Context, args: argparse.Namespace) -> int:
    """Become the worker's process. Raises NotFound for a card that is not there, BadInput for one without a worker."""
    name: str = args.name
    where = find(ctx.env, ctx.cwd)
    token = where.token if ctx.ask("hello")["name"] == name else _token(ctx, name, where.url)
    env = {**ctx.env, "FABRIC_URL": where.url, "FABRIC_TOKEN": token}
    words = [name]
    words += [f"--{option}" for option in ("once", "json") if getattr(args, option)]
    ctx.out.flush()
    os.execve(sys.executable, [sys.executable, "-P", "-m", "workers.main", *words], env)


def _token(ctx: Context, name: str, url: str) -> str:
    """A token of this agent's that the server takes."""
    card = ctx.ask("card", name=name)["card"]
    if card["kind"] == "human":
        raise BadInput(f"{name} is a human, who needs no worker", next="`fabric claim` takes a task of yours")
    if card.get("enabled") is False:
        raise BadInput(f"the card of {name} is not enabled", next=f"set enabled = true in {name}.toml")
    kept = _kept_file(ctx, name, url)
    for token in (_of_home(ctx, name, url), str((read(kept) or {}).get("token", ""))):
        if token and _works(url, token, name):
            return token
    made = str(ctx.ask("token.create", name=name, label=f"worker on {os.uname().nodename}")["token"])
    _keep(kept, made)
    return made


def _of_home(ctx: Context, name: str, url: str) -> str:
    """What the fabric that runs here keeps for its own workers, if it is that server."""
    home = ctx.home()
    if (running(home) or {}).get("url") != url:
        return ""
    return str((read(home / WORKERS) or {}).get(name, ""))


def _works(url: str, token: str, name: str) -> bool:
    from taskfabric.remote.line import Line

    try:
        with Line(url, token) as line:
            return bool(line.ask("fabric.hello", {})["name"] == name)
    except Unavailable:
        raise
    except FabricError:
        return False


def _kept_file(ctx: Context, name: str, url: str) -> Path:
    return state_folder(ctx.env) / "agents" / f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:12]}"


def _keep(path: Path, token: str) -> None:
    from taskfabric.surfaces.cli.start import write_private

    with contextlib.suppress(OSError):  # then another one is made the next time
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, {"token": token})


def _add(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="the agent card, as `fabric agents` shows it")
    parser.add_argument("--once", action="store_true", help="end when nothing is left to claim: for a cron")


COMMANDS: Final = (
    Command(
        name="worker",
        help="Work for an agent card: claim, run, finish, until interrupted (`fabric up` runs those of enabled cards).",
        add=_add,
        run=_worker,
        examples=("fabric worker tiny", "fabric worker kimi --once"),
    ),
)
