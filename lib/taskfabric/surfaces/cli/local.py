"""Commands about the fabric of this machine as it runs: down, status, logs."""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from taskfabric.domain.errors import NotFound
from taskfabric.surfaces.cli import process
from taskfabric.surfaces.cli.command import Command, Context, Parser, Shape
from taskfabric.surfaces.cli.output import Out, clean
from taskfabric.surfaces.cli.where import RUNTIME, answers, is_alive, read, running

_PATIENCE: Final = 90.0  # seconds for a stop


def _data(parser: Parser) -> None:
    parser.add_argument("--data", metavar="DIR", help="the home of the fabric; default: FABRIC_HOME, or the usual one")


def _down(ctx: Context, args: argparse.Namespace) -> int:
    here = ctx.home(args.data)
    shape = running(here)
    stopped = shape is not None
    if shape is not None:
        os.kill(shape["pid"], signal.SIGTERM)
        deadline = time.monotonic() + _PATIENCE
        while is_alive(shape) and time.monotonic() < deadline:
            time.sleep(0.02)
        if is_alive(shape):
            os.kill(shape["pid"], signal.SIGKILL)
    # What a killed supervisor left, and a database that somebody started alone.
    left = read(here / RUNTIME) or {}
    known = [(child.get("pid"), child.get("started_ticks")) for child in left.get("children", ())]
    orphans = [(pid, ticks) for pid, ticks in known if process.is_running(pid, ticks)]
    process.end(orphans, patience=10)
    stopped = _stop_database(ctx, here) or stopped or bool(orphans)
    (here / RUNTIME).unlink(missing_ok=True)
    if ctx.out.as_json:
        ctx.out.json({"stopped": stopped, "data": str(here)})
    else:
        ctx.out.line("stopped" if stopped else f"nothing runs here ({here})")
    return 0


def _stop_database(ctx: Context, here: Path) -> bool:
    if not here.is_dir():
        return False
    from taskfabric import wiring
    from taskfabric.settings import load

    cluster = wiring.cluster_of(here, load(env=ctx.env, home=here))
    return cluster is not None and cluster.stop()


def _status(ctx: Context, args: argparse.Namespace) -> int:
    here = ctx.home(args.data)
    shape = running(here)
    status = {
        "running": shape is not None,
        "answers": bool(shape and shape.get("ready") and answers(shape["host"], shape["port"])),
        "data": str(here),
        **{
            key: (shape or {}).get(key) for key in ("url", "pid", "user", "version", "detached", "database", "children")
        },
        "since": _instant(shape["started"]) if shape else None,
    }
    if ctx.out.as_json:
        ctx.out.json(status)
        return 0
    _say_status(ctx.out, status)
    return 0


def _say_status(out: Out, status: Shape) -> None:
    if not status["running"]:
        out.line(f"no fabric runs here ({status['data']})\n`fabric up` starts one")
        return
    state = out.paint("answers", "green") if status["answers"] else out.paint("does not answer", "red")
    out.line(f"{status['url']}  {state}")
    out.line(f"  since       {out.when(status['since'], zone=True)}")
    out.line(f"  supervisor  process {status['pid']}, version {status['version']}")
    for child in status["children"] or ():
        restarts = f", restarted {child['restarts']} times" if child["restarts"] else ""
        out.line(f"  {child['name']:<11} process {child['pid']}{restarts}")
    database = status["database"] or {"kind": "starting", "pid": None}
    where = f" process {database['pid']}" if database["pid"] else ""
    out.line(f"  database    {database['kind']}{where}")
    out.line(f"  data        {status['data']}")


def _instant(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


# -- logs ----------------------------------------------------------------------


def _add_logs(parser: Parser) -> None:
    _data(parser)
    parser.add_argument("name", metavar="NAME", nargs="?", default="server", help="server (the default) or supervisor")
    parser.add_argument("-f", "--follow", action="store_true", help="go on as it grows, until interrupted")
    parser.add_argument("--lines", metavar="N", type=int, default=50, help="how many of the last lines, default 50")


def _logs(ctx: Context, args: argparse.Namespace) -> int:
    folder = ctx.home(args.data) / "logs"
    names = sorted(path.stem for path in folder.glob("*.log"))
    if args.name not in names:
        known = ", ".join(names) or "none yet"
        raise NotFound(f"there is no log {args.name[:40]!r} in {folder}", next=f"there is: {known}")
    for line in _lines(folder / f"{args.name}.log", last=max(0, args.lines), follow=args.follow):
        if ctx.out.as_json:
            ctx.out.json({"log": args.name, "line": line})
        else:
            ctx.out.line(clean(line))
            if args.follow:
                ctx.out.flush()
    return 0


def _lines(path: Path, *, last: int, follow: bool) -> Iterator[str]:
    with path.open(errors="replace") as file:
        lines = file.read().splitlines()
        yield from lines[len(lines) - last :] if last < len(lines) else lines
        rest = ""
        while follow:
            if path.stat().st_size < file.tell():  # cut, after it was put aside
                file.seek(0)
            rest += file.read()
            *whole, rest = rest.split("\n")
            yield from whole
            time.sleep(0.2)


COMMANDS: Final = (
    Command(
        name="down",
        help="Stop the fabric of this machine, its database too.",
        add=_data,
        run=_down,
        examples=("fabric down",),
    ),
    Command(
        name="status",
        help="What runs here, where, and since when.",
        add=_data,
        run=_status,
        examples=("fabric status", "fabric status --json"),
    ),
    Command(
        name="logs",
        help="What the fabric's processes wrote down.",
        add=_add_logs,
        run=_logs,
        examples=("fabric logs", "fabric logs supervisor --follow"),
    ),
)
