"""``fabric doctor``: what is wrong, or could be better, here and at the server."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from typing import Final

from taskfabric.domain.errors import FabricError
from taskfabric.surfaces.cli.command import Command, Context, Shape
from taskfabric.surfaces.cli.output import one_line
from taskfabric.surfaces.cli.where import CREDENTIALS, running

_LEAST_SPACE: Final = 1 << 30  # bytes


def _doctor(ctx: Context, args: argparse.Namespace) -> int:
    checks: list[Shape] = list(_local_checks(ctx))
    try:
        checks += ctx.ask("doctor")
    except FabricError as error:
        checks.append({"name": "server", "state": "fail", "text": error.message, "next": error.next})
    if ctx.out.as_json:
        ctx.out.json(checks)
    else:
        colours = {"ok": "green", "warn": "yellow", "fail": "red"}
        for check in checks:
            state = ctx.out.paint(f"{check['state']:<4}", colours[check["state"]])
            ctx.out.line(f"{state}  {one_line(check['name'])}: {one_line(ctx.out.local(check['text']))}")
            if check["next"] and check["state"] != "ok":
                ctx.out.line(f"      next: {one_line(check['next'])}")
    return 1 if any(check["state"] == "fail" for check in checks) else 0


def _local_checks(ctx: Context) -> Iterator[Shape]:
    def check(name: str, state: str, text: str, next_step: str = "") -> Shape:
        return {"name": name, "state": state, "text": text, "next": next_step}

    version = ".".join(map(str, sys.version_info[:3]))
    yield check("python", "ok", f"{version} at {sys.executable}")
    here = ctx.home()
    if not here.is_dir():
        yield check("home", "ok", f"no fabric has its home in {here}")
        return
    mode = here.stat().st_mode & 0o777
    if mode & 0o077:
        yield check("home", "warn", f"others can look into {here} (mode {mode:o})", f"chmod 700 {here}")
    else:
        yield check("home", "ok", str(here))
    credentials = here / CREDENTIALS
    if credentials.exists() and credentials.stat().st_mode & 0o077:
        yield check("credentials", "fail", f"others can read {credentials}", f"chmod 600 {credentials}")
    free = shutil.disk_usage(here).free
    state, step = ("ok", "") if free >= _LEAST_SPACE else ("warn", "make room: a full disk stops the database")
    yield check("disk", state, f"{free / 2**30:.1f} GiB free below {here}", step)
    found = running(here)
    yield check("supervisor", "ok", f"process {found['pid']}" if found else "none runs here")


COMMANDS: Final = (
    Command(
        name="doctor",
        help="Is everything well, here and at the server? Exit code 1 when something is not.",
        add=lambda parser: None,
        run=_doctor,
        examples=("fabric doctor",),
    ),
)
