"""Commands that only read: list, search, show, log, tree, why, attachment."""

from __future__ import annotations

import argparse
import base64
import os
import threading
from pathlib import Path
from typing import Any, Final

from taskfabric.domain.errors import BadInput, FabricError
from taskfabric.surfaces.cli import render
from taskfabric.surfaces.cli.command import Command, Context, Parser, Shape, split_words
from taskfabric.surfaces.cli.output import one_line, plural

_PAGE: Final = 200  # tasks asked for at once
_STATUSES: Final = "backlog ready held working waiting done verified dead cancelled rejected"


def _add_list(parser: Parser) -> None:
    parser.add_argument("--queue", metavar="Q", help="only this queue")
    parser.add_argument(
        "--status", metavar="S", action="append", help=f"{_STATUSES}; repeatable; default: all open ones"
    )
    parser.add_argument(
        "--mine",
        action="store_true",
        default=None,
        help="only what you submitted, hold, are asked, or what is done on your behalf",
    )
    parser.add_argument("--overdue", action="store_true", default=None, help="only what is past its due time")
    parser.add_argument("--limit", metavar="N", type=int, default=1000, help="at most so many, default 1000")


def _list(ctx: Context, args: argparse.Namespace) -> int:
    statuses = split_words(args.status)
    asked = {"queue": args.queue, "statuses": statuses, "mine": args.mine, "overdue": args.overdue}
    return _print(ctx, *_find(ctx, args.limit, **asked), none="nothing here; `fabric submit` makes a task")


def _add_search(parser: Parser) -> None:
    parser.add_argument("text", metavar="TEXT", help="words in the title or the description, or a number")
    parser.add_argument("--queue", metavar="Q", help="only this queue")
    parser.add_argument("--limit", metavar="N", type=int, default=200, help="at most so many, default 200")


def _search(ctx: Context, args: argparse.Namespace) -> int:
    found = _find(ctx, args.limit, queue=args.queue, text=args.text, statuses=_STATUSES.split())
    return _print(ctx, *found, none="nothing found")


def _find(ctx: Context, limit: int, **asked: object) -> tuple[list[Shape], bool]:
    """The tasks, page by page, and whether there are more."""
    if limit < 1:
        raise BadInput("--limit must be at least 1")
    found: list[Shape] = []
    while len(found) <= limit:
        size = min(_PAGE, limit + 1 - len(found))
        page = ctx.ask("list", **asked, after_id=found[-1]["id"] if found else None, limit=size)
        found += page
        if len(page) < size:
            break
    return found[:limit], len(found) > limit


def _print(ctx: Context, tasks: list[Shape], more: bool, *, none: str) -> int:
    if ctx.out.as_json:
        ctx.out.json(tasks)
        return 0
    if not tasks:
        ctx.out.line(none)
        return 0
    render.task_list(ctx.out, tasks)
    if more:
        ctx.out.line("there are more: --limit N shows them")
    return 0


def _ref(parser: Parser) -> None:
    parser.add_argument("ref", metavar="REF", help="the task: 12, '#12' or 12@3")


_HUNG: Final = ("subtasks", "links", "external_links")
_PARTS: Final = (
    ("subtasks", "subtasks"),
    ("links", "links"),
    ("links elsewhere", "external_links"),
    ("thread", "thread"),
    ("files", "attachments"),
    ("late results", "late_results"),
)


