"""What a command is: its words, its arguments and the function that carries it out; and the parser of one command."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from taskfabric.domain.errors import BadInput
from taskfabric.surfaces.cli.output import Out, one_line, writing

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from taskfabric.remote.line import Line
    from taskfabric.surfaces.cli.leases import Leases
    from taskfabric.surfaces.cli.where import Where

Shape = Mapping[str, Any]  # a JSON object as the server sent it
_SECONDS: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?|(?:[0-9]+[wdhms])+")


class Context:
    """What a command may use: the printer, the environment, and the fabric once it is asked for."""

    def __init__(self, *, out: Out, env: Mapping[str, str], cwd: Path) -> None:
        self.out = out
        self.env = env
        self.cwd = cwd

    @cached_property
    def board(self) -> Line:
        """The server that this caller's environment names. Raises NotAuthenticated or Unavailable."""
        from taskfabric.surfaces.cli.where import connect

        return connect(self.where)

    @cached_property
    def where(self) -> Where:
        """Which server, and the caller's token. Raises NotAuthenticated or Unavailable."""
        from taskfabric.surfaces.cli.where import find

        return find(self.env, self.cwd)

    @cached_property
    def leases(self) -> Leases:
        """The fences that this caller of this server holds."""
        from taskfabric.surfaces.cli.leases import Leases

        return Leases(self.env, self.where.url, self.where.token)

    @property
    def zone(self) -> tzinfo:
        """The zone in which this caller reads and writes times."""
        return self.out.zone

    def home(self, named: str | None = None) -> Path:
        """The home of the fabric that a command means: the one it names, else the one of this place."""
        if named:
            return self.file(named).absolute()
        from taskfabric.surfaces.cli.where import home

        return home(self.env, self.cwd)

    def file(self, named: str) -> Path:
        """The file or folder that a word of the command line means. Raises BadInput for one that can be none."""
        try:
            path = self.cwd / Path(named).expanduser()
        except RuntimeError:  # ~somebody who is nobody here
            raise BadInput(f"{named[:200]!r} begins with nobody's home", next="write the whole path") from None
        if "\0" in named or not path.name:
            raise BadInput(f"{named[:200]!r} names no file", next="write its path")
        return path

    def ask(self, method: str, **params: object) -> Any:
        """Ask the fabric; arguments that are None are left out."""
        return self.board.ask(f"fabric.{method}", {key: value for key, value in params.items() if value is not None})

    def when(self, text: str | None) -> str | None:
        """An instant as people write it, as the server reads it. Raises BadInput."""
        if text is None:
            return None
        from taskfabric.domain.times import iso, parse_when

        return iso(parse_when(text, now=datetime.now(UTC), zone=self.zone))


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command. ``run`` returns the exit code or raises a FabricError."""

    name: str  # "submit", "queue create"
    help: str
    add: Callable[[Parser], None]
    run: Callable[[Context, argparse.Namespace], int]
    examples: tuple[str, ...] = ()

    def parser(self, program: str) -> Parser:
        """The parser of this command's arguments."""
        lines = "\n".join(f"  {example}" for example in self.examples)
        parser = Parser(
            prog=f"{program} {self.name}",
            description=self.help,
            epilog=f"examples:\n{lines}" if lines else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        parser.add_argument("--json", action="store_true", help="print one JSON document, for programs")
        self.add(parser)
        return parser


class HelpShown(Exception):
    """The help was asked for and printed."""


class Parser(argparse.ArgumentParser):
    """argparse with two changes: what is wrong is a BadInput, and an option's value is always the next word.

    So ``--tag -urgent`` and ``--note '- a list'`` mean what they say. An option whose value may be left out takes
    the next word only if it looks like one.
    """

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """The arguments. Raises BadInput, or HelpShown when help was asked for."""
        return self.parse_args(self._joined(argv))

    def _joined(self, argv: Sequence[str]) -> list[str]:
        joined: list[str] = []
        words = iter(argv)
        for word in words:
            if word == "--":
                return [*joined, word, *words]
            if word.startswith("--") and word.endswith("=--"):  # argparse would take the value for its own mark
                self.error(f"{word[:-3][:40]} needs a value")
            action = self._option_string_actions.get(word)
            if action is None or action.nargs == 0:
                joined.append(word)
                continue
            value = next(words, None)
            if action.nargs == "?" and (value is None or not _SECONDS.fullmatch(value)):
                joined.append(f"{action.option_strings[-1]}=")
                # What came after it is a word of its own, and may be an option.
                return [*joined, *self._joined([*([] if value is None else [value]), *words])]
            if value is None or value == "--":
                self.error(f"{word} needs a value")
            joined.append(f"{action.option_strings[-1]}={value}")
        return joined

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        with writing():  # argparse itself would pass over a full disk
            print(self.format_help(), end="", file=file)

    def error(self, message: str) -> NoReturn:
        raise BadInput(one_line(message), next=f"`{self.prog} --help` shows how it is used")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise HelpShown


def split_words(given: Sequence[str] | None) -> list[str] | None:
    """``["a,b", "c"]`` as ``["a", "b", "c"]``; None stays None."""
    if given is None:
        return None
    return [word for text in given for word in text.split(",") if word]
