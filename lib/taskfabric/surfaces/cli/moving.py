"""Commands by which a board moves in and out, and a project becomes a queue."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from taskfabric.domain.errors import BadInput, FabricError
from taskfabric.surfaces.cli.admin import document, secret
from taskfabric.surfaces.cli.command import Command, Context, Parser
from taskfabric.surfaces.cli.output import one_line

_FORMAT: Final = 1
_ROWS: Final = 200  # in one call
_COUNTED: Final = ("made", "known", "renumbered", "notes")  # of an answer
_BYTES: Final = 4_000_000  # of one call, files apart

Record = dict[str, Any]


# -- in --------------------------------------------------------------------------------------------------------


def _add_import(parser: Parser) -> None:
    parser.add_argument(
        "what", metavar="FILE|kanboard", help="an export (- reads standard input), or the word kanboard"
    )
    parser.add_argument(
        "url", metavar="URL", nargs="?", help="with kanboard: its address; KANBOARD_TOKEN has its token"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="bring nothing: say what would come, and what is here already"
    )
    parser.add_argument("--pin", action="store_true", help="prove with your PIN that a person asks")


def _import(ctx: Context, args: argparse.Namespace) -> int:
    if args.what == "kanboard":
        return _import_kanboard(ctx, args)
    if args.url is not None:
        raise BadInput("an export is one file", next="`fabric import FILE`, or `fabric import kanboard URL`")
    with contextlib.ExitStack() as stack:
        file = sys.stdin if args.what == "-" else stack.enter_context(_opened(ctx, args.what))
        source, highest, records = _of_file(file)
        return _bring(ctx, args, source, highest, records, [])


def _opened(ctx: Context, name: str) -> Any:
    try:
        return ctx.file(name).open(encoding="utf-8")
    except OSError as error:
        raise BadInput(
            f"{name[:200]} cannot be read: {error.strerror}", next="name the file of a `fabric export`"
        ) from None


def _of_file(file: Iterable[str]) -> tuple[str, Record, Iterator[Record]]:
    """The source and the highest ids that the first line names, and the rows that follow. Raises BadInput."""
    lines = iter(file)
    header = _json(next(lines, ""), 1)
    if header.get("format") != _FORMAT or not isinstance(header.get("source"), str):
        raise BadInput(
            "this is no export: its first line does not say so",
            next="`fabric export > board.jsonl` writes one; `fabric import kanboard URL` reads a Kanboard",
        )
    highest = header.get("highest")
    rows = (_json(line, number) for number, line in enumerate(lines, 2) if line.strip())
    return header["source"], highest if isinstance(highest, dict) else {}, rows


def _json(line: str, number: int) -> Record:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BadInput(f"line {number} is no JSON object", next="the file may be cut off: export it again")
    return found


def _import_kanboard(ctx: Context, args: argparse.Namespace) -> int:
    from taskfabric.boards.kanboard.client import Kanboard
    from taskfabric.boards.kanboard.reader import read

    if args.url is not None and not args.url.startswith(("http://", "https://")):
        raise BadInput(
            f"{args.url[:200]!r} is no address: it does not begin with http:// or https://",
            next="`fabric import kanboard https://kanboard.example/`",
        )
    if args.url is None:
        raise BadInput("which Kanboard?", next="`fabric import kanboard https://kanboard.example/`")
    token = ctx.env.get("KANBOARD_TOKEN")
    if not token:
        raise BadInput(
            "KANBOARD_TOKEN is not set",
            next="it is the token of the application, on the Kanboard's settings page 'API'",
        )
    board = Kanboard(args.url, token)
    left: list[dict[str, str]] = []
    highest, records = read(
        board,
        say_what=_Progress(ctx).say,
        left=lambda what, why: left.append({"what": what, "why": why}),
    )
    return _bring(ctx, args, board.url, highest, records, left)


def _bring(
    ctx: Context,
    args: argparse.Namespace,
    source: str,
    highest: Record,
    records: Iterator[Record],
    left: list[dict[str, str]],
) -> int:
    counts: dict[str, Counter[str]] = {name: Counter() for name in _COUNTED}
    changed: list[dict[str, str]] = []
    people: dict[int, str] = {}  # theirs
    progress = _Progress(ctx)
    pin = secret("PIN") if args.pin else None
    for batch in _batches(records):
        answer = ctx.ask("import", source=source, records=batch, highest=highest, dry=args.dry_run, pin=pin)
        for name, counter in counts.items():
            counter.update(answer[name])
        people |= {row["id"]: row["username"] for row in batch if row.get("table") == "users" and _is_person(row)}
        left.extend(_named(item, people) for item in answer["left_out"])
        changed.extend(answer["changed"])
        progress.rows(counts["made"].total() + counts["known"].total())
    progress.end()
    if not args.dry_run:
        left.extend(ctx.ask("import", source=source, records=[], last=True, pin=pin)["left_out"])
    return _report(ctx, args.dry_run, {name: +counter for name, counter in counts.items()}, changed, left)


def _is_person(row: Record) -> bool:
    return isinstance(row.get("id"), int) and isinstance(row.get("username"), str)


def _named(item: dict[str, str], people: dict[int, str]) -> dict[str, str]:
    """The item with the names of the people whom it numbers."""
    said = re.sub(r"\buser (\d+)", lambda found: f"user {people.get(int(found[1]), found[1])}", item["what"])
    return {**item, "what": said}


def _batches(records: Iterator[Record]) -> Iterator[list[Record]]:
    batch: list[Record] = []
    size = 0
    for record in records:
        length = len(json.dumps(record))
        if batch and (len(batch) >= _ROWS or size + length > _BYTES):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += length
    if batch:
        yield batch


def _report(
    ctx: Context,
    dry: bool,
    counts: dict[str, Counter[str]],
    changed: list[dict[str, str]],
    left: list[dict[str, str]],
) -> int:
    if ctx.out.as_json:
        told = {"changed": changed, "left_out": left}
        ctx.out.json({"dry_run": dry, **{name: dict(found) for name, found in counts.items()}, **told})
        return 0
    made, known, renumbered, notes = (counts[name] for name in _COUNTED)
    for table in sorted(made | known):
        number = f" ({renumbered[table]} under another number)" if renumbered[table] else ""
        here = f", {known[table]} here already" if known[table] else ""
        came = "would come" if dry else "came"
        ctx.out.line(f"{table.replace('_has_', ' ').replace('_', ' ')}: {made[table]} {came}{number}{here}")
    for note, count in sorted(notes.items()):
        ctx.out.line(f"note: {count} {note}")
    for item in changed:
        ctx.out.line(f"changed: {one_line(item['what'])}: {one_line(item['why'])}")
    for item in left:
        ctx.out.line(f"left out: {one_line(item['what'])}: {one_line(item['why'])}")
    if dry:
        ctx.out.line("Nothing was brought. What is here already stays as it is: an import adds, and changes nothing.")
    else:
        ctx.out.line("Passwords do not travel: `fabric user reset NAME` lets a person in.")
        ctx.out.line("`fabric adopt PROJECT` makes a queue of an imported project.")
    return 0


class _Progress:
    """What is going on, on the terminal; nothing is said to a file."""

    def __init__(self, ctx: Context) -> None:
        self._shown = not ctx.out.as_json and sys.stderr.isatty()

    def say(self, what: str) -> None:
        self._show(f"reading {one_line(what)}")

    def rows(self, count: int) -> None:
        self._show(f"{count} rows")

    def end(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")

    def _show(self, text: str) -> None:
        if self._shown:
            sys.stderr.write(f"\r\x1b[K{text[:70]}")
            sys.stderr.flush()


# -- out -------------------------------------------------------------------------------------------------------


def _add_export(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="written when all is there; default: standard output")
    parser.add_argument("--pin", action="store_true", help="prove with your PIN that a person asks")


def _export(ctx: Context, args: argparse.Namespace) -> int:
    pin = secret("PIN") if args.pin else None
    if args.file is None:
        for line in _lines(ctx, pin):
            sys.stdout.write(line)
        return 0
    target = ctx.file(args.file)
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    count = 0
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            for line in _lines(ctx, pin):
                file.write(line)
                count += 1
        draft.replace(target)
    except OSError as error:
        raise FabricError(
            f"{str(target)[:200]} cannot be written: {error.strerror}", next="name another file, or free some space"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
    return document(ctx, {"file": str(target), "rows": count - 1}, f"{count - 1} rows are in {target}")


def _lines(ctx: Context, pin: str | None) -> Iterator[str]:
    cursor: str | None = None
    progress, count = _Progress(ctx), 0
    while True:
        page = ctx.ask("export", cursor=cursor, pin=pin)
        if cursor is None:
            yield _line(page["header"])
        for record in page["records"]:
            yield _line(record)
        count += len(page["records"])
        progress.rows(count)
        cursor = page["next"]
        if cursor is None:
            progress.end()
            return


def _line(record: Record) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"


# -- adopting --------------------------------------------------------------------------------------------------


def _add_adopt(parser: Parser) -> None:
    parser.add_argument("project", metavar="PROJECT", help="its name or number")
    parser.add_argument(
        "--name", metavar="QUEUE", help="what the queue is called; default: as the project, in lower case"
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--pool", action="store_true", help="whoever fits may claim from it (the default)")
    kind.add_argument("--agent", metavar="NAME", help="it is this agent's queue")
    kind.add_argument("--inbox", metavar="HUMAN", help="it is this person's inbox")
    for role in ("backlog", "ready", "working", "done"):
        parser.add_argument(f"--{role}", metavar="COLUMN", help=f"the column for what is {role}")
    parser.add_argument("--pin", action="store_true", help="prove with your PIN that a person asks")


def _adopt(ctx: Context, args: argparse.Namespace) -> int:
    columns = {role: getattr(args, role) for role in ("backlog", "ready", "working", "done") if getattr(args, role)}
    shape = ctx.ask(
        "adopt",
        project=args.project,
        name=args.name,
        kind="agent" if args.agent else "inbox" if args.inbox else "pool",
        owner=args.agent or args.inbox,
        columns=columns,
        pin=secret("PIN") if args.pin else None,
    )
    return document(ctx, shape, f"{one_line(shape['name'])} is a queue now; no card has moved")


COMMANDS: Final = (
    Command(
        name="import",
        help="Bring a board in: from a Kanboard, or from a file that `fabric export` wrote. A second run goes on.",
        add=_add_import,
        run=_import,
        examples=("fabric import kanboard https://kanboard.example/ --dry-run", "fabric import board.jsonl --pin"),
    ),
    Command(
        name="export",
        help="The whole board as JSON lines, one row a line. Secrets, leases, approvals and the journal do not travel.",
        add=_add_export,
        run=_export,
        examples=("fabric export board.jsonl", "fabric export board.jsonl --pin"),
    ),
    Command(
        name="adopt",
        help="Make a queue of a project that is there, without moving a card.",
        add=_add_adopt,
        run=_adopt,
        examples=("fabric adopt Household", "fabric adopt 4 --agent kimi --working Doing --ready 'To do'"),
    ),
)
