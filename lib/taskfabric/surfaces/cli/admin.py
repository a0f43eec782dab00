"""Commands about queues, accounts, tokens, the PIN and the settings."""

from __future__ import annotations

import argparse
import getpass
import sys
from collections.abc import Sequence
from typing import Any, Final

from taskfabric.domain.errors import BadInput
from taskfabric.surfaces.cli.command import Command, Context, Parser, Shape, split_words
from taskfabric.surfaces.cli.output import one_line


def secret(prompt: str) -> str:
    """A secret typed at the terminal without an echo, or the next line of standard input. Raises BadInput for none."""
    if sys.stdin.isatty():
        typed = getpass.getpass(f"{prompt}: ")
    else:
        typed = sys.stdin.readline().rstrip("\r\n")
    if not typed:
        raise BadInput(f"no {prompt} was given", next="type it, or write it to standard input as one line")
    return typed


def _document(ctx: Context, shape: Any, said: str) -> int:
    if ctx.out.as_json:
        ctx.out.json(shape)
    else:
        ctx.out.line(said)
    return 0


def _table(ctx: Context, shapes: Sequence[Shape], names: Sequence[str], *, stretch: int) -> int:
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
    parser.add_argument("--score-check", action="store_true", default=None, help="unrated tasks wait")
    parser.add_argument("--human-verify", action="store_true", default=None, help="only a human closes what is done here")


def _create_queue(ctx: Context, args: argparse.Namespace) -> int:
    kind = "inbox" if args.inbox else "agent" if args.agent else "pool"
    queue = ctx.ask(
        "queue.create",
        name=args.name,
        kind=kind,
        owner=args.inbox or args.agent,
        score_check=args.score_check,
        human_verify=args.human_verify,
    )
    return _document(ctx, queue, f"{one_line(queue['name'])} is there ({queue['kind']})")


def _list_queues(ctx: Context, args: argparse.Namespace) -> int:
    return _table(ctx, ctx.ask("queue.list"), ["name", "kind", "owner", "counts"], stretch=3)


def _add_member(parser: Parser) -> None:
    parser.add_argument("queue", metavar="QUEUE")
    parser.add_argument("name", metavar="NAME", help="a human or an agent")
    parser.add_argument("--role", choices=("manager", "member", "viewer"), default="member")
    parser.add_argument("--remove", action="store_true", help="no longer a member")


def _set_member(ctx: Context, args: argparse.Namespace) -> int:
    role = None if args.remove else f"project-{args.role}"
    # Through the board itself: here an argument that is null has a meaning of its own.
    ctx.board.ask("fabric.queue.member", {"queue": args.queue, "name": args.name, "role": role})
    shape = {"queue": args.queue, "name": args.name, "role": role}
    now = "is no longer a member of" if role is None else f"is {args.role} of"
    return _document(ctx, shape, f"{one_line(args.name)} {now} {one_line(args.queue)}")


# -- accounts ------------------------------------------------------------------


