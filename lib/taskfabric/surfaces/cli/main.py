"""``fabric``: finds the command, carries it out, and turns every error into a sentence and an exit code.

Exit codes: 0 done · 1 failed · 2 wrong usage · 3 nothing to claim, not found · 4 no lease · 5 refused · 6 unreachable ·
7 a human must decide · 8 a wait ran out.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import taskfabric
from taskfabric.domain.errors import BadInput, FabricError
from taskfabric.surfaces.cli.command import Command, Context, HelpShown
from taskfabric.surfaces.cli.output import Out, OutputLost, nowhere, prepare_streams, writing

# Which module holds a command, and what is said of it in the overview; only that module is loaded.
GROUPS: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    "here": {"up": ("up",), "local": ("down", "status", "logs"), "doctor": ("doctor",), "database": ("db",)},
    "tasks": {
        "submit": ("submit",),
        "reading": ("list", "show", "log", "tree", "why", "search", "attachment"),
        "tasks": ("edit", "move", "comment", "attach"),
    },
    "work": {"holder": ("claim", "take", "renew", "done", "park", "ask", "fail", "release")},
    "people": {
        "people": ("answer", "verify", "reject", "cancel", "redrive"),
        "deciding": ("inbox", "approve", "deny", "delegate", "snooze", "vacation", "request-approval"),
        "granting": ("grant", "policy", "session", "me"),
        "channels": ("channel",),
    },
    "agents": {"fleet": ("agents", "pause", "resume"), "worker": ("worker",), "a2a": ("a2a",)},
    "house": {
        "keeper": ("keeper", "cron", "letters"),
        "admin": ("queue", "user"),
        "tokens": ("token", "pin", "config"),
        "moving": ("import", "export", "adopt"),
        "completion": ("completion",),
    },
}
MODULES: Final[Mapping[str, str]] = {
    word: module for group in GROUPS.values() for module, words in group.items() for word in words
}
_HELP: Final = ("--help", "-h", "help")


def main() -> None:
    """The program. Ends the process with the exit code."""
    prepare_streams()
    sys.exit(run(sys.argv[1:]))


def run(argv: Sequence[str]) -> int:
    """Carry out one command line; the exit code. Prints to this process's standard streams and raises nothing."""
    return guarded(argv, _run)


def guarded(argv: Sequence[str], act: Callable[[Sequence[str], Out], int]) -> int:
    """What both programs share: ``--json`` anywhere, errors as sentences or documents, exit codes."""
    as_json = "--json" in _before_double_dash(argv)
    out = Out.standard(as_json=as_json)
    try:
        code = _acted(argv, act, out)
        out.flush()
    except BrokenPipeError:  # the reader has seen enough
        sys.stdout = nowhere()
        return 0
    except OutputLost as lost:
        out.lost(lost)
        return 1
    except KeyboardInterrupt:
        return 130
    return code


def _acted(argv: Sequence[str], act: Callable[[Sequence[str], Out], int], out: Out) -> int:
    """The exit code; errors are told. Raises what hinders the telling: BrokenPipeError, OutputLost."""
    try:
        _check(argv)
        return act(argv, out)
    except HelpShown:
        return 0
    except (BrokenPipeError, OutputLost):
        raise
    except FabricError as error:
        return _told(out, error)
    except Exception as error:
        if os.environ.get("FABRIC_DEBUG"):
            raise
        return _told(out, _unexpected(error))


def _told(out: Out, error: FabricError) -> int:
    try:
        out.error(error)
    except BrokenPipeError:
        sys.stdout = nowhere()
    return error.code


def _before_double_dash(argv: Sequence[str]) -> Sequence[str]:
    return argv[: argv.index("--")] if "--" in argv else argv


def _check(argv: Sequence[str]) -> None:
    """Raises BadInput for arguments that are not text."""
    for place, word in enumerate(argv, 1):
        if "\0" in word:
            raise BadInput(f"argument {place} contains NUL", next="leave it out")
        try:
            word.encode()
        except UnicodeEncodeError:
            raise BadInput(f"argument {place} is not valid UTF-8", next="check the terminal's encoding") from None