def _show(ctx: Context, args: argparse.Namespace) -> int:
    out = ctx.out
    shown: Shape = ctx.ask("show", task=args.ref)
    hung: Shape = dict.fromkeys(_HUNG, ()) if shown["restricted"] else ctx.ask("annex", task=shown["id"])
    task = {**shown, **hung}
    if out.as_json:
        out.json(task)
        return 0
    render.card(out, task)
    for title, key in _PARTS:
        if task[key]:
            out.line(f"\n{out.paint(title, 'bold')}")
        for shape in task[key]:
            match key:
                case "thread":
                    render.entry(out, shape)
                case "attachments":
                    size = f"{shape['size']} bytes"
                    out.line(f"  {shape['id']}  {one_line(shape['name'])}  {size}  {one_line(shape['author'])}")
                case "subtasks":
                    who = f"  {one_line(shape['who'])}" if shape["who"] else ""
                    out.line(f"  {one_line(shape['title'])}  {out.paint(shape['status'].lower(), 'dim')}{who}")
                case "links":
                    ended = "" if shape["open"] else out.paint("  closed", "dim")
                    out.line(f"  {one_line(shape['label'])} #{shape['task']}  {one_line(shape['title'])}{ended}")
                case "external_links":
                    out.line(f"  {one_line(shape['title'])}  {one_line(shape['url'])}")
                case _:
                    out.line(f"  epoch {shape['epoch']}, {one_line(shape['author'])}: {one_line(shape['text'])}")
    if task["attachments"]:
        out.line(out.paint("\n`fabric attachment ID -o FILE` saves one", "dim"))
    return 0


def _add_log(parser: Parser) -> None:
    _ref(parser)
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on as it happens, with what the run says, until interrupted"
    )


def _log(ctx: Context, args: argparse.Namespace) -> int:
    """Comments and events in the order of time. An event that a line of the thread already tells is not repeated."""
    thread: Shape = ctx.ask("show", task=args.ref)
    events, cursor = _events(ctx, thread["id"])
    told = {entry["at"] for entry in thread["thread"] if entry["kind"]}  # written in the same transaction
    lines: list[tuple[str, int, str, Shape]] = [(e["at"], 1, "comment", e) for e in thread["thread"]]
    lines += [(e["at"], 0, "event", e) for e in events if ctx.out.as_json or e["at"] not in told]
    for _, _, kind, shape in sorted(lines, key=lambda line: line[:2]):
        _log_line(ctx, kind, shape)
    if args.follow:
        ctx.out.flush()
        _follow_on(ctx, thread, cursor)
    return 0


def _follow_on(ctx: Context, thread: Shape, cursor: str) -> None:
    """Events and the run's output as they come, each whole: two threads print in turns."""
    from taskfabric.surfaces.cli.output_of_run import Output, listen
    from taskfabric.surfaces.cli.where import connect

    seen, stop, turn = {entry["id"] for entry in thread["thread"]}, threading.Event(), threading.Lock()

    def show(chunk: Shape) -> None:
        with turn:
            _chunk_line(ctx, chunk)

    with connect(ctx.where) as line:
        output = Output(line, thread["id"])
        if thread["status"] != "working":
            output.skip()  # of a run that has ended the thread tells what came of it
        speaker = threading.Thread(target=listen, args=(output, show, stop), name="output", daemon=True)
        speaker.start()
        try:
            for event in ctx.board.follow(cursor, task=thread["id"]):
                with turn:
                    _follow(ctx, event, thread["id"], seen)
        finally:
            stop.set()
            speaker.join(5)


def _chunk_line(ctx: Context, chunk: Shape) -> None:
    """A piece of a run's output: for people its lines, marked as such."""
    if ctx.out.as_json:
        ctx.out.json({"type": "chunk", **chunk})
    else:
        for line in chunk["text"].splitlines():
            ctx.out.line(ctx.out.paint(f"  │ {one_line(line)}", "red" if chunk["stream"] != "out" else "dim"))
    ctx.out.flush()


def _events(ctx: Context, task: int) -> tuple[list[Shape], str]:
    cursor = ""
    events: list[Shape] = []
    while True:
        page: Shape = ctx.ask("events", task=task, cursor=cursor, limit=1000)
        cursor = page["cursor"]
        if not page["events"]:
            return events, cursor
        events += page["events"]


def _follow(ctx: Context, event: Shape, task: int, seen: set[int]) -> None:
    """Print an event that just came, and for people what was written with it."""
    if ctx.out.as_json:
        _log_line(ctx, "event", event)
        return
    fresh = [e for e in ctx.ask("show", task=task)["thread"] if e["id"] not in seen]
    seen.update(e["id"] for e in fresh)
    if not fresh:
        _log_line(ctx, "event", event)
    for entry in fresh:
        _log_line(ctx, "comment", entry)
    ctx.out.flush()


