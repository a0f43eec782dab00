"""Commands about tokens, the PIN and the settings."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Final

from taskfabric.domain.errors import BadInput
from taskfabric.surfaces.cli.admin import document, secret, table, token_shown
from taskfabric.surfaces.cli.command import Command, Context, Parser, split_words
from taskfabric.surfaces.cli.output import dumps, one_line


def _add_token(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="an agent (made if it is new), or yourself")
    parser.add_argument(
        "--queue", metavar="Q", action="append", help="only for this queue; repeatable; default: the pool"
    )
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
    return token_shown(ctx, shape, f"{one_line(args.name)} can come in.")


def _token_id(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", type=int, help="as `fabric token list` shows it")


def _revoke(ctx: Context, args: argparse.Namespace) -> int:
    return document(ctx, ctx.ask("token.revoke", id=args.id), f"token {args.id} is revoked")


def _list_tokens(ctx: Context, args: argparse.Namespace) -> int:
    names = ["id", "principal", "name", "queues", "via", "created", "expires", "last_used", "revoked"]
    return table(ctx, ctx.ask("token.list"), names, stretch=2)


# -- the PIN, the settings -----------------------------------------------------


def _add_pin(parser: Parser) -> None:
    parser.add_argument("--change", action="store_true", help="there is one already: asks for it first")
    parser.add_argument("--code", action="store_true", help="somebody reset your account: asks for your letter's code")


def _set_pin(ctx: Context, args: argparse.Namespace) -> int:
    old = secret("present PIN") if args.change else None
    code = secret("code") if args.code else None
    new = secret("new PIN")
    if sys.stdin.isatty() and secret("new PIN again") != new:
        raise BadInput("the two are not the same", next="try again")
    return document(ctx, ctx.ask("pin.set", pin=new, old=old, code=code), "the PIN is set")


def _add_config(parser: Parser) -> None:
    parser.add_argument("--config", metavar="FILE", help="a settings file beside the usual ones")


def _show_config(ctx: Context, args: argparse.Namespace) -> int:
    from taskfabric.settings import load

    place = ctx.home()
    shown = load(env=ctx.env, home=place, config=Path(args.config) if args.config else None).show()
    if ctx.out.as_json:
        ctx.out.json({"home": str(place), **shown})
        return 0
    ctx.out.line(f"# home: {place}")
    _sections(ctx, shown, "")
    return 0


def _sections(ctx: Context, shape: dict[str, Any], prefix: str) -> None:
    """As TOML: plain values before sections, as that form wants it."""
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
        name="token create",
        help="A token for an agent or for yourself. Prints it, once. A new agent is sandboxed, a member of the pool.",
        add=_add_token,
        run=_create_token,
        examples=("fabric token create kimi --needs tools --tier large", "fabric token create kimi --queue builders"),
    ),
    Command(
        name="token revoke",
        help="A token is worth nothing from now on.",
        add=_token_id,
        run=_revoke,
        examples=("fabric token revoke 7",),
    ),
    Command(
        name="token list",
        help="Tokens, without their secrets.",
        add=lambda parser: None,
        run=_list_tokens,
        examples=("fabric token list", "fabric token list --json"),
    ),
    Command(
        name="pin set",
        help="Set your PIN: it proves that a person decides, not a program that has your token.",
        add=_add_pin,
        run=_set_pin,
        examples=("fabric pin set", "fabric pin set --change", "fabric pin set --code"),
    ),
    Command(
        name="config show",
        help="The settings in force, secrets hidden.",
        add=_add_config,
        run=_show_config,
        examples=("fabric config show",),
    ),
)
