"""``fabric submit``: make a task, and if asked wait until it has ended."""

from __future__ import annotations

import argparse
import re
import sys
import time
from typing import Any, Final

from taskfabric.domain.errors import BadInput, FabricError, NeedsHuman, WaitedOut
from taskfabric.surfaces.cli.command import Command, Context, Parser, Shape, split_words
from taskfabric.surfaces.cli.output import one_line

FINISHED_WELL: Final = ("done", "verified")
_FINISHED: Final = (*FINISHED_WELL, "dead", "cancelled", "rejected", "record")
_PIECE: Final = 45.0  # seconds of one question; a long wait asks again
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def add(parser: Parser) -> None:
    parser.add_argument("title", metavar="TITLE", help="what is wanted, in one line")
    parser.add_argument("--spec", metavar="FILE", help="the description, Markdown; - reads standard input")
    parser.add_argument(
        "--to", metavar="TARGET", help="a name, pool, auto, or any:tier=large,needs=tools,cost=flat; default: pool"
    )
    parser.add_argument("--priority", metavar="N", type=int, help="0 to 3, default 1")
    parser.add_argument("--score", metavar="N", type=int, help="effort, on the Fibonacci scale")
    parser.add_argument("--tier", metavar="TIER", help="small, medium or large, whatever the score says")
    parser.add_argument("--trust", metavar="CLASS", help="the least trust of whoever may claim it")
    parser.add_argument("--due", metavar="T", help="when it should be finished")
    parser.add_argument("--not-before", metavar="T", help="when it may be claimed at the earliest")
    parser.add_argument(
        "--ref", metavar="R", action="append", help="context: git:…, file:README.md, task:12; repeatable"
    )
    parser.add_argument("--needs", metavar="C", action="append", help="a capability the claimer must have; repeatable")
    parser.add_argument("--tag", metavar="T", action="append", help="a tag of your own; repeatable")
    parser.add_argument("--parent", metavar="REF", help="the task that causes this one")
    parser.add_argument("--after", metavar="REF", action="append", help="blocked by this task; repeatable")
    parser.add_argument(
        "--key",
        metavar="K",
        help="the same key never makes a second task; times are part of its body, so with a key write instants: "
        "+2h is another one at each try",
    )
    parser.add_argument("--key-scope", choices=("life", "open"), help="open: only while a task with that key is open")
    parser.add_argument("--reference", metavar="TEXT", help="a reference of your own")
    parser.add_argument("--backlog", action="store_true", default=None, help="into Backlog instead of Ready")
    parser.add_argument("--human-verify", action="store_true", default=None, help="only a human may close it")
    parser.add_argument(
        "--label",
        choices=("household", "private"),
        help="private: what it wants to do is decided by whom it is done for, and by nobody else",
    )
    parser.add_argument("--notify", action="store_true", default=None, help="send me a letter when it has ended")
    parser.add_argument(
        "--wait",
        metavar="SECONDS",
        nargs="?",
        const="",
        help="wait until it has ended, at most so long; prints the result",
    )


def run(ctx: Context, args: argparse.Namespace) -> int:
    limit = _limit(args.wait)
    task: Shape = ctx.ask(
        "submit",
        title=args.title,
        description=read_text(args.spec) if args.spec is not None else None,
        to=args.to,
        priority=args.priority,
        score=args.score,
        tier=args.tier,
        trust=args.trust,
        needs=split_words(args.needs),
        tags=args.tag,
        refs=args.ref,
        reference=args.reference,
        due=ctx.when(args.due),
        not_before=ctx.when(args.not_before),
        parent=args.parent,
        after=args.after,
        key=args.key,
        key_scope=args.key_scope,
        backlog=args.backlog,
        human_verify=args.human_verify,
        label=args.label,
        notify=args.notify,
    )
    if not ctx.out.as_json:
        there = "" if task["created_now"] else f" (already there, {task['status']})"
        ctx.out.line(f"{task['id']}{there}")
        ctx.out.flush()
    if args.wait is None:
        if ctx.out.as_json:
            ctx.out.json(task)
        return 0
    ended = wait_for(ctx, task, limit)
    if ctx.out.as_json:
        ctx.out.json({**ended, "created_now": task["created_now"]})
    else:
        ctx.out.text(ended["note"] or "")
    return 0