def _run(argv: Sequence[str], out: Out) -> int:
    words = list(argv)
    while words and words[0] == "--json":  # accepted before the command as well as after it
        words.pop(0)
    if not words and out.as_json:
        raise BadInput("no command was given", next="`fabric --help --json` lists the commands")
    if not words or words[0] in _HELP:
        return overview(out)
    if words[0] in ("--version", "-V"):
        return _version(out)
    command, rest = find(words)
    args = command.parser("fabric").parse(rest)
    return command.run(Context(out=out, env=os.environ, cwd=cwd()), args)


def find(words: Sequence[str]) -> tuple[Command, Sequence[str]]:
    """The command that these words begin with, and the words after it. Raises BadInput, with the nearest name."""
    word = words[0]
    if word not in MODULES:
        raise _unknown(word, MODULES, "fabric")
    commands = load(MODULES[word])
    if word in commands:
        return commands[word], words[1:]
    under = {name.partition(" ")[2]: command for name, command in commands.items() if name.startswith(f"{word} ")}
    rest = [w for w in words[1:] if w != "--json"]
    if not rest or rest[0] in _HELP:
        names = ", ".join(under)
        if rest:
            with writing():
                print(f"fabric {word}: {names}")
            raise HelpShown
        raise BadInput(f"`fabric {word}` needs one of: {names}", next=f"`fabric {word} {next(iter(under))} --help`")
    if rest[0] not in under:
        raise _unknown(rest[0], under, f"fabric {word}")
    return under[rest[0]], rest[1:]


def load(module: str) -> dict[str, Command]:
    """The commands of one module by their names."""
    found: tuple[Command, ...] = importlib.import_module(f"taskfabric.surfaces.cli.{module}").COMMANDS
    return {command.name: command for command in found}


def _unknown(word: str, known: Mapping[str, object], program: str) -> BadInput:
    from difflib import get_close_matches

    near = get_close_matches(word[:40], list(known), 1)
    hint = f"did you mean `{program} {near[0]}`?" if near else f"`{program} --help` lists them"
    return BadInput(f"{program} has no command {word[:40]!r}", next=hint)


def overview(out: Out) -> int:
    """All commands, by group."""
    everything = {name: command for module in dict.fromkeys(MODULES.values()) for name, command in load(module).items()}
    if out.as_json:
        out.json({name: command.help for name, command in everything.items()})
        return 0
    out.line("usage: fabric COMMAND [arguments] [--json]")
    for title, modules in GROUPS.items():
        out.line(f"\n{out.paint(title, 'bold')}")
        for module in modules:
            for name, command in load(module).items():
                out.line(f"  {name:<14} {command.help}")
    out.line(
        "\n`fabric COMMAND --help` shows the arguments and examples. Times: +2h, tomorrow 09:00, 2026-12-01 18:00."
    )
    return 0


def _version(out: Out) -> int:
    if out.as_json:
        out.json({"version": taskfabric.__version__})
    else:
        out.line(f"taskfabric {taskfabric.__version__}")
    return 0


def cwd() -> Path:
    """The folder we are in. Raises BadInput when it is gone."""
    try:
        return Path.cwd()
    except FileNotFoundError as error:  # somebody removed it
        raise BadInput("the folder you are in does not exist any more", next="go to another one") from error


def _unexpected(error: Exception) -> FabricError:
    """A fault of ours: one line for the reader, the details in a file of his."""
    import traceback

    from taskfabric.surfaces.cli.leases import state_folder

    path = state_folder(os.environ) / "errors.log"
    details = "".join(traceback.format_exception(error))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", errors="backslashreplace"
        ) as file:
            file.write(f"{Out.standard(as_json=False).now.isoformat()} {details}\n")
        where = f"the details are in {path}"
    except OSError:
        where = "FABRIC_DEBUG=1 shows the details"
    return FabricError(f"unexpected: {type(error).__name__}: {str(error)[:200]}", next=where)


if __name__ == "__main__":
    main()
