"""``fabric up``: start the fabric of this machine, in the foreground or detached, and say where it runs."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from taskfabric.domain.errors import BadInput, FabricError, NotAuthenticated, Unavailable, from_json
from taskfabric.surfaces.cli.command import Command, Context, Parser, Shape
from taskfabric.surfaces.cli.where import CREDENTIALS, answers, is_held, reachable, read, running

_PATIENCE: Final = 90.0  # seconds for a start or a stop that somebody else began
_RECOVERY: Final = 30.0  # seconds for a running fabric to answer again


def _add_up(parser: Parser) -> None:
    parser.add_argument("--detach", action="store_true", help="return when everything answers; `fabric down` stops it")
    parser.add_argument("--port", metavar="N", type=int, help="0: any free one; default: 8420, or the next free one")
    parser.add_argument("--data", metavar="DIR", help="the home of this fabric; default: FABRIC_HOME, or the usual one")
    parser.add_argument("--user", metavar="NAME", help="what the first human is called; default: your account's name")
    parser.add_argument("--config", metavar="FILE", help="a settings file beside the usual ones")


def _up(ctx: Context, args: argparse.Namespace) -> int:
    if args.port is not None and not 0 <= args.port <= 65535:
        raise BadInput(f"--port {args.port} is no port", next="0 to 65535")
    here = ctx.home(args.data)
    deadline = time.monotonic() + _PATIENCE
    while True:
        found = running(here)
        if found is not None and found.get("ready"):
            _await_answer(ctx, here, found)
            _check_token(ctx, here, found)
            return _told(ctx, here, found, is_new=False)
        # While somebody else starts or stops it we wait: then it runs, or it is our turn.
        if is_held(here) and time.monotonic() < deadline:
            time.sleep(0.05)
            continue
        try:
            return _start(ctx, here, args)
        except FabricError as error:
            if not error.facts.get("busy") or time.monotonic() > deadline:
                raise


def _await_answer(ctx: Context, here: Path, found: Shape) -> None:
    """The running fabric answers, its board included; its database is started for that, also one that was stopped.

    Raises Unavailable when it does not come back.
    """
    if answers(found["host"], found["port"]):
        return
    ctx.out.progress("it runs, but does not answer; looking after its database")
    place = (found.get("database") or {}).get("place")
    if place is not None:
        from taskfabric import wiring

        wiring.cluster_at(here, Path(place)).start()
    deadline = time.monotonic() + _RECOVERY
    while not answers(found["host"], found["port"]):
        if time.monotonic() > deadline:
            raise Unavailable(
                f"the fabric at {found['url']} runs (process {found['pid']}), but its board does not answer",
                next="`fabric logs` and `fabric logs supervisor` tell why; `fabric down`, then `fabric up` begins anew",
                url=str(found["url"]),
            )
        time.sleep(0.1)


def _check_token(ctx: Context, here: Path, found: Shape) -> None:
    """The token kept here lets its owner in; where it does not (somebody reset the account) there is another one."""
    if _lets_in(found, (read(here / CREDENTIALS) or {}).get("token")):
        return
    from taskfabric.surfaces.cli.start import new_credentials, write_private

    ctx.out.progress("the local token is worth nothing any more; making another one")
    made = new_credentials(here, found, env=ctx.env)
    if not _lets_in(found, made["token"]):
        raise FabricError(
            "the token kept here is worth nothing, and the settings here lead to another database",
            next="`fabric down`, then `fabric up` makes another one",
        )
    write_private(here / CREDENTIALS, made)


def _lets_in(found: Shape, token: object) -> bool:
    """Whether the running server knows whose token that is."""
    from taskfabric.remote.line import Line

    if not token:
        return False
    with Line(f"http://{reachable(found['host'])}:{found['port']}", str(token)) as line:
        try:
            line.ask("fabric.hello", {})
        except NotAuthenticated:
            return False
    return True


def _start(ctx: Context, here: Path, args: argparse.Namespace) -> int:
    """Start it, and unless it is detached keep it running. Raises FabricError, with the fact busy if another does."""
    if args.detach:
        return _told(ctx, here, _detached(ctx, here, args), is_new=True)
    from taskfabric.surfaces.cli.supervisor import Supervisor, Wanted

    wanted = Wanted(home=here, port=args.port, user=args.user, config=Path(args.config) if args.config else None)
    Supervisor(wanted, say=ctx.out.progress).run(lambda shape: _ready(ctx, here, shape))
    ctx.out.progress("stopped")
    return 0


def _ready(ctx: Context, here: Path, shape: Mapping[str, Any]) -> None:
    _told(ctx, here, shape, is_new=True)
    if not ctx.out.as_json:
        ctx.out.line(ctx.out.paint("Ctrl-C stops it.", "dim"))
    ctx.out.flush()


def _detached(ctx: Context, here: Path, args: argparse.Namespace) -> Shape:
    """Start a supervisor in a session of its own; what runtime.json says once everything answers."""
    from taskfabric.surfaces.cli.start import make_home

    make_home(here)
    reading, writing = os.pipe()
    command = [sys.executable, "-P", "-m", "taskfabric.surfaces.cli.supervisor", f"--home={here}", f"--tell={writing}"]
    command += [
        f"--{name}={value}" for name in ("port", "user", "config") if (value := getattr(args, name)) is not None
    ]
    said = here / "logs" / "up.log"
    with os.fdopen(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as log:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(writing,), start_new_session=True
        )
    os.close(writing)
    try:
        with os.fdopen(reading) as pipe:
            for line in pipe:
                message = json.loads(line)
                if "say" in message:
                    ctx.out.progress(message["say"])
                elif "error" in message:
                    child.wait()
                    raise from_json(message["error"])
                elif "ready" in message:
                    ready: Shape = message["ready"]
                    return ready
    except KeyboardInterrupt:
        child.terminate()
        child.wait()
        raise
    raise FabricError(f"the supervisor ended (exit code {child.wait()})", next=f"{said} has the reason")


def _told(ctx: Context, here: Path, shape: Shape, *, is_new: bool) -> int:
    known = read(here / CREDENTIALS) or {}
    if ctx.out.as_json:
        url, user, token = shape["url"], known.get("user"), known.get("token")
        ctx.out.json({"url": url, "user": user, "token": token, "data": str(here)})
        return 0
    out = ctx.out
    if not is_new:
        out.line(f"it runs already: {shape.get('public_url', shape['url'])} (process {shape['pid']}, data in {here})")
        return 0
    out.line(f"\nThe fabric runs at {out.paint(shape['public_url'], 'bold')}, and you are {shape.get('user')}.")
    out.line(f"In a browser, once and within 15 minutes: {out.paint(shape['sign_in'], 'bold')}")
    out.line(f"Its data are in {here}.\n")
    out.line("Try, in another terminal:")
    flag = "" if here == ctx.home() else f"FABRIC_HOME={here} "
    for command, about in (
        ("fabric list", "what there is to do"),
        ('fabric submit "Water the plants" --to pool', "make a task; it prints its number"),
        ("fabric claim", "take what comes next, from your inbox or the pool"),
        ('fabric done REF --note "watered"', "finish it, with the ref that claim printed"),
        ("fabric verify REF", "close what somebody else finished"),
        ("fabric log REF --follow", "watch what happens to a task"),
        ("FABRIC_TOKEN=$(fabric token create helper) fabric claim", "the same as the agent `helper`"),
    ):
        out.line(f"  {flag}{command}" + out.paint(f"   # {about}", "dim"))
    out.line()
    return 0


COMMANDS: Final = (
    Command(
        name="up",
        help="Start the whole fabric of this machine. A second start prints where it runs.",
        add=_add_up,
        run=_up,
        examples=("fabric up", "fabric up --detach --json", "fabric up --data /srv/fabric --port 8500"),
    ),
)
