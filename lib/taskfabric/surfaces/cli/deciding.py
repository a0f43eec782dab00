"""Commands about decisions: the inbox, approvals, passing on, vacation; and how an agent asks."""

from __future__ import annotations

import argparse
import json
from typing import Any, Final

from taskfabric.domain.errors import BadInput
from taskfabric.surfaces.cli.admin import document, secret
from taskfabric.surfaces.cli.command import Command, Context, Parser, Shape
from taskfabric.surfaces.cli.holder import note_of
from taskfabric.surfaces.cli.output import clean, one_line
from taskfabric.surfaces.cli.submit import read_text
from taskfabric.surfaces.cli.tasks import receipts

_WAITS: Final = 7  # exit code: a human must decide
_NO: Final = 5

_WORDS: Final = {
    "approval": "approve",
    "question": "answer",
    "verify": "verify",
    "dead": "dead letter",
    "overdue": "overdue",
    "held": "held",
    "work": "to do",
}


# -- the inbox -----------------------------------------------------------------


def _add_inbox(parser: Parser) -> None:
    parser.add_argument("--all", action="store_true", default=None, help="also what you have put off")


def _inbox(ctx: Context, args: argparse.Namespace) -> int:
    shape: Shape = ctx.ask("inbox", snoozed=args.all)
    if ctx.out.as_json:
        ctx.out.json(shape)
        return 0
    out = ctx.out
    if shape["away"]:
        until = out.when(shape["away"]["until"], zone=True)
        out.line(out.paint(f"you are not there until {until}: {one_line(shape['away']['note'])}", "yellow"))
    if not shape["items"]:
        out.line("nothing waits for you" + (f"; {shape['snoozed']} put off" if shape["snoozed"] else ""))
        return 0
    rows = [
        [
            f"#{item['ref']}",
            _WORDS.get(item["kind"], item["kind"]) + (" (PIN)" if _is_secure(item) else ""),
            item["title"],
            (item["who"] or "") + (f" for {item['delegated']['by']}" if item["delegated"] else ""),
            out.when(item["until"]) if item["until"] else "",
            out.ago(item["since"]),
        ]
        for item in shape["items"]
    ]
    out.table(rows, head=["ref", "what", "title", "from", "until", "since"], stretch=2)
    if shape["snoozed"] and not args.all:
        out.line(out.paint(f"{shape['snoozed']} put off: `fabric inbox --all` shows them", "dim"))
    return 0


def _is_secure(item: Shape) -> bool:
    return item["approval"] is not None and item["approval"]["level"] == "secure"


# -- deciding ------------------------------------------------------------------


def _face(ctx: Context, approval: Shape, *, args: object = None) -> None:
    """What is decided, for the one who decides; its words are an agent's, and no terminal obeys them."""
    out = ctx.out
    out.line(out.paint(f"{one_line(approval['requester'])} asks: {one_line(approval['action'])}", "bold"))
    shown = approval["args"] if args is None else args
    out.line(clean(json.dumps(shown, indent=2, ensure_ascii=False, sort_keys=True)))
    if approval["why"]:
        out.line(out.paint(f"why: {clean(approval['why'])}", "dim"))
    if approval["for"]:
        out.line(out.paint(f"#{approval['for']} waits for it", "dim"))
    out.line(out.paint(f"silence: {out.local(one_line(approval['on_silence']))}", "dim"))


def _add_approve(parser: Parser) -> None:
    parser.add_argument("refs", metavar="REF", nargs="+", help="the number in your inbox; several are decided together")
    parser.add_argument("--pin", action="store_true", help="asks for your PIN, which proves that a person decides")
    parser.add_argument("--edit", metavar="JSON", help="allow this instead; @FILE reads a file")
    parser.add_argument("--note", metavar="N", help="what you want to say with it")
    parser.add_argument("--seen", metavar="HASH", help="of what you were shown elsewhere; default: what is shown now")
    parser.add_argument("--always", action="store_true", default=None, help="from now on without asking, for 30 days")
    parser.add_argument("--until", metavar="T", help="when that ends")


def _approve(ctx: Context, args: argparse.Namespace) -> int:
    found: list[Shape] = [ctx.ask("approval.show", task=ref) for ref in args.refs]
    if len(found) > 1:
        if args.edit or args.always or args.until or args.note or args.seen:
            raise BadInput("several at once are approved as they are", next="decide them one after the other")
        return _approve_many(ctx, args, found)
    approval = found[0]
    edited = None if args.edit is None else _object(args.edit, "--edit")
    if not ctx.out.as_json:
        _face(ctx, approval, args=edited)
    got: Shape = ctx.ask(
        "approve",
        task=args.refs[0],
        seen=args.seen or approval["hash"],
        args=edited,
        note=args.note,
        always=args.always,
        until=ctx.when(args.until),
        pin=secret("PIN") if args.pin else None,
    )
    whose = f" for {one_line(got['for_whom'])}" if got["for_whom"] else ""
    return document(ctx, got, f"{got['state']} by {one_line(got['decided_by'])}{whose}; it can be used once")


