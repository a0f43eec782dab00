"""What can go wrong, as one tree; each error carries its facts and the next step.

    FabricError                 1  failed
    ├── BadInput                2  the call is wrong; nothing was written
    ├── NotFound                3  it does not exist, or the caller may not see it (same bytes)
    ├── IllegalMove             1  the task's status does not allow this verb
    ├── KeyConflict             1  the key was used before for another body
    ├── NotYours                4  the caller does not hold the lease
    │   ├── NoFence                no fence was given
    │   ├── LeaseLost              the fence is not, or no longer, the current one
    │   └── HeldBy                 somebody else holds it until an instant
    ├── Refused                 5  a rule of the hallway says no
    │   └── NotAuthenticated       who is calling is not known
    ├── Unavailable             6  the board cannot be reached
    ├── NeedsHuman              7  a human must decide first
    └── WaitedOut               8  a wait ran out; the work goes on

The number is the exit code of the command line and the ``code`` of the JSON form. A caller that wants to handle them:

    try:
        fabric.call(Renew(fences=[fence]))
    except LeaseLost as error:
        stop_the_run(error.facts["holder"])
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

Fact = str | int | float | bool | None | list[str] | list[int]


class FabricError(Exception):
    """An operation failed; nothing was half-done.

    ``message`` is a sentence for the reader, ``next`` says what to do, ``facts`` are the values behind both.
    """

    code: ClassVar[int] = 1
    name: ClassVar[str] = "failed"
    default_next: ClassVar[str] = ""

    def __init__(self, message: str, *, next: str = "", **facts: Fact) -> None:
        super().__init__(message)
        self.message = message
        self.next = next or self.default_next
        self.facts: dict[str, Fact] = facts

    def to_json(self) -> dict[str, object]:
        """The one error shape: code, name, message, facts, next."""
        return {
            "code": self.code,
            "name": self.name,
            "message": self.message,
            "facts": self.facts,
            "next": self.next,
        }


class BadInput(FabricError):
    """The call itself is wrong: a missing or malformed value. Nothing was written."""

    code = 2
    name = "bad-input"
    default_next = "correct that and try again; nothing was written"


class NotFound(FabricError):
    """Missing and forbidden are one statement, so that nobody learns what exists."""

    code = 3
    name = "not-found"
    default_next = "check the number; `fabric list` shows what you can see"


class IllegalMove(FabricError):
    """The task's present status does not allow the verb."""

    name = "illegal-move"
    default_next = "`fabric show REF` shows how it stands"


class KeyConflict(FabricError):
    """The same submitter used this key for another body."""

    name = "key-conflict"
    default_next = "use another --key, or submit exactly the same task again"


class NotYours(FabricError):
    """The caller does not hold the task's lease."""

    code = 4
    name = "not-yours"
    default_next = "claim it, or leave it to whoever holds it"


class NoFence(NotYours):
    """A holder's verb was called without a fence."""

    name = "no-fence"
    default_next = "name it as TASK@EPOCH (12@3), or run the command where you claimed it"


class LeaseLost(NotYours):
    """The fence named is not the current one. Facts: task, epoch, holder, until, status."""

    name = "lease-lost"
    default_next = "stop working on it; a result you offered is kept on the task as a late result"


class HeldBy(NotYours):
    """Somebody holds the task. Facts: task, holder, until, epoch."""

    name = "held"
    default_next = "wait for the lease to end, or take another task"


class Refused(FabricError):
    """A rule of the hallway says no. Facts: rule."""

    code = 5
    name = "refused"
    default_next = "leave it to whom the rule allows it"


class NotAuthenticated(Refused):
    """No credential, or one that is not (or no longer) valid."""

    name = "not-authenticated"
    default_next = "set FABRIC_TOKEN, or ask for a token with `fabric token create NAME`"


class Unavailable(FabricError):
    """The board, its database or the server cannot be reached right now."""

    code = 6
    name = "unavailable"
    default_next = "try again shortly; `fabric status` shows what is up"


class NeedsHuman(FabricError):
    """A human must decide first."""

    code = 7
    name = "needs-human"
    default_next = "have a person decide it, signed in or with his PIN"


class WaitedOut(FabricError):
    """A wait ran out. The work goes on; ask again."""

    code = 8
    name = "waited-out"
    default_next = "ask again, or look with `fabric show REF`"


def _all(kind: type[FabricError]) -> list[type[FabricError]]:
    return [kind, *(c for k in kind.__subclasses__() for c in _all(k))]


BY_NAME: Final[Mapping[str, type[FabricError]]] = {kind.name: kind for kind in _all(FabricError)}


def from_json(shape: Mapping[str, object]) -> FabricError:
    """The error that ``to_json`` described, as the same class; an unknown name becomes a plain FabricError."""
    kind = BY_NAME.get(str(shape.get("name")), FabricError)
    facts = shape.get("facts")
    error = kind(str(shape.get("message", "the server gave no reason")), next=str(shape.get("next") or ""))
    if isinstance(facts, dict):
        error.facts = {str(k): v for k, v in facts.items()}
    return error


# What to look at for a thing that was not found; for all others the error's usual step. By the thing alone, so that
# missing and forbidden stay the same bytes.
_NEXT_BY_THING: Final[Mapping[str, str]] = {
    "queue": "check the name; `fabric queue list` shows the queues that you can see",
    "project": "check the number; `fabric queue list` shows the queues that you can see",
    "column": "check the title; every queue has Backlog, Ready, Work in progress and Done",
    "user": "check the name; `fabric user list` shows humans and agents",
    "person": "check the name; `fabric user list` shows humans and agents",
    "target": "name a queue of `fabric queue list`, somebody of `fabric user list`, pool, auto or any:tier=large",
    "channel": "check the number; `fabric channel list` shows your channels",
    "token": "check the number; `fabric token list` shows the tokens that you can see",
    "agent": "check its name; `fabric agents` shows those of this fabric",
    "file": "`fabric show REF` lists the files of a task",
    "attachment": "`fabric show REF` lists the files of a task",
}


def not_found(what: str) -> NotFound:
    """The one sentence for a thing that does not exist or that the caller may not see, with the step that fits it."""
    return NotFound(f"no such {what}, or you may not see it", next=_NEXT_BY_THING.get(what, ""))
