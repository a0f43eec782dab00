"""Commands that speak A2A to an agent, here or elsewhere: send, stream, get, cancel, card."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from taskfabric.domain.errors import BadInput, FabricError, Unavailable, WaitedOut
from taskfabric.surfaces.cli.command import Command, Context, Parser, Shape
from taskfabric.surfaces.cli.output import clean, one_line

if TYPE_CHECKING:
    from taskfabric.runtimes.a2a_peer import Credential, Peer

TOKEN: Final = "A2A_TOKEN"
_PATIENCE: Final = 120.0  # seconds that the other side may be silent
_PAUSE: Final = 1.0  # seconds between two looks at a task that cannot be listened to
_INTERRUPTED: Final = ("TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED")
# Exit codes of how a task ended; whatever is not here went well or goes on.
_CODES: Final = {
    "TASK_STATE_FAILED": 1,
    "TASK_STATE_CANCELED": 1,
    "TASK_STATE_REJECTED": 5,
    "TASK_STATE_INPUT_REQUIRED": 7,
    "TASK_STATE_AUTH_REQUIRED": 7,
}


def _where(parser: Parser) -> None:
    parser.add_argument("url", metavar="URL", help="the agent's address, or the name of an agent of this fabric")
    parser.add_argument(
        "--token-file", metavar="FILE", help=f"the credential is in this file; default: {TOKEN}, or the fabric's own"
    )
    parser.add_argument(
        "--header", metavar="NAME", default="", help="the header for it; default: Authorization: Bearer"
    )


def _add_send(parser: Parser) -> None:
    _where(parser)
    parser.add_argument("text", metavar="TEXT", help="what is said; - reads it from standard input")
    parser.add_argument("--task", metavar="ID", default="", help="go on with this task")
    parser.add_argument("--context", metavar="ID", default="", help="a new task in this context")
    parser.add_argument("--key", metavar="K", default="", help="the same message again under this key is no second one")


def _add_waiting(parser: Parser) -> None:
    _add_following(parser)
    parser.add_argument("--no-wait", action="store_true", help="do not wait until it has ended")


def _add_following(parser: Parser) -> None:
    _add_send(parser)
    parser.add_argument("--timeout", metavar="S", type=float, default=3600.0, help="seconds to wait; default: an hour")


def _add_task(parser: Parser) -> None:
    _where(parser)
    parser.add_argument("task", metavar="TASK", help="the id of the task there")


# ---------------------------------------------------------------- what they do


def _send(ctx: Context, args: argparse.Namespace) -> int:
    with _peer(ctx, args) as peer:
        from taskfabric.runtimes.remote_result import SETTLED, View

        view, until = View(), time.monotonic() + args.timeout
        for event in _events(peer, args, stream=not args.no_wait):
            if event is not None:
                view.take(event)
            if view.state in SETTLED or time.monotonic() > until:
                break
        while not args.no_wait and view.reply is None and view.state not in SETTLED:
            if time.monotonic() > until:
                raise _goes_on(view.task_id)
            time.sleep(_PAUSE)
            view.take_task(peer.get(view.task_id))
        whole = {"message": view.reply} if view.reply is not None else {"task": peer.get(view.task_id)}
    return _shown(ctx, whole)


def _stream(ctx: Context, args: argparse.Namespace) -> int:
    from taskfabric.runtimes.remote_result import SETTLED, View

    view, until = View(), time.monotonic() + args.timeout
    with _peer(ctx, args) as peer:
        for event in _events(peer, args, stream=True):
            if time.monotonic() > until and view.state not in SETTLED:
                raise _goes_on(view.task_id)
            if event is None:
                continue
            view.take(event)
            if ctx.out.as_json:
                ctx.out.json(event)
            else:
                _tell(ctx, event)
            ctx.out.flush()
    return _CODES.get(view.state, 0)


def _goes_on(task_id: str) -> WaitedOut:
    return WaitedOut(f"the task {task_id} still goes on", next=f"`fabric a2a get URL {task_id}` looks again")


def _get(ctx: Context, args: argparse.Namespace) -> int:
    with _peer(ctx, args) as peer:
        return _shown(ctx, {"task": peer.get(args.task)}, judged=False)


def _cancel(ctx: Context, args: argparse.Namespace) -> int:
    with _peer(ctx, args) as peer:
        return _shown(ctx, {"task": peer.cancel(args.task)}, judged=False)


def _card(ctx: Context, args: argparse.Namespace) -> int:
    with _peer(ctx, args) as peer:
        card = peer.card()
    if ctx.out.as_json:
        ctx.out.json(card)
        return 0
    out = ctx.out
    out.line(f"{out.paint(one_line(card.get('name', '')), 'bold')}  {one_line(card.get('description', ''))}")
    for interface in card.get("supportedInterfaces", ()):
        words = (interface.get(key, "") for key in ("url", "protocolBinding", "protocolVersion"))
        out.line("  " + one_line("  ".join(words)))
    can = [name for name, on in card.get("capabilities", {}).items() if on is True]
    out.line(f"  can: {', '.join(can) or 'answer'}")
    out.line(f"  asks for: {', '.join(card.get('securitySchemes', {})) or 'no credential'}")
    for skill in card.get("skills", ()):
        out.line(f"  {one_line(skill.get('name', ''))}: {one_line(skill.get('description', ''))}")
    return 0


# ---------------------------------------------------------------- the other side


class _Opened:
    """A peer whose faults are errors for a person."""

    def __init__(self, url: str, credential: Credential | None) -> None:
        from taskfabric.runtimes.a2a_peer import Peer

        self._url = url
        self._peer = Peer(url, credential, patience=_PATIENCE)

    def __enter__(self) -> Peer:
        return self._peer

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        from taskfabric.runtimes.a2a_peer import PeerFault

        self._peer.close()
        if isinstance(error, PeerFault):
            raise error.plain(self._url) from error


def _peer(ctx: Context, args: argparse.Namespace) -> _Opened:
    named = "://" not in args.url
    url = f"{ctx.where.url}/agents/{args.url}" if named else args.url
    return _Opened(url, _credential(ctx, args, url, named=named))


def _credential(ctx: Context, args: argparse.Namespace, url: str, *, named: bool) -> Credential | None:
    """The file's, the environment's, or for an agent of this fabric the caller's own token; never that for another."""
    from taskfabric.runtimes.a2a_peer import Credential

    if args.token_file:
        try:
            secret = ctx.file(args.token_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise BadInput(f"the credential cannot be read: {reason}", next="check --token-file") from error
    else:
        secret = ctx.env.get(TOKEN, "").strip()
        if not secret and (named or _is_ours(ctx, url)):
            secret = ctx.where.token
    if not secret:
        return None
    if not secret.isascii() or not secret.isprintable() or " " in secret:
        raise BadInput("the credential is not one word of printable ASCII", next="check the file or the variable")
    return Credential(secret=secret, header=args.header)


def _is_ours(ctx: Context, url: str) -> bool:
    from taskfabric.surfaces.cli.where import normal

    try:
        return normal(url).startswith(f"{ctx.where.url}/")
    except FabricError:  # there is no fabric here, or this is no address: it is told elsewhere
        return False


def _events(peer: Peer, args: argparse.Namespace, *, stream: bool) -> Iterator[dict[str, Any] | None]:
    text = sys.stdin.read() if args.text == "-" else args.text
    if not text.strip():
        raise BadInput("there is nothing to say", next="give a TEXT, or write it to standard input")
    message: dict[str, Any] = {
        "messageId": args.key or os.urandom(16).hex(),
        "role": "ROLE_USER",
        "parts": [{"text": text}],
    }
    if args.task:
        message["taskId"] = args.task
    if args.context:
        message["contextId"] = args.context
    listens = stream and peer.streams
    return peer.send(message, stream=listens, immediately=not listens, key=args.key)


# ---------------------------------------------------------------- what is shown


def _shown(ctx: Context, whole: Shape, *, judged: bool = True) -> int:
    """The exit code, by how the task ended if that was waited for."""
    task = whole.get("task")
    if ctx.out.as_json:
        ctx.out.json(whole)
    elif task is None:
        ctx.out.line(_words(whole["message"].get("parts", ())))
    else:
        state = _state(task)
        ctx.out.line(f"{ctx.out.paint(state, 'bold')}  task {one_line(task.get('id', ''))}")
        said = (_words(task["status"].get("message", {}).get("parts", ())), *_artifacts(task))
        for text in filter(None, dict.fromkeys(said)):  # a result is often both
            ctx.out.line(text)
    return _CODES.get(task["status"].get("state", ""), 0) if judged and task is not None else 0


def _state(task: Shape) -> str:
    return str(task["status"].get("state", "")).removeprefix("TASK_STATE_").lower().replace("_", " ")


def _artifacts(task: Shape) -> Iterator[str]:
    for artifact in task.get("artifacts", ()):
        yield _words(artifact.get("parts", ()))


def _words(parts: Any) -> str:
    """Parts as text; bytes are only named."""
    shown: list[str] = []
    for part in parts:
        if "text" in part:
            shown.append(clean(part["text"]))
        elif "url" in part:
            shown.append(f"{one_line(part.get('filename', 'file'))}: {one_line(part['url'])}")
        elif "data" in part:
            shown.append(clean(str(part["data"])))
        elif "raw" in part:
            shown.append(f"[{one_line(part.get('filename', 'file'))}: bytes; --json shows them]")
    return "\n".join(shown)


def _tell(ctx: Context, event: Shape) -> None:
    match event:
        case {"statusUpdate": {"status": status}} | {"task": {"status": status}}:
            words = _words(status.get("message", {}).get("parts", ()))
            ctx.out.line(f"{ctx.out.paint(_state({'status': status}), 'dim')}  {words}".rstrip())
        case {"artifactUpdate": {"artifact": artifact}}:
            ctx.out.line(_words(artifact.get("parts", ())))
        case {"message": message}:
            ctx.out.line(_words(message.get("parts", ())))
        case _:
            raise Unavailable("the other side says something that is not known here", next="update this program")


COMMANDS: Final = (
    Command(
        name="a2a send",
        help="Say something to an agent over A2A and wait for what comes of it.",
        add=_add_waiting,
        run=_send,
        examples=(
            'fabric a2a send echo "hello"',
            'fabric a2a send https://agent.example "Translate the letter" --token-file ~/agent.token --json',
        ),
    ),
    Command(
        name="a2a stream",
        help="Say something to an agent over A2A and follow what it tells; with --json one event a line.",
        add=_add_following,
        run=_stream,
        examples=('fabric a2a stream echo "hello"',),
    ),
    Command(
        name="a2a get",
        help="A task of an agent as it is now.",
        add=_add_task,
        run=_get,
        examples=("fabric a2a get https://agent.example 0f8e7c52-41d1-4b1f-9c0f-5b0a2f6f2f11",),
    ),
    Command(
        name="a2a cancel",
        help="An agent stops working on a task.",
        add=_add_task,
        run=_cancel,
        examples=("fabric a2a cancel echo 0f8e7c52-41d1-4b1f-9c0f-5b0a2f6f2f11",),
    ),
    Command(
        name="a2a card",
        help="The card by which an agent introduces itself over A2A.",
        add=_where,
        run=_card,
        examples=("fabric a2a card echo --json", "fabric a2a card https://agent.example"),
    ),
)