def wait_for(ctx: Context, task: Shape, limit: float | None) -> Shape:
    """The task when it is done. Raises WaitedOut, NeedsHuman when it asks, FabricError when it ended otherwise."""
    deadline = None if limit is None else time.monotonic() + limit
    while task["status"] not in _FINISHED and not _asks(task):
        left = _PIECE if deadline is None else min(_PIECE, deadline - time.monotonic())
        if left < 0:
            raise _ran_out(ctx, task)
        got: dict[str, Any] = ctx.ask("wait", task=task["id"], timeout=left)
        if got["task"] is not None:
            task = got["task"]
        if not got["happened"] and deadline is not None and time.monotonic() >= deadline:
            raise _ran_out(ctx, task)
    if task["status"] in FINISHED_WELL:
        return task
    number, status = task["id"], task["status"]
    if status == "waiting":
        whom = task["asked"] or "a human"
        raise NeedsHuman(
            f"#{number} waits for an answer from {whom}",
            next=f"`fabric show {number}` has the question, `fabric answer {number} --note …` answers it",
            task=number,
            status=status,
            asked=task["asked"],
        )
    reason = task["error"] or task["note"] or ""
    raise FabricError(
        f"#{number} ended {status}" + (f": {reason}" if reason else ""),
        next=f"`fabric log {number}` tells how it came to that",
        task=number,
        status=status,
    )


def _asks(task: Shape) -> bool:
    return task["status"] == "waiting" and bool({"needs-input", "needs-auth"} & set(task["tags"]))


def _ran_out(ctx: Context, task: Shape) -> WaitedOut:
    """With what the task is doing at this moment."""
    why: Shape = ctx.ask("why", task=task["id"])
    now, first, claimers = why["task"], why["first"], ", ".join(one_line(name) for name in why["claimers"])
    if first is not None:
        until = f" until {ctx.out.when(first['until'], zone=True)}" if first["until"] else ""
        doing = f"{one_line(ctx.out.local(first['text']))}{until}"
    else:
        doing = f"{claimers} may take it" if claimers else "nobody has taken it yet"
    return WaitedOut(
        f"#{now['id']} is still {now['status']}: {doing}",
        next=f"it goes on; `fabric log {now['id']} --follow` shows what happens",
        task=now["id"],
        status=now["status"],
        doing=doing,
    )


def _limit(text: str | None) -> float | None:
    """Seconds, or a length such as 10m. Raises BadInput."""
    if not text:
        return None
    number, unit = (text[:-1], text[-1]) if text[-1] in _UNITS else (text, "s")
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,6})?", number):
        raise BadInput(f"--wait {text[:40]!r} is not a number of seconds", next="write --wait 90 or --wait 10m")
    return float(number) * _UNITS[unit]


def read_text(name: str) -> str:
    """A text file, or standard input for ``-``. Raises BadInput when it cannot be read or is not UTF-8."""
    try:
        if name == "-":
            return sys.stdin.buffer.read().decode("utf-8-sig")
        with open(name, "rb") as file:  # noqa: PTH123 (a name as the caller typed it, also one that Path would change)
            return file.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{name} is not UTF-8 text (byte {error.start})", next="convert it, or attach it as a file"
        ) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadInput(f"{name[:200]} cannot be read: {reason}") from error


COMMANDS: Final = (
    Command(
        name="submit",
        help="Make a task. Prints its number.",
        add=add,
        run=run,
        examples=(
            'fabric submit "Summarise README.md" --to helper --ref file:README.md',
            'fabric submit "Fix the parser" --spec spec.md --needs tools --priority 2 --wait 10m',
            'fabric submit "Disk is full" --to alice --key disk-full --key-scope open',
            'fabric submit "Water the plants" --to bob --due "tomorrow 18:00"',
        ),
    ),
)
