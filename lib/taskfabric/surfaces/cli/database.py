"""``fabric db``: the embedded database by itself, and backups of whichever one is used."""

from __future__ import annotations

import argparse
from typing import Final

from taskfabric.domain.errors import BadInput, FabricError
from taskfabric.surfaces.cli.command import Command, Context, Parser
from taskfabric.surfaces.cli.where import running


def _data(parser: Parser) -> None:
    parser.add_argument("--data", metavar="DIR", help="the home of the fabric; default: FABRIC_HOME, or the usual one")


def _start(ctx: Context, args: argparse.Namespace) -> int:
    from taskfabric import wiring
    from taskfabric.settings import load
    from taskfabric.surfaces.cli.start import make_home

    here = ctx.home(args.data)
    make_home(here)
    ctx.out.progress("starting the database")
    wiring.open_cluster(here, load(env=ctx.env, home=here))
    return _status(ctx, args)


def _stop(ctx: Context, args: argparse.Namespace) -> int:
    from taskfabric import wiring
    from taskfabric.settings import load

    here = ctx.home(args.data)
    found = running(here)
    if found is not None and not args.force:
        raise FabricError(
            f"the fabric at {found['url']} uses it", next="`fabric down` stops both; --force stops only the database"
        )
    cluster = wiring.cluster_of(here, load(env=ctx.env, home=here))
    if cluster is None:
        raise BadInput("the database is a server of yours, not the embedded one", next="stop it where you started it")
    cluster.refuse_foreign()
    stopped = cluster.stop()
    if ctx.out.as_json:
        ctx.out.json({"stopped": stopped})
    else:
        ctx.out.line("stopped" if stopped else "it did not run")
    return 0


def _status(ctx: Context, args: argparse.Namespace) -> int:
    from taskfabric import wiring
    from taskfabric.settings import load

    here = ctx.home(args.data)
    cluster = wiring.cluster_of(here, load(env=ctx.env, home=here))
    if cluster is None:
        shape: dict[str, object] = {"kind": "yours"}
    else:
        found = cluster.status()
        shape = {
            "kind": "embedded",
            "running": found.running,
            "ready": found.ready,
            "stopped": found.stopped,
            "pid": found.pid,
            "data": str(found.place),
            "socket": str(found.socket_folder),
            "log": str(found.log),
            "major": found.data_version,
        }
    if ctx.out.as_json:
        ctx.out.json(shape)
        return 0
    for name, value in shape.items():
        ctx.out.line(f"{name:<8} {'' if value is None else value}".rstrip())
    return 0


def _add_backup(parser: Parser) -> None:
    _data(parser)
    parser.add_argument("file", metavar="FILE", help="appears complete or not at all")


def _backup(ctx: Context, args: argparse.Namespace) -> int:
    from taskfabric import wiring
    from taskfabric.settings import load

    here, file = ctx.home(args.data), ctx.file(args.file)
    ctx.out.progress("saving the database")
    size = wiring.backup(here, load(env=ctx.env, home=here), file)
    if ctx.out.as_json:
        ctx.out.json({"file": str(file), "size": size})
    else:
        ctx.out.line(
            f"{file}: {size} bytes. The files attached to tasks are in {here / 'files'}; copy that folder too."
        )
    return 0


def _add_restore(parser: Parser) -> None:
    _data(parser)
    parser.add_argument("file", metavar="FILE", help="made by `fabric db backup`")
    parser.add_argument("--force", action="store_true", help="end the sessions that use the database")


def _restore(ctx: Context, args: argparse.Namespace) -> int:
    from taskfabric import wiring
    from taskfabric.settings import load

    here, file = ctx.home(args.data), ctx.file(args.file)
    ctx.out.progress("restoring the database")
    done = wiring.restore(here, load(env=ctx.env, home=here), file, force=args.force)
    if ctx.out.as_json:
        ctx.out.json({"database": done.database, "tasks": done.tasks, "lifts": done.lifts})
    else:
        ctx.out.line(f"restored; the epochs of {done.tasks} tasks are lifted, so that no fence is granted twice")
    return 0


def _add_stop(parser: Parser) -> None:
    _data(parser)
    parser.add_argument("--force", action="store_true", help="although the fabric uses it")


COMMANDS: Final = (
    Command(
        name="db start",
        help="Start the embedded database by itself, and bring it up to date.",
        add=_data,
        run=_start,
        examples=("fabric db start",),
    ),
    Command(
        name="db stop",
        help="Stop the embedded database until `fabric db start` or `fabric up`.",
        add=_add_stop,
        run=_stop,
        examples=("fabric db stop",),
    ),
    Command(
        name="db status",
        help="Where the database is, and whether it runs.",
        add=_data,
        run=_status,
        examples=("fabric db status", "fabric db status --json"),
    ),
    Command(
        name="db backup",
        help="Save the database to a file.",
        add=_add_backup,
        run=_backup,
        examples=("fabric db backup ~/fabric.dump",),
    ),
    Command(
        name="db restore",
        help="Put a saved database in the place of the present one. Every epoch is lifted.",
        add=_add_restore,
        run=_restore,
        examples=("fabric down && fabric db start && fabric db restore ~/fabric.dump",),
    ),
)
