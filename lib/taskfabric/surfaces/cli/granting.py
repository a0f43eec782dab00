"""Commands about standing grants, the policy, browser sessions and one's own settings."""

from __future__ import annotations

import argparse
import re
from typing import Final
from urllib.parse import quote

from taskfabric.domain.errors import BadInput
from taskfabric.surfaces.cli.admin import document, secret, table
from taskfabric.surfaces.cli.command import Command, Context, Parser, Shape
from taskfabric.surfaces.cli.output import one_line

_QUIET: Final = re.compile(r"(\d\d:\d\d)-(\d\d:\d\d)")


def _pin(parser: Parser) -> None:
    parser.add_argument("--pin", action="store_true", help="asks for your PIN, which proves that a person decides")


def _number(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", type=int)


# -- grants --------------------------------------------------------------------


def _add_grant(parser: Parser) -> None:
    parser.add_argument("agent", metavar="AGENT", help="one of yours")
    parser.add_argument("action", metavar="ACTION", help="such as mail.send, or mail.* for all below")
    parser.add_argument("--recipient", metavar="WHO", help="only towards this one")
    parser.add_argument("--until", metavar="T", help="default: for 30 days")
    _pin(parser)


def _create(ctx: Context, args: argparse.Namespace) -> int:
    got: Shape = ctx.ask(
        "grant.create",
        agent=args.agent,
        action=args.action,
        recipient=args.recipient,
        until=ctx.when(args.until),
        pin=secret("PIN") if args.pin else None,
    )
    until = ctx.out.when(got["until"], zone=True)
    return document(ctx, got, f"{one_line(got['agent'])} may {one_line(got['action'])} without asking until {until}")


def _list(ctx: Context, args: argparse.Namespace) -> int:
    names = ["id", "agent", "action", "recipient", "until", "used", "revoked"]
    return table(ctx, ctx.ask("grant.list"), names, stretch=2)


def _revoke(ctx: Context, args: argparse.Namespace) -> int:
    return document(ctx, ctx.ask("grant.revoke", id=args.id), f"grant {args.id} is worth nothing any more")


# -- the policy ----------------------------------------------------------------


def _policy(ctx: Context, args: argparse.Namespace) -> int:
    got: Shape = ctx.ask("policy.show")
    if ctx.out.as_json:
        ctx.out.json(got)
        return 0
    out = ctx.out
    out.table(
        [[a["action"], a["kind"], a["level"]] for a in got["actions"]], head=["action", "kind", "level"], stretch=0
    )
    out.line(f"from {one_line(got['source'])}; passed on to: {', '.join(map(one_line, got['household'])) or 'nobody'}")
    if got["problem"]:
        out.line(out.paint(f"the file is not in force: {one_line(got['problem'])}", "red"))
    elif not got["accepted"]:
        out.line(out.paint("where the file asks for less it waits for `fabric policy accept`", "yellow"))
    return 0


def _accept(ctx: Context, args: argparse.Namespace) -> int:
    got: Shape = ctx.ask("policy.accept", pin=secret("PIN") if args.pin else None)
    said = "holds now" if got["changed"] else "held already"
    return document(ctx, got, f"{one_line(got['source'])} {said}")


# -- sessions ------------------------------------------------------------------


def _add_sessions(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="of somebody else, for administrators")


def _sessions(ctx: Context, args: argparse.Namespace) -> int:
    names = ["id", "principal", "agent", "proven", "created", "seen", "expires"]
    return table(ctx, ctx.ask("session.list", name=args.name), names, stretch=2)


def _end(ctx: Context, args: argparse.Namespace) -> int:
    return document(ctx, ctx.ask("session.revoke", id=args.id), f"session {args.id} has to sign in again")


def _add_link(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="for somebody who lost his way in; for administrators")
    _pin(parser)


def _link(ctx: Context, args: argparse.Namespace) -> int:
    got: Shape = ctx.ask("session.link", name=args.name, pin=secret("PIN") if args.pin else None)
    url = f"{ctx.where.url}/sign-in?link={quote(got['secret'])}"
    return document(ctx, {**got, "url": url}, f"{url}\n(once, until {ctx.out.when(got['expires'], zone=True)})")


# -- oneself -------------------------------------------------------------------


def _add_me(parser: Parser) -> None:
    parser.add_argument("--zone", metavar="ZONE", help="in which you read times, such as Europe/Berlin")
    parser.add_argument("--quiet", metavar="HH:MM-HH:MM", help="no letters in these hours, except what is secure")
    parser.add_argument("--no-quiet", action="store_true", default=None, help="letters at any hour")


def _me(ctx: Context, args: argparse.Namespace) -> int:
    if args.zone is None and args.quiet is None and args.no_quiet is None:
        return _told(ctx, ctx.ask("me"))
    begin = end = None
    if args.quiet is not None:
        match = _QUIET.fullmatch(args.quiet)
        if match is None:
            raise BadInput(f"--quiet {args.quiet[:40]!r} names no hours", next="write it as 22:00-07:00")
        begin, end = match.groups()
    return _told(ctx, ctx.ask("me.set", zone=args.zone, quiet_begin=begin, quiet_end=end, no_quiet=args.no_quiet))


def _told(ctx: Context, me: Shape) -> int:
    quiet = f"{me['quiet']['begin']}-{me['quiet']['end']}" if me["quiet"] else "none"
    away = f"; not there until {ctx.out.when(me['away']['until'])}" if me["away"] else ""
    pin = "set" if me["pin"] else "not set"
    return document(ctx, me, f"{one_line(me['name'])}: zone {me['zone']}, quiet hours {quiet}, PIN {pin}{away}")


COMMANDS: Final = (
    Command(
        name="grant create",
        help="An agent of yours may do something without asking, for a while. Never what needs a PIN.",
        add=_add_grant,
        run=_create,
        examples=("fabric grant create kimi mail.send --recipient bank@example.org --pin",),
    ),
    Command(
        name="grant list",
        help="Your standing grants, and how often each was used.",
        add=lambda parser: None,
        run=_list,
        examples=("fabric grant list",),
    ),
    Command(
        name="grant revoke",
        help="A standing grant is worth nothing from now on.",
        add=_number,
        run=_revoke,
        examples=("fabric grant revoke 3",),
    ),
    Command(
        name="policy show",
        help="Which action asks for what: nothing, a line in the journal, a decision, a decision with the PIN.",
        add=lambda parser: None,
        run=_policy,
        examples=("fabric policy show",),
    ),
    Command(
        name="policy accept",
        help="The changed policy.toml holds, also where it asks for less. For administrators.",
        add=_pin,
        run=_accept,
        examples=("fabric policy accept --pin",),
    ),
    Command(
        name="session list",
        help="The browsers that are signed in as you.",
        add=_add_sessions,
        run=_sessions,
        examples=("fabric session list",),
    ),
    Command(
        name="session revoke",
        help="A browser has to sign in again.",
        add=_number,
        run=_end,
        examples=("fabric session revoke 4",),
    ),
    Command(
        name="session link",
        help="A link that signs one browser in, once, within 15 minutes.",
        add=_add_link,
        run=_link,
        examples=("fabric session link --pin", "fabric session link bob --pin"),
    ),
    Command(
        name="me",
        help="Your settings: zone, quiet hours.",
        add=_add_me,
        run=_me,
        examples=("fabric me", "fabric me --zone Europe/Berlin --quiet 22:00-07:00"),
    ),
)
