"""Commands about queues and accounts."""

from __future__ import annotations

import argparse
import getpass
import sys
from collections.abc import Sequence
from typing import Any, Final

from taskfabric.domain.errors import BadInput, not_found
from taskfabric.surfaces.cli.command import Command, Context, Parser, Shape
from taskfabric.surfaces.cli.output import one_line
from taskfabric.surfaces.cli.where import CREDENTIALS, read


def secret(prompt: str) -> str:
    """A secret typed at the terminal without an echo, or the next line of standard input. Raises BadInput for none."""
    typed = getpass.getpass(f"{prompt}: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    if not typed:
        raise BadInput(f"no {prompt} was given", next="type it, or write it to standard input as one line")
    return typed


def document(ctx: Context, shape: Any, said: str) -> int:
    """The answer as a document, or one sentence for people."""
    if ctx.out.as_json:
        ctx.out.json(shape)
    else:
        ctx.out.line(said)
    return 0


def table(ctx: Context, shapes: Sequence[Shape], names: Sequence[str], *, stretch: int) -> int:
    """Some members of each object as a table, or all of them as a document."""
    if ctx.out.as_json:
        ctx.out.json(shapes)
        return 0
    rows = [[_cell(ctx, shape.get(name)) for name in names] for shape in shapes]
    ctx.out.table(rows, head=[name.replace("_", " ") for name in names], stretch=stretch)
    return 0


def _cell(ctx: Context, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{count} {word}" for word, count in value.items() if count)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return ctx.out.local(str(value))


# -- queues --------------------------------------------------------------------


def _add_queue(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--pool", action="store_true", help="for every member (the default)")
    kind.add_argument("--inbox", metavar="HUMAN", help="of a human")
    kind.add_argument("--agent", metavar="AGENT", help="of an agent")
    _rules(parser)


_RULES: Final = {
    "score_check": "unrated tasks wait",
    "needs_verified": "what waits for a task of this queue waits until it is verified, not only done",
    "human_verify": "only a human closes what is done here",
}


def _rules(parser: Parser) -> None:
    for name, text in _RULES.items():
        parser.add_argument(f"--{name.replace('_', '-')}", action=argparse.BooleanOptionalAction, help=text)


def _rules_given(args: argparse.Namespace) -> dict[str, bool]:
    return {name: value for name in _RULES if (value := getattr(args, name)) is not None}


def _create_queue(ctx: Context, args: argparse.Namespace) -> int:
    kind = "inbox" if args.inbox else "agent" if args.agent else "pool"
    queue = ctx.ask("queue.create", name=args.name, kind=kind, owner=args.inbox or args.agent, **_rules_given(args))
    return document(ctx, queue, f"{one_line(queue['name'])} is there ({queue['kind']})")


def _add_rules(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME")
    _rules(parser)


def _show_or_set_rules(ctx: Context, args: argparse.Namespace) -> int:
    queue: Shape | None = next((q for q in ctx.ask("queue.list") if q["name"] == args.name), None)
    if queue is None:
        raise not_found("queue")
    given = _rules_given(args)
    if given:
        queue = ctx.ask("queue.create", name=queue["name"], kind=queue["kind"], owner=queue["owner"], **given)
    assert queue is not None
    if ctx.out.as_json:
        ctx.out.json(queue)
        return 0
    for name, text in _RULES.items():
        ctx.out.line(f"{name.replace('_', '-'):<15} {'yes' if queue[name] else 'no':<4} {text}")
    return 0


def _list_queues(ctx: Context, args: argparse.Namespace) -> int:
    return table(ctx, ctx.ask("queue.list"), ["name", "kind", "owner", "counts", "limits"], stretch=3)


def _add_limit(parser: Parser) -> None:
    parser.add_argument("queue", metavar="QUEUE")
    parser.add_argument("column", metavar="COLUMN")
    parser.add_argument("limit", metavar="N", help="or none; a full Done stops the claims of its queue")


def _set_limit(ctx: Context, args: argparse.Namespace) -> int:
    if args.limit != "none" and not args.limit.isdecimal():
        raise BadInput(
            f"{args.limit[:40]!r} is no number of cards", next='write digits, or "none" for no limit', field="limit"
        )
    number = 0 if args.limit == "none" else int(args.limit)
    got: Shape = ctx.ask("queue.limit", queue=args.queue, column=args.column, limit=number)
    most = f"at most {got['limit']}" if got["limit"] else "as many as there are"
    return document(ctx, got, f"{one_line(got['column'])} of {one_line(got['queue'])} holds {most}")


def _add_member(parser: Parser) -> None:
    parser.add_argument("queue", metavar="QUEUE")
    parser.add_argument("name", metavar="NAME", help="a human or an agent")
    parser.add_argument("--role", choices=("manager", "member", "viewer"), default="member")
    parser.add_argument("--remove", action="store_true", help="no longer a member")
    _pin(parser)


def _set_member(ctx: Context, args: argparse.Namespace) -> int:
    role = None if args.remove else f"project-{args.role}"
    # Through the board itself: here an argument that is null has a meaning of its own.
    proof = {"pin": secret("PIN")} if args.pin else {}
    ctx.board.ask("fabric.queue.member", {"queue": args.queue, "name": args.name, "role": role, **proof})
    shape = {"queue": args.queue, "name": args.name, "role": role}
    now = "is no longer a member of" if role is None else f"is {args.role} of"
    return document(ctx, shape, f"{one_line(args.name)} {now} {one_line(args.queue)}")


# -- accounts ------------------------------------------------------------------


def _add_user(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--full-name", metavar="TEXT")
    parser.add_argument("--email", metavar="ADDRESS")
    parser.add_argument("--zone", metavar="ZONE", help="where this person lives: Europe/Berlin")
    parser.add_argument("--admin", action="store_true", help="may manage accounts and queues")
    _pin(parser)


def _create_user(ctx: Context, args: argparse.Namespace) -> int:
    role = "app-admin" if args.admin else None
    shape = ctx.ask(
        "user.add",
        name=args.name,
        full_name=args.full_name,
        email=args.email,
        zone=args.zone,
        role=role,
        pin=secret("PIN") if args.pin else None,
    )
    return token_shown(ctx, shape, f"{one_line(args.name)} has an account and an inbox.")


def token_shown(ctx: Context, shape: Shape, said: str) -> int:
    """A new token is shown once: alone on stdout, so that it can be piped; the words go to stderr."""
    if ctx.out.as_json:
        ctx.out.json(shape)
        return 0
    ctx.out.progress(f"{said} The token, shown only now:")
    ctx.out.line(str(shape["token"]))
    return 0


def _name(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME")


def _pin(parser: Parser) -> None:
    parser.add_argument("--pin", action="store_true", help="prove with your PIN that a person asks")


def _list_users(ctx: Context, args: argparse.Namespace) -> int:
    users = ctx.ask("user.list")
    names = [name for name in ("name", "kind", "trust", "role", "active", "zone") if users and name in users[0]]
    return table(ctx, users, names or ["name"], stretch=0)


def _add_disable(parser: Parser) -> None:
    _name(parser)
    parser.add_argument("--enable", action="store_true", default=None, help="let it in again")
    _pin(parser)


def _disable_user(ctx: Context, args: argparse.Namespace) -> int:
    shape = ctx.ask("user.disable", name=args.name, enable=args.enable, pin=secret("PIN") if args.pin else None)
    return document(ctx, shape, f"{one_line(args.name)} is {'enabled' if args.enable else 'disabled'}")


def _add_reset(parser: Parser) -> None:
    _name(parser)
    parser.add_argument(
        "--forget-pin", action="store_true", default=None, help="a lost PIN as well; what he could decide is withdrawn"
    )
    _pin(parser)


def _reset_user(ctx: Context, args: argparse.Namespace) -> int:
    pin = secret("PIN") if args.pin else None
    here = ctx.home()
    kept = read(here / CREDENTIALS) or {}
    shape: Shape = ctx.ask("user.reset", name=args.name, forget_pin=args.forget_pin, pin=pin)
    said = f"All tokens of {one_line(args.name)} are revoked."
    if args.forget_pin:
        said = f"{said} The PIN is forgotten, {shape['withdrawn']} approvals are withdrawn."
    if shape["code_kept"]:
        said = f"{said} A new PIN takes the code of the letter, or of {one_line(shape['code_kept'])}."
    if kept.get("token") == ctx.where.token and kept.get("user") == shape["name"]:
        # The local credential has reset itself: without its successor this machine would lock itself out.
        from taskfabric.surfaces.cli.start import write_private

        write_private(here / CREDENTIALS, {**kept, "token": shape["token"]})
        said = f"{said} {here / CREDENTIALS} has the new one."
    return token_shown(ctx, shape, said)


COMMANDS: Final = (
    Command(
        name="queue create",
        help="Make a queue: a pool, somebody's inbox or an agent's queue.",
        add=_add_queue,
        run=_create_queue,
        examples=(
            "fabric queue create builders --pool",
            "fabric queue create bob --inbox bob",
            "fabric queue create releases --needs-verified --human-verify",
        ),
    ),
    Command(
        name="queue rules",
        help="The rules of a queue, changed where an option says so.",
        add=_add_rules,
        run=_show_or_set_rules,
        examples=("fabric queue rules pool", "fabric queue rules pool --needs-verified --no-score-check"),
    ),
    Command(
        name="queue limit",
        help="How many cards a column may hold before claims, and moves by hand into it, stop.",
        add=_add_limit,
        run=_set_limit,
        examples=('fabric queue limit pool "Work in progress" 3', "fabric queue limit pool Done none"),
    ),
    Command(
        name="queue list",
        help="The queues that you see or may submit to.",
        add=lambda parser: None,
        run=_list_queues,
        examples=("fabric queue list",),
    ),
    Command(
        name="queue member",
        help="Make somebody a member of a queue, or no longer one.",
        add=_add_member,
        run=_set_member,
        examples=("fabric queue member builders kimi", "fabric queue member builders kimi --remove"),
    ),
    Command(
        name="user add",
        help="Add a human, with an inbox. Prints a token, once.",
        add=_add_user,
        run=_create_user,
        examples=('fabric user add bob --full-name "Bob Builder" --zone Europe/Berlin',),
    ),
    Command(
        name="user list",
        help="Humans and agents.",
        add=lambda parser: None,
        run=_list_users,
        examples=("fabric user list", "fabric user list --json"),
    ),
    Command(
        name="user disable",
        help="A disabled account answers nobody; its tasks stay.",
        add=_add_disable,
        run=_disable_user,
        examples=("fabric user disable bob", "fabric user disable bob --enable"),
    ),
    Command(
        name="user reset",
        help="Revoke all tokens of an account and print one new one.",
        add=_add_reset,
        run=_reset_user,
        examples=("fabric user reset bob --pin", "fabric user reset bob --pin --forget-pin"),
    ),
)