def _approve_many(ctx: Context, args: argparse.Namespace, found: list[Shape]) -> int:
    if not ctx.out.as_json:
        for approval in found:
            _face(ctx, approval)
    items = [{"task": ref, "seen": a["hash"]} for ref, a in zip(args.refs, found, strict=True)]
    got: list[Shape] = ctx.ask("approve_many", items=items, pin=secret("PIN") if args.pin else None)
    return receipts(ctx, got, [(one["task"], one.get("error"), one.get("state")) for one in got])


def _add_deny(parser: Parser) -> None:
    parser.add_argument("ref", metavar="REF")
    parser.add_argument("--note", metavar="N", required=True, help="why; the agent reads it; - reads standard input")
    parser.add_argument("--pin", action="store_true", help="asks for your PIN, which proves that a person decides")


def _deny(ctx: Context, args: argparse.Namespace) -> int:
    note = note_of(args)
    got: Shape = ctx.ask("deny", task=args.ref, note=note, pin=secret("PIN") if args.pin else None)
    return document(ctx, got, f"denied by {one_line(got['decided_by'])}; {one_line(got['requester'])} is told why")


_PASSED_ON: Final = {
    "approval": "may decide it as well{until}, and that is marked",
    "question": "is asked instead{until}, and that is marked",
    "work": "has it in his inbox now",
}


def _add_delegate(parser: Parser) -> None:
    parser.add_argument("ref", metavar="REF")
    parser.add_argument("--to", metavar="HUMAN", required=True, help="who is to decide it, to answer it, or to do it")
    parser.add_argument("--until", metavar="T", help="then it is yours alone again; a question in a week at the latest")
    parser.add_argument("--note", metavar="N", help="what he should know")


def _delegate(ctx: Context, args: argparse.Namespace) -> int:
    got: Shape = ctx.ask("delegate", task=args.ref, to=args.to, until=ctx.when(args.until), note=args.note)
    until = f" until {ctx.out.when(got['until'], zone=True)}" if got["until"] else ""
    return document(ctx, got, f"{one_line(got['to'])} {_PASSED_ON[got['kind']].format(until=until)}")


def _add_snooze(parser: Parser) -> None:
    parser.add_argument("refs", metavar="REF", nargs="+")
    when = parser.add_mutually_exclusive_group(required=True)
    when.add_argument("--until", metavar="T", help="when you want to see it again")
    when.add_argument("--off", action="store_true", help="back into the inbox now")


def _snooze(ctx: Context, args: argparse.Namespace) -> int:
    got: list[Shape] = ctx.ask("inbox.snooze_many", tasks=args.refs, until=ctx.when(args.until))
    until = got[0]["until"]
    said = "back in your inbox" if until is None else f"put off until {ctx.out.when(until, zone=True)}"
    return document(ctx, got, f"{', '.join('#' + str(one['task']) for one in got)}: {said}")


# -- away ----------------------------------------------------------------------


def _add_vacation(parser: Parser) -> None:
    parser.add_argument("--until", metavar="T", help="when you are back; what waits for you waits, and says so")
    parser.add_argument("--to", metavar="HUMAN", help="who decides meanwhile; never what needs your PIN")
    parser.add_argument("--note", metavar="N", help="shown to those who wait")
    parser.add_argument("--off", action="store_true", default=None, help="you are back")


def _vacation(ctx: Context, args: argparse.Namespace) -> int:
    got: Shape = ctx.ask("vacation", until=ctx.when(args.until), to=args.to, note=args.note, off=args.off)
    if not got["away"]:
        return document(ctx, got, "you are there")
    if got["warning"]:
        ctx.out.progress(one_line(got["warning"]))
    to = f"; {one_line(got['to'])} decides meanwhile" if got["to"] else ""
    return document(ctx, got, f"you are away until {ctx.out.when(got['until'], zone=True)}{to}")


# -- asking --------------------------------------------------------------------


def _add_request(parser: Parser) -> None:
    parser.add_argument("action", metavar="ACTION", help="what is to be done, such as mail.send")
    parser.add_argument("--args", metavar="JSON", default="{}", help="exactly how; @FILE or - reads it")
    parser.add_argument("--level", choices=("logged", "confirm", "secure"), help="more than the house asks for")
    parser.add_argument("--why", metavar="TEXT", help="for the human who decides")
    parser.add_argument("--again", action="store_true", default=None, help="after it expired: ask once more")
    parser.add_argument("--ref", metavar="REF", help="the task that you hold (12@3); inside a run it is that run's")


