"""The end of a run, told to the board: one verb for each outcome, named with the fence."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, assert_never

from taskfabric.domain.errors import FabricError, NotAuthenticated, NotFound, NotYours, Unavailable
from taskfabric.domain.outcome import (
    Declined,
    Done,
    Failed,
    Outcome,
    Parked,
    Released,
    Waiting,
    WaitingOnChildren,
)
from taskfabric.domain.outcome_text import ERROR, WHOLE, cut, short, sound
from taskfabric.ports.fabric import Fabric, Verb
from taskfabric.services import verbs
from workers.spool import Attached, Ended

log = logging.getLogger(__name__)

_FILES: Final = 20
_FILE: Final = 4 << 20  # bytes of one file
_TOGETHER: Final = 8 << 20  # bytes of all of them, well below what one request may hold


def deliver(fabric: Fabric, ended: Ended) -> None:
    """The board knows how the run ended; or somebody else has the task, and the board has kept this as a late result.

    What the board cannot accept ends as a failure that says why. Raises Unavailable, and NotAuthenticated: then it is
    to be offered again.
    """
    try:
        _tell(fabric, ended)
    except (Unavailable, NotAuthenticated):
        raise
    except (NotYours, NotFound) as error:
        log.warning("end not accepted task=%s reason=%s", ended.fence, error.message)
    except FabricError as error:
        log.error("end refused task=%s reason=%s", ended.fence, error.message)  # noqa: TRY400 (an expected error)
        if not isinstance(ended.outcome, Failed):
            why = f"its {_word(ended.outcome)} was not accepted: {error.message}"
            deliver(fabric, replace(ended, outcome=Failed(error=why[:ERROR]), files=()))


def _tell(fabric: Fabric, ended: Ended) -> None:
    files = [verbs.FileArg(name=f.name, data=base64.b64encode(f.data).decode()) for f in ended.files]
    fence = verbs.FenceArg.of(ended.fence)
    if isinstance(ended.outcome, Done):
        done = ended.outcome
        fabric.call(verbs.Done(fence=fence, note=done.note, verdict=done.verdict, attach=tuple(files)))
        return
    for file in files:
        fabric.call(verbs.Attach(task=ended.fence.task_id, file=file, fence=fence))
    fabric.call(_verb(fence, ended.outcome))


def _verb(fence: verbs.FenceArg, outcome: Outcome) -> Verb[Any]:
    match outcome:
        case Done():
            return verbs.Done(fence=fence, note=outcome.note, verdict=outcome.verdict)
        case Parked():
            return verbs.Park(fence=fence, until=outcome.until, note=outcome.reason, head=outcome.head)
        case Waiting():
            return verbs.Ask(fence=fence, note=outcome.question, auth=outcome.auth)
        case WaitingOnChildren():
            return verbs.WaitForChildren(fence=fence)
        case Failed():
            return verbs.Fail(fence=fence, note=outcome.error, final=not outcome.retry)
        case Released():
            return verbs.Release(fence=fence, note=outcome.reason, drained=outcome.drained)
        case Declined():
            return verbs.Decline(fence=fence, note=outcome.reason)
        case _:
            assert_never(outcome)


def _word(outcome: Outcome) -> str:
    return "result" if isinstance(outcome, Done) else f"end ({type(outcome).__name__.lower()})"


# ---------------------------------------------------------------- made fit to be told


def fit(outcome: Outcome, attachments: Iterable[Path]) -> tuple[Outcome, tuple[Attached, ...]]:
    """The outcome and its files as the board takes them: texts are sound, not empty, and not too long.

    A result that is too long is cut, visibly, and attached whole. A file that cannot be taken is named in the note.
    """
    files: list[Attached] = []
    refused: list[str] = []
    for path in attachments:
        _take(path, files, refused)
    match outcome:
        case Done():
            note = sound(outcome.note).strip()
            if not note:
                return Failed(error="it ended without a result"), tuple(files)
            note, whole = cut(note)
            if whole is not None:
                files.append(Attached(name=WHOLE, data=whole[:_FILE]))
            note += "".join(f"\n\n({line})" for line in refused)
            return replace(outcome, note=note), tuple(files)
        case Parked():
            return replace(outcome, reason=short(outcome.reason, "")), tuple(files)
        case Waiting():
            return replace(outcome, question=short(outcome.question, "How shall I go on?", 20_000)), tuple(files)
        case WaitingOnChildren():
            return outcome, tuple(files)
        case Failed():
            return replace(outcome, error=short(outcome.error, "it failed without a reason")), tuple(files)
        case Released():
            return replace(outcome, reason=short(outcome.reason, "")), tuple(files)
        case Declined():
            return replace(outcome, reason=short(outcome.reason, "it was refused without a reason")), tuple(files)
        case _:
            assert_never(outcome)


def _take(path: Path, files: list[Attached], refused: list[str]) -> None:
    name = sound(path.name)[:200].strip() or "file"
    taken = sum(len(file.data) for file in files)
    try:
        size = path.stat().st_size
        if len(files) >= _FILES or size > _FILE or taken + size > _TOGETHER or not path.is_file():
            refused.append(f"{name}, {size} bytes, was not attached: more than a result may carry")
            return
        files.append(Attached(name=name, data=path.read_bytes()))
    except OSError as error:
        refused.append(f"{name} was not attached: {(error.strerror or str(error)).lower()}")
