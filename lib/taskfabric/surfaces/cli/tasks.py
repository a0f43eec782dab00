"""Commands that change a task's words and its place: edit, move, comment, attach."""

from __future__ import annotations

import argparse
import base64
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from taskfabric.domain.errors import BadInput, from_json
from taskfabric.surfaces.cli import render
from taskfabric.surfaces.cli.command import Command, Context, Parser, Shape
from taskfabric.surfaces.cli.submit import read_text


def file_arg(name: str) -> dict[str, str]:
    """A file as it travels. Raises BadInput when it cannot be read."""
    try:
        data = Path(name).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadInput(f"{name[:200]} cannot be read: {reason}") from error
    return {"name": Path(name).name, "data": base64.b64encode(data).decode()}


def print_task(ctx: Context, task: Shape, said: str = "") -> int:
    """The task as a document, or the one line that says what is true now."""
    if ctx.out.as_json:
        ctx.out.json(task)
    else:
        ctx.out.line(said or render.headline(ctx.out, task))
    return 0


def receipts(ctx: Context, got: Sequence[Shape], lines: Iterable[tuple[object, Shape | None, object]]) -> int:
    """What became of each of several, as a document, or a line each: its reference, its error or what is true of it
    now. A refusal says on stderr what to do; the exit code is that of the first one."""
    refused = []
    for ref, wrong, said in lines:
        if wrong is not None:
            error = from_json(wrong)
            if not error.message.startswith(f"#{ref} "):
                error.message = f"#{ref}: {error.message}"
            refused.append(error)
        elif not ctx.out.as_json:
            ctx.out.line(f"#{ref} {said}")
    if ctx.out.as_json:
        ctx.out.json(got)
    else:
        for error in refused:
            ctx.out.error(error)
    return refused[0].code if refused else 0


def _add_edit(parser: Parser) -> None:
    parser.add_argument("ref", metavar="REF")
    parser.add_argument("--title", metavar="T")
    parser.add_argument("--spec", metavar="FILE", help="a new description; - reads standard input")
    parser.add_argument("--priority", metavar="N", type=int, help="0 to 3")
    parser.add_argument("--score", metavar="N", type=int)
    parser.add_argument("--tier", metavar="TIER", help="small, medium or large; none: by the score again")
    parser.add_argument("--due", metavar="T", help="a time, or none")
    parser.add_argument("--tag", metavar="+T|-T", action="append", help="add or remove a tag; repeatable")


def _edit(ctx: Context, args: argparse.Namespace) -> int:
    add = [tag.removeprefix("+") for tag in args.tag or () if not tag.startswith("-")]
    remove = [tag[1:] for tag in args.tag or () if tag.startswith("-")]
    changes = {
        "title": args.title,
        "description": read_text(args.spec) if args.spec is not None else None,
        "priority": args.priority,
        "score": args.score,
        "tier": "" if args.tier == "none" else args.tier,
        "due": None if args.due == "none" else ctx.when(args.due),
        "clear_due": True if args.due == "none" else None,
        "add_tags": add or None,
        "remove_tags": remove or None,
    }
    if all(change is None for change in changes.values()):
        raise BadInput("nothing to change", next="`fabric edit --help` lists what can be")
    return print_task(ctx, ctx.ask("edit", task=args.ref, **changes))


def _add_move(parser: Parser) -> None:
    parser.add_argument("ref", metavar="REF")
    parser.add_argument("--queue", metavar="Q", help="to another queue")
    parser.add_argument("--column", metavar="C", help="to another column, by its title")
    parser.add_argument("--swimlane", metavar="S")
    parser.add_argument("--top", action="store_true", default=None, help="to the top of its column")
    parser.add_argument("--after", metavar="REF", help="right below another task")


def _move(ctx: Context, args: argparse.Namespace) -> int:
    where = {
        "queue": args.queue,
        "column": args.column,
        "swimlane": args.swimlane,
        "top": args.top,
        "after": args.after,
    }
    if all(value is None for value in where.values()):
        raise BadInput("a move needs a place", next="name --queue, --column, --swimlane, --top or --after")
    task: Shape = ctx.ask("move", task=args.ref, **where)
    return print_task(ctx, task)


def _add_comment(parser: Parser) -> None:
    parser.add_argument("ref", metavar="REF")
    parser.add_argument("text", metavar="TEXT", help="Markdown; - reads standard input")


def _comment(ctx: Context, args: argparse.Namespace) -> int:
    text = read_text("-") if args.text == "-" else args.text
    entry: Shape = ctx.ask("comment", task=args.ref, text=text)
    if ctx.out.as_json:
        ctx.out.json(entry)
    else:
        ctx.out.line(f"said on #{entry['task']}")
    return 0


def _add_attach(parser: Parser) -> None:
    parser.add_argument("ref", metavar="REF")
    parser.add_argument("file", metavar="FILE")


def _attach(ctx: Context, args: argparse.Namespace) -> int:
    got: Shape = ctx.ask("attach", task=args.ref, file=file_arg(args.file))
    if ctx.out.as_json:
        ctx.out.json(got)
    else:
        ctx.out.line(f"file {got['id']} on #{got['task']}")
    return 0


COMMANDS: Final = (
    Command(
        name="edit",
        help="Change a task's words. Reserved tags change only by verbs.",
        add=_add_edit,
        run=_edit,
        examples=('fabric edit 12 --priority 3 --due "friday 18:00"', "fabric edit 12 --tag +home --tag -urgent"),
    ),
    Command(
        name="move",
        help="Move a card by hand. A task that is being worked on loses its lease.",
        add=_add_move,
        run=_move,
        examples=("fabric move 12 --queue pool", "fabric move 12 --column Ready --top"),
    ),
    Command(
        name="comment",
        help="Say something on a task. A comment grants nothing.",
        add=_add_comment,
        run=_comment,
        examples=('fabric comment 12 "see also #7"',),
    ),
    Command(
        name="attach",
        help="Put a file on a task.",
        add=_add_attach,
        run=_attach,
        examples=("fabric attach 12 photo.jpg",),
    ),
)