def _log_line(ctx: Context, kind: str, shape: Shape) -> None:
    out = ctx.out
    if out.as_json:
        out.json({"type": kind, **shape})
    elif kind == "comment":
        render.entry(out, shape)
    else:
        head = f"{out.when(shape['at'])}  {one_line(shape['actor'])}"
        out.line(f"{out.paint(head, 'dim')}  · {render.what_happened(shape)}")


def _tree(ctx: Context, args: argparse.Namespace) -> int:
    kin: Shape = ctx.ask("tree", task=args.ref)
    if ctx.out.as_json:
        ctx.out.json(kin)
    else:
        render.tree(ctx.out, kin)
    return 0


def _why(ctx: Context, args: argparse.Namespace) -> int:
    out = ctx.out
    why: Shape = ctx.ask("why", task=args.ref)
    if out.as_json:
        out.json(why)
        return 0
    number = why["task"]["id"]
    first: Shape | None = why["first"]
    if first is None:
        who = ", ".join(one_line(name) for name in why["claimers"])
        out.line(f"#{number} waits for nothing: " + (f"{who} may take it" if who else "whoever may claims it next"))
        return 0
    out.line(f"#{number}: {_reason(ctx, first)}")
    for reason in why["reasons"]:
        if reason != first:
            out.line(f"  also: {_reason(ctx, reason)}")
    return 0


def _reason(ctx: Context, reason: Shape) -> str:
    until = f", until {ctx.out.when(reason['until'], zone=True)}" if reason["until"] else ""
    return f"{one_line(ctx.out.local(reason['text']))}{until}"


def _add_attachment(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", type=int, help="the file's number, as `fabric show` lists it")
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="where to write it; it must not exist yet"
    )


def _attachment(ctx: Context, args: argparse.Namespace) -> int:
    got: dict[str, Any] = ctx.ask("download", attachment=args.id)
    data = base64.b64decode(got["data"])
    target = Path(args.output)
    try:
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
    except FileExistsError as error:
        raise BadInput(f"{target} exists already", next="name another file with -o") from error
    except OSError as error:
        raise FabricError(f"{target} cannot be written: {error.strerror}") from error
    if ctx.out.as_json:
        ctx.out.json({"id": args.id, "name": got["name"], "size": len(data), "file": str(target)})
    else:
        ctx.out.line(f"{one_line(got['name'])}: {plural(len(data), 'byte')} in {target}")
    return 0


COMMANDS: Final = (
    Command(
        name="list",
        help="The open tasks that you may see, by queue.",
        add=_add_list,
        run=_list,
        examples=(
            "fabric list",
            "fabric list --queue helper --status ready --status working",
            "fabric list --mine --json",
        ),
    ),
    Command(
        name="search",
        help="Find tasks by words, whatever their status.",
        add=_add_search,
        run=_search,
        examples=('fabric search "backup disk"',),
    ),
    Command(
        name="show",
        help="A task with its thread and files.",
        add=_ref,
        run=_show,
        examples=("fabric show 12", "fabric show 12 --json"),
    ),
    Command(
        name="log",
        help="All that happened to a task, in the order of time. With --json one object a line.",
        add=_add_log,
        run=_log,
        examples=("fabric log 12", "fabric log 12 --follow"),
    ),
    Command(
        name="tree",
        help="A task with its descendants.",
        add=_ref,
        run=_tree,
        examples=("fabric tree 12",),
    ),
    Command(
        name="why",
        help="The one thing that holds a task back, and until when; then the rest.",
        add=_ref,
        run=_why,
        examples=("fabric why 12",),
    ),
    Command(
        name="attachment",
        help="Save a file of a task.",
        add=_add_attachment,
        run=_attachment,
        examples=("fabric attachment 7 -o report.pdf",),
    ),
)
