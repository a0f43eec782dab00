"""The result file: how a program says how its run ended, beside its exit code.

    {"outcome": "done", "note": "…", "verdict": "pass", "attachments": ["report.md"]}

    done         note; verdict pass (default) or fail
    needs-input  note = the question
    parked       note = why; until = an instant, ISO 8601 with a zone
    failed       note = the reason; retry true (default) or false
    refused      note = why the task is rejected for good

Attachments are paths below the workspace. The program is not trusted: nothing but a plain file is read, none through a
link, none outside the workspace.
"""

from __future__ import annotations

import difflib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from taskfabric.domain.errors import BadInput
from taskfabric.domain.outcome import Declined, Done, Failed, Outcome, Parked, Waiting

NAME: Final = "result.json"
_LARGEST: Final = 1 << 20  # bytes
_ATTACHMENTS: Final = 20
_KEYS: Final = {
    "done": {"outcome", "note", "verdict", "attachments"},
    "needs-input": {"outcome", "note", "attachments"},
    "parked": {"outcome", "note", "until", "attachments"},
    "failed": {"outcome", "note", "retry", "attachments"},
    "refused": {"outcome", "note", "attachments"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the file says."""

    outcome: Outcome
    attachments: tuple[Path, ...] = ()


def read(workspace: Path, *, said: str) -> Told | None:
    """What the program wrote into its workspace; None when it wrote no result file.

    ``said`` is its output, the note of a result that has none. Raises BadInput for a file that does not say clearly
    how the run ended.
    """
    try:
        text = _plain(workspace / NAME)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise BadInput(f"the result file cannot be read: {error}") from error
    try:
        shape = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"the result file is not JSON: {error}") from error
    if not isinstance(shape, dict):
        raise BadInput("the result file is not a JSON object")
    return Told(outcome=_outcome(shape, said), attachments=_attachments(shape, workspace))


def _plain(path: Path) -> str:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("it is no plain file")
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ValueError(f"it is larger than {_LARGEST} bytes")
    return data.decode("utf-8")


def _outcome(shape: Mapping[str, Any], said: str) -> Outcome:
    word = shape.get("outcome")
    if not isinstance(word, str) or word not in _KEYS:
        raise BadInput(f"the result file's outcome is {_shown(word)}{_meant(str(word), _KEYS)}", field="outcome")
    for key in shape:
        if key not in _KEYS[word]:
            raise BadInput(f"the result file has an unknown key '{key[:40]}'{_meant(key, _KEYS[word])}", field=key[:40])
    note = _typed(shape, "note", str, said.strip())
    if not note.strip():
        raise BadInput(f"the result file says '{word}' without a note", field="note")
    match word:
        case "done":
            verdict = _typed(shape, "verdict", str, "pass")
            if verdict not in ("pass", "fail"):
                raise BadInput(f"the result file's verdict is {_shown(verdict)}: write pass or fail", field="verdict")
            return Done(note=note, verdict="fail" if verdict == "fail" else "pass")
        case "needs-input":
            return Waiting(question=note)
        case "parked":
            return Parked(until=_instant(shape), reason=note)
        case "failed":
            return Failed(error=note, retry=_typed(shape, "retry", bool, True))
        case _:
            return Declined(reason=note)


def _instant(shape: Mapping[str, Any]) -> datetime:
    try:
        until = datetime.fromisoformat(_typed(shape, "until", str, ""))
    except ValueError:
        until = None
    if until is None or until.tzinfo is None:
        raise BadInput("the result file's 'until' is no instant: write 2026-12-01T09:00:00+01:00", field="until")
    return until


def _attachments(shape: Mapping[str, Any], workspace: Path) -> tuple[Path, ...]:
    names = _typed(shape, "attachments", list, [])
    if len(names) > _ATTACHMENTS:
        raise BadInput(f"the result file names more than {_ATTACHMENTS} attachments", field="attachments")
    root = workspace.resolve()
    found = []
    for name in names:
        path = root / str(name)
        try:
            # Links are followed for the comparison only: one that leads anywhere else is refused.
            sound = path.resolve(strict=True) == path and path.is_relative_to(root)
            sound = sound and stat.S_ISREG(path.lstat().st_mode)
        except (OSError, ValueError):
            sound = False
        if not sound:
            raise BadInput(f"the attachment {_shown(name)} is no plain file below the workspace", field="attachments")
        found.append(path)
    return tuple(found)


def _typed(shape: Mapping[str, Any], key: str, kind: type[Any], default: Any) -> Any:
    value = shape.get(key, default)
    if not isinstance(value, kind):
        raise BadInput(f"the result file's '{key}' is {_shown(value)}", field=key)
    return value


def _meant(word: str, known: object) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)  # type: ignore[call-overload]
    return f": did you mean '{close[0]}'?" if close else f": known are {', '.join(sorted(known))}"  # type: ignore[call-overload]


def _shown(value: object) -> str:
    return repr(value)[:60]