def _add_user(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--full-name", metavar="TEXT")
    parser.add_argument("--email", metavar="ADDRESS")
    parser.add_argument("--zone", metavar="ZONE", help="where this person lives: Europe/Berlin")
    parser.add_argument("--admin", action="store_true", help="may manage accounts and queues")


def _create_user(ctx: Context, args: argparse.Namespace) -> int:
    role = "app-admin" if args.admin else None
    shape = ctx.ask(
        "user.add", name=args.name, full_name=args.full_name, email=args.email, zone=args.zone, role=role
    )
    return _token_shown(ctx, shape, f"{one_line(args.name)} has an account and an inbox.")


def _token_shown(ctx: Context, shape: Shape, said: str) -> int:
    """A new token is shown once: alone on stdout, so that it can be piped; the words go to stderr."""
    if ctx.out.as_json:
        ctx.out.json(shape)
        return 0
    ctx.out.progress(f"{said} The token, shown only now:")
    ctx.out.line(str(shape["token"]))
    return 0


def _name(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME")


def _list_users(ctx: Context, args: argparse.Namespace) -> int:
    users = ctx.ask("user.list")
    names = [name for name in ("name", "kind", "trust", "role", "active", "zone") if users and name in users[0]]
    return _table(ctx, users, names or ["name"], stretch=0)


def _add_disable(parser: Parser) -> None:
    _name(parser)
    parser.add_argument("--enable", action="store_true", default=None, help="let it in again")


def _disable_user(ctx: Context, args: argparse.Namespace) -> int:
    shape = ctx.ask("user.disable", name=args.name, enable=args.enable)
    return _document(ctx, shape, f"{one_line(args.name)} is {'enabled' if args.enable else 'disabled'}")


def _add_reset(parser: Parser) -> None:
    _name(parser)
    parser.add_argument("--pin", action="store_true", help="prove with your PIN that a person asks")


def _reset_user(ctx: Context, args: argparse.Namespace) -> int:
    shape = ctx.ask("user.reset", name=args.name, pin=secret("PIN") if args.pin else None)
    return _token_shown(ctx, shape, f"All tokens of {one_line(args.name)} are revoked.")


# -- tokens --------------------------------------------------------------------


def _add_token(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="an agent (made if it is new), or yourself")
    parser.add_argument("--queue", metavar="Q", action="append", help="only for this queue; repeatable; default: the pool")
    parser.add_argument("--trust", choices=("untrusted", "sandboxed", "trusted"), help="default: sandboxed")
    parser.add_argument("--needs", metavar="C", action="append", help="what a new agent can do; repeatable")
    parser.add_argument("--tier", metavar="TIER", action="append", help="the tiers of a new agent; repeatable")
    parser.add_argument("--concurrency", metavar="N", type=int, help="how many tasks it may hold at once")
    parser.add_argument("--expires", metavar="T", help="when the token ends")
    parser.add_argument("--label", metavar="TEXT", help="what it is for")
    parser.add_argument("--pin", action="store_true", help="prove with your PIN that a person asks")


def _create_token(ctx: Context, args: argparse.Namespace) -> int:
    shape = ctx.ask(
        "token.create",
        name=args.name,
        queues=split_words(args.queue),
        trust=args.trust,
        needs=split_words(args.needs),
        tiers=split_words(args.tier),
        concurrency=args.concurrency,
        expires=ctx.when(args.expires),
        label=args.label,
        pin=secret("PIN") if args.pin else None,
    )
    return _token_shown(ctx, shape, f"{one_line(args.name)} can come in.")


def _token_id(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", type=int, help="as `fabric token list` shows it")


def _revoke(ctx: Context, args: argparse.Namespace) -> int:
    return _document(ctx, ctx.ask("token.revoke", id=args.id), f"token {args.id} is revoked")


def _list_tokens(ctx: Context, args: argparse.Namespace) -> int:
    tokens = ctx.ask("token.list")
    names = [n for n in ("id", "name", "prefix", "label", "queues", "last_used_at", "expires_at") if tokens and n in tokens[0]]
    return _table(ctx, tokens, names or ["id", "name"], stretch=len(names or "12") - 1)


# -- the PIN, the settings -----------------------------------------------------


def _add_pin(parser: Parser) -> None:
    parser.add_argument("--change", action="store_true", help="there is one already: asks for it first")


def _set_pin(ctx: Context, args: argparse.Namespace) -> int:
    old = secret("present PIN") if args.change else None
    new = secret("new PIN")
    if sys.stdin.isatty() and secret("new PIN again") != new:
        raise BadInput("the two are not the same", next="try again")
    return _document(ctx, ctx.ask("pin.set", pin=new, old=old), "the PIN is set")


def _add_config(parser: Parser) -> None:
    parser.add_argument("--config", metavar="FILE", help="a settings file beside the usual ones")


def _show_config(ctx: Context, args: argparse.Namespace) -> int:
    from pathlib import Path

    from taskfabric.settings import load
    from taskfabric.surfaces.cli.where import home

    place = home(ctx.env, ctx.cwd)
    shown = load(env=ctx.env, home=place, config=Path(args.config) if args.config else None).show()
    if ctx.out.as_json:
        ctx.out.json({"home": str(place), **shown})
        return 0
    ctx.out.line(f"# home: {place}")
    _sections(ctx, shown, "")
    return 0


def _sections(ctx: Context, shape: dict[str, Any], prefix: str) -> None:
    """As TOML: plain values before sections, as that form wants it."""
    from taskfabric.surfaces.cli.output import dumps

    plain = {key: value for key, value in shape.items() if not isinstance(value, dict)}
    if plain and prefix:
        ctx.out.line(f"\n[{prefix}]")
    for key, value in plain.items():
        ctx.out.line(f"{key} = {dumps(value)}")
    for key, value in shape.items():
        if isinstance(value, dict):
            _sections(ctx, value, f"{prefix}.{key}" if prefix else key)


COMMANDS: Final = (
    Command(
        name="queue create",
        help="Make a queue: a pool, somebody's inbox or an agent's queue.",
        add=_add_queue,
        run=_create_queue,
        examples=("fabric queue create builders --pool", "fabric queue create bob --inbox bob"),
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
    Command(name="user list", help="Humans and agents.", add=lambda parser: None, run=_list_users),
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
        examples=("fabric user reset bob --pin",),
    ),
    Command(
        name="token create",
        help="A token for an agent or for yourself. Prints it, once. A new agent is sandboxed, a member of the pool.",
        add=_add_token,
        run=_create_token,
        examples=("fabric token create kimi --needs tools --tier large", "fabric token create kimi --queue builders"),
    ),
    Command(name="token revoke", help="A token is worth nothing from now on.", add=_token_id, run=_revoke),
    Command(name="token list", help="Tokens, without their secrets.", add=lambda parser: None, run=_list_tokens),
    Command(
        name="pin set",
        help="Set your PIN: it proves that a person decides, not a program that has your token.",
        add=_add_pin,
        run=_set_pin,
        examples=("fabric pin set", "fabric pin set --change"),
    ),
    Command(
        name="config show",
        help="The settings in force, secrets hidden.",
        add=_add_config,
        run=_show_config,
        examples=("fabric config show",),
    ),
)
