"""Commands of people about other people's and agents' work: answer, verify, reject, cancel, redrive."""

from __future__ import annotations

import argparse
from typing import Final

from taskfabric.surfaces.cli.command import Command, Context, Parser, Shape
from taskfabric.surfaces.cli.holder import note_of
from taskfabric.surfaces.cli.tasks import print_task, receipts


def _add_noted(what: str, parser: Parser, *, required: bool = True) -> None:
    parser.add_argument("ref", metavar="REF")
    parser.add_argument("--note", metavar="N", required=required, help=f"{what}; - reads standard input")


def _answer(ctx: Context, args: argparse.Namespace) -> int:
    task = ctx.ask("answer", task=args.ref, note=note_of(args))
    return print_task(ctx, task, f"#{task['id']} is answered and goes on")


def _verify(ctx: Context, args: argparse.Namespace) -> int:
    if len(args.refs) > 1:
        return _verify_many(ctx, args)
    task = ctx.ask("verify", task=args.refs[0], note=note_of(args))
    return print_task(ctx, task, f"#{task['id']} is verified and closed")


def _verify_many(ctx: Context, args: argparse.Namespace) -> int:
    got: list[Shape] = ctx.ask("verify_many", tasks=args.refs, note=note_of(args))
    judged = zip(args.refs, got, strict=True)  # a task has an "error" of its own
    lines = [(ref, one["error"] if one.keys() == {"error"} else None, one.get("status")) for ref, one in judged]
    return receipts(ctx, got, lines)


def _add_verify(parser: Parser) -> None:
    parser.add_argument("refs", metavar="REF", nargs="+", help="several are judged one by one")
    parser.add_argument("--note", metavar="N", help="what you looked at; - reads standard input")


def _reject(ctx: Context, args: argparse.Namespace) -> int:
    task = ctx.ask("reject", task=args.ref, note=note_of(args))
    return print_task(ctx, task, f"#{task['id']} is {task['status']} again; the next run reads your note")


def _cancel(ctx: Context, args: argparse.Namespace) -> int:
    task = ctx.ask("cancel", task=args.ref, note=note_of(args))
    return print_task(ctx, task, f"#{task['id']} is cancelled")


def _redrive(ctx: Context, args: argparse.Namespace) -> int:
    task = ctx.ask("redrive", task=args.ref, note=note_of(args))
    return print_task(ctx, task, f"#{task['id']} is {task['status']} again, with fresh attempts")


COMMANDS: Final = (
    Command(
        name="answer",
        help="Answer the question of a waiting task: it goes to the head of its lane.",
        add=lambda parser: _add_noted("the answer", parser),
        run=_answer,
        examples=('fabric answer 12 --note "the second branch"',),
    ),
    Command(
        name="verify",
        help="The result is right: close it. Never by whoever produced it.",
        add=_add_verify,
        run=_verify,
        examples=("fabric verify 12", "fabric verify 12 13 14"),
    ),
    Command(
        name="reject",
        help="The result is not right: back to Ready, and the next run is shown the note.",
        add=lambda parser: _add_noted("what is wrong", parser),
        run=_reject,
        examples=('fabric reject 12 --note "the third part is missing"',),
    ),
    Command(
        name="cancel",
        help="It is no longer wanted: cancelled, children that have not begun too.",
        add=lambda parser: _add_noted("why", parser),
        run=_cancel,
        examples=('fabric cancel 12 --note "solved otherwise"',),
    ),
    Command(
        name="redrive",
        help="Put a dead letter or a held task back on purpose, with fresh attempts.",
        add=lambda parser: _add_noted("what has changed", parser),
        run=_redrive,
        examples=('fabric redrive 12 --note "the network is back"',),
    ),
)
