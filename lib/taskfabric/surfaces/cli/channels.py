"""Commands about one's own channels: where one's letters go."""

from __future__ import annotations

import argparse
from typing import Final

from taskfabric.surfaces.cli.admin import document, secret, table
from taskfabric.surfaces.cli.command import Command, Context, Parser, Shape
from taskfabric.surfaces.cli.output import one_line


def _list(ctx: Context, args: argparse.Namespace) -> int:
    return table(ctx, ctx.ask("channel.list"), ["id", "shown", "source", "created", "problem"], stretch=1)


def _pin(parser: Parser) -> None:
    parser.add_argument("--pin", action="store_true", help="asks for your PIN, which proves that a person decides")


def _add(ctx: Context, args: argparse.Namespace) -> int:
    """The address is a secret, so it is no word of the command line, which others on the machine can see."""
    address = secret("address")
    got: Shape = ctx.ask("channel.add", address=address, pin=secret("PIN") if args.pin else None)
    said = f"your letters go to {one_line(got['shown'])}, too; `fabric channel test {got['id']}` tries it"
    return document(ctx, got, said)


def _number(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", type=int, help="as `fabric channel list` shows it")


def _add_remove(parser: Parser) -> None:
    _number(parser)
    _pin(parser)


def _remove(ctx: Context, args: argparse.Namespace) -> int:
    got: Shape = ctx.ask("channel.remove", id=args.id, pin=secret("PIN") if args.pin else None)
    return document(ctx, got, f"no letter goes to channel {args.id} any more")


def _test(ctx: Context, args: argparse.Namespace) -> int:
    got: Shape = ctx.ask("channel.test", id=args.id)
    document(ctx, got, "it was taken" if got["taken"] else one_line(got["problem"]))
    return 0 if got["taken"] else 1


COMMANDS: Final = (
    Command(
        name="channel list",
        help="Where your letters go, without what is secret in the addresses.",
        add=lambda parser: None,
        run=_list,
        examples=("fabric channel list",),
    ),
    Command(
        name="channel add",
        help="Your letters go to one more address of apprise's, such as ntfys://ntfy.sh/topic. Asks for it.",
        add=_pin,
        run=_add,
        examples=("fabric channel add --pin", "fabric channel add < address.txt"),
    ),
    Command(
        name="channel remove",
        help="No letter goes to that address any more.",
        add=_add_remove,
        run=_remove,
        examples=("fabric channel remove 3 --pin",),
    ),
    Command(
        name="channel test",
        help="Send a letter to that address now, and say whether it was taken.",
        add=_number,
        run=_test,
        examples=("fabric channel test 3",),
    ),
)
