"""``fabric keeper`` and ``fabric cron``: the fabric's own services in the foreground, as the supervisor starts them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from taskfabric.domain.errors import NotAuthenticated
from taskfabric.surfaces.cli.command import Command, Context, Parser
from taskfabric.surfaces.cli.where import SERVICES, read, running

MODULES: Final[Mapping[str, str]] = {"keeper": "fabric_keeper", "cron": "fabric_keeper.cron"}


def environment(env: Mapping[str, str], home: Path, name: str, url: str) -> dict[str, str]:
    """What such a process finds: the server and the token of its service. Raises NotAuthenticated without one."""
    token = str((read(home / SERVICES) or {}).get(f"fabric-{name}", ""))
    if not token:
        raise NotAuthenticated(
            f"there is no token of the fabric's {name} in {home / SERVICES}", next="`fabric up` makes one"
        )
    return {**env, "FABRIC_URL": url, "FABRIC_TOKEN": token, "FABRIC_HOME": str(home)}


def _start(ctx: Context, args: argparse.Namespace, name: str) -> int:
    """Become that process: with the token of the environment, else with the one that this home keeps."""
    env = dict(ctx.env)
    if not (env.get("FABRIC_URL") and env.get("FABRIC_TOKEN")):
        home = ctx.home()
        env = environment(env, home, name, str((running(home) or {}).get("url") or ctx.where.url))
    options = [word for word, given in (("--once", args.once), ("--json", ctx.out.as_json)) if given]
    ctx.out.flush()
    os.execve(sys.executable, [sys.executable, "-P", "-m", MODULES[name], *options], env)


def _keeper(ctx: Context, args: argparse.Namespace) -> int:
    return _start(ctx, args, "keeper")


def _cron(ctx: Context, args: argparse.Namespace) -> int:
    if not args.list:
        return _start(ctx, args, "cron")
    found = ctx.ask("cron.list")
    if ctx.out.as_json:
        ctx.out.json(found)
        return 1 if found["problems"] else 0
    for schedule in found["schedules"]:
        upcoming = ctx.out.when(schedule["next"], zone=True) if schedule["next"] else "never (disabled)"
        ctx.out.line(f"{schedule['name']:<20} {schedule['cron']:<16} {schedule['zone']:<16} next {upcoming}")
    for slot in found["slots"]:
        task = f"#{slot['task']}" if slot["task"] else slot["reason"]
        ctx.out.line(f"  {ctx.out.when(slot['slot'], zone=True):<24} {slot['schedule']:<20} {slot['state']:<8} {task}")
    for problem in found["problems"]:
        ctx.out.line(ctx.out.paint(problem, "red"))
    if not any(found.values()):
        ctx.out.line("there are no schedules; write $FABRIC_HOME/schedules.toml, as config/schedules.toml explains")
    return 1 if found["problems"] else 0


def _letters(ctx: Context, args: argparse.Namespace) -> int:
    found = ctx.ask("letters", limit=args.limit)
    if ctx.out.as_json:
        ctx.out.json(found)
        return 0
    for letter in found:
        why = f" ({letter['error']}; attempt {letter['attempts']})" if letter["error"] else ""
        ctx.out.line(f"{ctx.out.when(letter['created'], zone=True):<24} {letter['state']:<8} {letter['subject']}{why}")
    if not found:
        ctx.out.line("no notifications; `fabric channel add` says where yours go")
    return 0


def _once(parser: Parser) -> None:
    parser.add_argument("--once", action="store_true", help="one round, then end: for a cron of the system's")


def _once_or_list(parser: Parser) -> None:
    _once(parser)
    parser.add_argument("--list", action="store_true", help="show the schedules and what became of their last slots")


def _limit(parser: Parser) -> None:
    parser.add_argument("--limit", metavar="N", type=int, default=50, help="how many, default 50")


COMMANDS: Final = (
    Command(
        name="keeper",
        help="Sweep leases, remind, write digests (`fabric up` runs one).",
        add=_once,
        run=_keeper,
        examples=("fabric keeper --once",),
    ),
    Command(
        name="cron",
        help="Submit what the schedules say (`fabric up` runs one), or list them.",
        add=_once_or_list,
        run=_cron,
        examples=("fabric cron --list", "fabric cron --once"),
    ),
    Command(
        name="letters",
        help="Your notifications, and what became of each.",
        add=_limit,
        run=_letters,
        examples=("fabric letters",),
    ),
)