def _request(ctx: Context, args: argparse.Namespace) -> int:
    """Exit code 0: it may be done now, once, with the arguments that are printed. 7: a human must decide, and the run
    has ended: stop. 5: no."""
    from taskfabric.domain.lease import TaskRef
    from taskfabric.surfaces.cli.holder import fence_arg

    wanted = _object(args.args, "--args")
    fence = None if args.ref is None else fence_arg(ctx.leases.need(TaskRef.parse(args.ref)))
    got: dict[str, Any] = ctx.ask(
        "approval.request",
        action=args.action,
        args=wanted,
        level=args.level,
        why=args.why,
        again=args.again,
        fence=fence,
    )
    if got["allowed"] and got["id"] is not None:
        got = ctx.ask("approval.consume", approval=got["id"], args=got["decided_args"])
        got["allowed"] = True
    code = 0 if got["allowed"] else _WAITS if got["state"] == "pending" else _NO
    if ctx.out.as_json:
        ctx.out.json(got)
        return code
    ctx.out.line(_told(ctx, got))
    if got["allowed"]:
        ctx.out.line(clean(json.dumps(got["decided_args"], ensure_ascii=False, sort_keys=True)))
    return code


def _told(ctx: Context, got: Shape) -> str:
    if got["allowed"]:
        return "yes: do it now, once, exactly so:"
    if got["state"] != "pending":
        note = f": {one_line(got['note'])}" if got["note"] else ""
        return f"no: it is {got['state']}{note}"
    until = ctx.out.when(got["expires"], zone=True)
    away = got["away"]
    there = f"; {one_line(away['name'])} is not there until {ctx.out.when(away['until'])}" if away else ""
    asked = f"#{got['task']} waits for a human's decision until {until}{there}. Stop now: "
    if got["for"] is None:
        return (
            f"{asked}ask the same again later, and you are told what was decided. No task of yours waits for it;"
            " with --ref REF the one that you hold does."
        )
    return f"{asked}#{got['for']} goes on when it is decided, and then the same request says what was decided."


def _object(text: str, option: str) -> dict[str, Any]:
    """A JSON object as it was given, from a file or from standard input. Raises BadInput."""
    if text == "-":
        text = read_text("-")
    elif text.startswith("@"):
        text = read_text(text[1:])
    try:
        shape = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{option} is not JSON: {str(error)[:200]}", next='write it as \'{"to": "…"}\'') from error
    if not isinstance(shape, dict):
        raise BadInput(f"{option} is not a JSON object", next='write it as \'{"to": "…"}\'')
    return shape


COMMANDS: Final = (
    Command(
        name="inbox",
        help="What waits for you: approvals, questions, results to verify, dead letters. Oldest first.",
        add=_add_inbox,
        run=_inbox,
        examples=("fabric inbox", "fabric inbox --json"),
    ),
    Command(
        name="approve",
        help="Yes, to exactly what is shown; it can be used once.",
        add=_add_approve,
        run=_approve,
        examples=(
            "fabric approve 45 --pin",
            'fabric approve 45 --pin --edit \'{"to": "bank@example.org", "text": "kindly"}\'',
            "fabric approve 45 --pin --always --until +14d",
            "fabric approve 45 46 47 --pin",
        ),
    ),
    Command(
        name="deny",
        help="No, and why.",
        add=_add_deny,
        run=_deny,
        examples=('fabric deny 45 --pin --note "not this month"',),
    ),
    Command(
        name="delegate",
        help="Another human decides it, answers it, or does it; what is delegated is marked.",
        add=_add_delegate,
        run=_delegate,
        examples=("fabric delegate 45 --to bob", "fabric delegate 45 --to bob --until +2d"),
    ),
    Command(
        name="snooze",
        help="Out of your inbox until then; nothing else changes, and what expires still does.",
        add=_add_snooze,
        run=_snooze,
        examples=("fabric snooze 45 46 --until 'tomorrow 09:00'", "fabric snooze 45 --off"),
    ),
    Command(
        name="vacation",
        help="You are away: what waits for you waits, and those who wait see until when. Without arguments: how it is.",
        add=_add_vacation,
        run=_vacation,
        examples=("fabric vacation --until 2026-12-24 --to bob", "fabric vacation --off", "fabric vacation"),
    ),
    Command(
        name="request-approval",
        help="May this be done? Exit code 0: yes, now, once; 7: a human must decide, so stop; 5: no.",
        add=_add_request,
        run=_request,
        examples=(
            'fabric request-approval mail.send --args \'{"to": "bank@example.org", "text": "…"}\' --why "the invoice"',
            "fabric request-approval deploy.web --args @plan.json --level secure",
        ),
    ),
)
