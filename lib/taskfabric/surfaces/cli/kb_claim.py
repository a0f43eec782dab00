"""``kb-claim``: the claim protocol in its older, shorter words, over the same fabric.

kb-claim next            12@3, the title, --- spec ---, the description word for word
kb-claim done 12 --note "…"
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final

from taskfabric.domain.errors import BadInput
from taskfabric.surfaces.cli import holder
from taskfabric.surfaces.cli.command import Command, Context, Parser, Shape
from taskfabric.surfaces.cli.main import cwd, guarded
from taskfabric.surfaces.cli.output import Out, clean, one_line, prepare_streams

_PARKED: Final = "+15m"  # how long, unless --until says otherwise


def main() -> None:
    """The program. Ends the process with the exit code."""
    prepare_streams()
    sys.exit(run(sys.argv[1:]))


def run(argv: Sequence[str]) -> int:
    """Carry out one command line; the exit code. Prints to this process's standard streams and raises nothing."""
    return guarded(argv, _run)


def _run(argv: Sequence[str], out: Out) -> int:
    words = [*argv]
    while words and words[0] == "--json":
        words.pop(0)
    if not words and out.as_json:
        raise BadInput("no verb was given", next="`kb-claim --help --json` lists the verbs")
    if not words or words[0] in ("--help", "-h", "help"):
        if out.as_json:
            out.json({command.name: command.help for command in COMMANDS})
            return 0
        out.line("usage: kb-claim VERB [arguments] [--json]\n")
        for command in COMMANDS:
            out.line(f"  {command.name:<13} {command.help}")
        return 0
    by_name = {command.name: command for command in COMMANDS}
    if words[0] not in by_name:
        from difflib import get_close_matches

        near = get_close_matches(words[0][:40], by_name, 1)
        raise BadInput(
            f"kb-claim has no verb {words[0][:40]!r}",
            next=f"did you mean `kb-claim {near[0]}`?" if near else f"one of {', '.join(by_name)}",
        )
    command = by_name[words[0]]
    args = command.parser("kb-claim").parse(words[1:])
    return command.run(Context(out=out, env=os.environ, cwd=cwd()), args)


def _granted(ctx: Context, task: Shape) -> int:
    if ctx.out.as_json:
        ctx.out.json(task)
        return 0
    ctx.out.line(task["ref"])
    ctx.out.line(one_line(task["title"]))
    ctx.out.line("--- spec ---")
    ctx.out.text(task["description"])
    return 0


def _said(ctx: Context, task: Shape) -> int:
    if ctx.out.as_json:
        ctx.out.json(task)
    else:
        ctx.out.line(f"{task['id']} {task['status']}")
    return 0


def _add_next(parser: Parser) -> None:
    parser.add_argument("--queue", metavar="Q")


def _id(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="12, or 12@3")


def _noted(parser: Parser) -> None:
    _id(parser)
    parser.add_argument("--note", metavar="N", required=True, help="- reads standard input")


def _add_park(parser: Parser) -> None:
    _noted(parser)
    parser.add_argument("--until", metavar="T", default=_PARKED, help=f"not before; default {_PARKED}")


def _renew(ctx: Context, args: argparse.Namespace) -> int:
    answer = holder.renew(ctx, args.id)
    if ctx.out.as_json:
        ctx.out.json({"ref": f"{answer['task']}@{answer['epoch']}", **answer})
    else:
        ctx.out.line(f"{answer['task']}@{answer['epoch']} until {answer['until']}")
    return 0


def _park(ctx: Context, args: argparse.Namespace) -> int:
    until = ctx.when(args.until)
    return _said(ctx, holder.end(ctx, "park", args.id, note=holder.note_of(args), until=until))


def _lease_status(ctx: Context, args: argparse.Namespace) -> int:
    task: Shape = ctx.ask("show", task=args.id)
    if ctx.out.as_json:
        names = ("id", "status", "holder", "holder_instance", "epoch", "lease_until")
        ctx.out.json({name: task[name] for name in names})
    elif task["holder"] and task["lease_until"]:
        ctx.out.line(f"{clean(task['holder'])} until {task['lease_until']} epoch {task['epoch']}")
    else:
        ctx.out.line("free")
    return 0


COMMANDS: Final = (
    Command(
        name="next",
        help="Claim what comes next; exit code 3 when there is nothing.",
        add=_add_next,
        run=lambda ctx, args: _granted(ctx, holder.claim(ctx, args.queue)),
        examples=("kb-claim next", "kb-claim next --queue pool"),
    ),
    Command(
        name="take",
        help="Claim this very task.",
        add=_id,
        run=lambda ctx, args: _granted(ctx, holder.take(ctx, args.id)),
        examples=("kb-claim take 12",),
    ),
    Command(name="renew", help="Prolong the lease.", add=_id, run=_renew, examples=("kb-claim renew 12@3",)),
    Command(
        name="park",
        help="Back to Ready, not before a while from now.",
        add=_add_park,
        run=_park,
        examples=('kb-claim park 12 --note "quota spent" --until +2h',),
    ),
    Command(
        name="done",
        help="Finished; somebody else closes it.",
        add=_noted,
        run=lambda ctx, args: _said(ctx, holder.end(ctx, "done", args.id, note=holder.note_of(args))),
        examples=('kb-claim done 12 --note "all three parts"',),
    ),
    Command(
        name="close",
        help="Verify a finished task. Never by its producer.",
        add=_id,
        run=lambda ctx, args: _said(ctx, ctx.ask("verify", task=args.id)),
        examples=("kb-claim close 12",),
    ),
    Command(
        name="escalate",
        help="Stop and ask the human.",
        add=_noted,
        run=lambda ctx, args: _said(ctx, holder.end(ctx, "ask", args.id, note=holder.note_of(args))),
        examples=('kb-claim escalate 12 --note "which branch?"',),
    ),
    Command(
        name="deadletter",
        help="Give up for good: to the dead letters.",
        add=_noted,
        run=lambda ctx, args: _said(ctx, holder.end(ctx, "fail", args.id, note=holder.note_of(args), final=True)),
        examples=('kb-claim deadletter 12 --note "there is no such branch"',),
    ),
    Command(
        name="lease-status",
        help="Who holds it, until when, at which epoch; or: free.",
        add=_id,
        run=_lease_status,
        examples=("kb-claim lease-status 12",),
    ),
)


if __name__ == "__main__":
    main()
