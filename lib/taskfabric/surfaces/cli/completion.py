"""Shell completion: a script for bash, zsh or fish that knows the commands and their options, and starts nothing."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final

from taskfabric.surfaces.cli.command import Command, Context, Parser


def _options(command: Command) -> list[str]:
    return sorted(word for word in command.parser("fabric")._option_string_actions if word.startswith("--"))


def _commands() -> Iterator[tuple[str, Command]]:
    from taskfabric.surfaces.cli.main import MODULES, load

    for module in dict.fromkeys(MODULES.values()):
        yield from load(module).items()


def _tree() -> dict[str, list[str]]:
    """What may follow each command word or pair of words."""
    follows: dict[str, list[str]] = {"": []}
    for name, command in _commands():
        first, _, second = name.partition(" ")
        if first not in follows[""]:
            follows[""].append(first)
        if second:
            follows.setdefault(first, []).append(second)
        follows[name] = _options(command)
    return follows


def bash() -> str:
    """For bash, and for zsh through its bashcompinit."""
    cases = "\n".join(f"        '{name}') words='{' '.join(words)}' ;;" for name, words in _tree().items() if name)
    return f"""_fabric() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} path='' words='' word
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case $word in -*) continue ;; esac
        [ -n "$path" ] && [[ $path == *' '* ]] && break
        path=${{path:+$path }}$word
    done
    words='{" ".join(_tree()[""])}'
    [ -n "$path" ] && words=''
    case $path in
{cases}
        *) case ${{path%% *}} in
{cases}
        esac ;;
    esac
    [ -z "$path" ] && words='{" ".join(_tree()[""])}'
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    [ ${{#COMPREPLY[@]}} -eq 0 ] && COMPREPLY=($(compgen -f -- "$cur"))
}}
complete -F _fabric fabric
"""


def zsh() -> str:
    """For zsh."""
    return f"autoload -U +X bashcompinit && bashcompinit\n{bash()}"


def fish() -> str:
    """For fish."""
    lines = ["complete -c fabric -f"]
    tops = _tree()[""]
    for name, command in _commands():
        first, _, second = name.partition(" ")
        about = command.help.replace("'", "\\'")
        if second:
            lines.append(f"complete -c fabric -n '__fish_seen_subcommand_from {first}' -a {second} -d '{about}'")
        else:
            lines.append(
                f"complete -c fabric -n 'not __fish_seen_subcommand_from {' '.join(tops)}' -a {first} -d '{about}'"
            )
        for option in _options(command):
            seen = " ; and ".join(f"__fish_seen_subcommand_from {word}" for word in name.split())
            lines.append(f"complete -c fabric -n '{seen}' -l {option[2:]}")
    groups = dict.fromkeys(name.partition(" ")[0] for name, _ in _commands() if " " in name)
    lines += [
        f"complete -c fabric -n 'not __fish_seen_subcommand_from {' '.join(tops)}' -a {group}" for group in groups
    ]
    return "\n".join(lines) + "\n"


_SHELLS: Final = {"bash": bash, "zsh": zsh, "fish": fish}


def _run(ctx: Context, args: argparse.Namespace) -> int:
    script = _SHELLS[args.shell]()
    if ctx.out.as_json:
        ctx.out.json({"shell": args.shell, "script": script})
    else:
        ctx.out.text(script)
    return 0


def _add(parser: Parser) -> None:
    parser.add_argument("shell", choices=sorted(_SHELLS))


COMMANDS: Final = (
    Command(
        name="completion",
        help="Print a script that completes commands and options.",
        add=_add,
        run=_run,
        examples=(
            "fabric completion bash > ~/.local/share/bash-completion/completions/fabric",
            "fabric completion fish > ~/.config/fish/completions/fabric.fish",
            "fabric completion zsh > ~/.zfunc/_fabric.zsh    # and source it",
        ),
    ),
)
