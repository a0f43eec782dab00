"""What a remote agent says, gathered into one view, and what its end means for the task."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from taskfabric.domain.outcome import Declined, Done, Failed, Outcome, Waiting

Shape = Mapping[str, Any]

ENDED: Final = frozenset({"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"})
INTERRUPTED: Final = frozenset({"TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"})
SETTLED: Final = ENDED | INTERRUPTED

_FILES: Final = 50
_FILE: Final = 16 << 20  # bytes
_TEXT: Final = 1 << 20  # characters


@dataclass(slots=True)
class View:
    """The remote task as far as it was told."""

    task_id: str = ""
    context: str = ""
    state: str = ""
    said: str = ""  # the words of the last status
    reply: Shape | None = None  # a message that is no task
    artifacts: dict[str, list[Shape]] = field(default_factory=dict)  # parts by artifact, in the order they came
    names: dict[str, str] = field(default_factory=dict)

    def take(self, event: Shape) -> None:
        """One StreamResponse."""
        match event:
            case {"task": Mapping() as task}:
                self.take_task(task)
            case {"message": Mapping() as message}:
                self.reply = message
                self.context = str(message.get("contextId", ""))
            case {"statusUpdate": Mapping() as update}:
                self._name(update.get("taskId"), update.get("contextId"))
                self._status(update.get("status", {}))
            case {"artifactUpdate": Mapping() as update}:
                self._name(update.get("taskId"), update.get("contextId"))
                self._artifact(update.get("artifact", {}), append=bool(update.get("append")))
            case _:
                pass  # a kind of event that does not concern the result

    def take_task(self, task: Shape) -> None:
        """The task as a whole: what was known of it before is replaced."""
        self._name(task.get("id"), task.get("contextId"))
        self.artifacts.clear()
        for artifact in task.get("artifacts", ()):
            self._artifact(artifact, append=False)
        self._status(task.get("status", {}))

    def outcome(self, folder: Path) -> tuple[Outcome, tuple[Path, ...]]:
        """How the run ended, and the files that came with it. Only for a view that has settled."""
        if self.reply is not None:
            note, files = _noted([("", list(self.reply.get("parts", ())))], folder)
            return Done(note=note or "(an empty message)"), files
        match self.state:
            case "TASK_STATE_COMPLETED":
                note, files = _noted([(self.names[key], parts) for key, parts in self.artifacts.items()], folder)
                if self.said.strip() and self.said.strip() not in note:
                    note = f"{self.said.strip()}\n\n{note}".strip()
                return Done(note=note or "(done, without a word)"), files
            case "TASK_STATE_INPUT_REQUIRED":
                return Waiting(question=self.said), ()
            case "TASK_STATE_AUTH_REQUIRED":
                return Waiting(question=self.said or "The remote agent needs an authorisation.", auth=True), ()
            case "TASK_STATE_REJECTED":
                return Declined(reason=self.said or "the remote agent refuses it"), ()
            case "TASK_STATE_CANCELED":
                # Not by us. Whoever did it there meant it, so it is not begun again by itself.
                return Failed(error=f"it was cancelled at the remote agent: {self.said}".rstrip(": "), retry=False), ()
            case _:
                return Failed(error=self.said or "the remote agent failed without a reason"), ()

    def _name(self, task_id: object, context: object) -> None:
        self.task_id = str(task_id or self.task_id)
        self.context = str(context or self.context)

    def _status(self, status: Shape) -> None:
        self.state = str(status.get("state", self.state))
        self.said = text_of(status.get("message", {}))

    def _artifact(self, artifact: Shape, *, append: bool) -> None:
        key = str(artifact.get("artifactId", ""))
        parts = list(artifact.get("parts", ()))
        if append and key in self.artifacts:
            self.artifacts[key] += parts
        else:
            self.artifacts[key] = parts
            self.names[key] = str(artifact.get("name", ""))


def text_of(message: Shape) -> str:
    """The words of a message."""
    return "\n".join(str(part["text"]) for part in message.get("parts", ()) if "text" in part)[:_TEXT]


def _noted(artifacts: list[tuple[str, list[Shape]]], folder: Path) -> tuple[str, tuple[Path, ...]]:
    """The words of all artifacts in one note, their bytes as files below the folder."""
    notes: list[str] = []
    files: list[Path] = []
    for name, parts in artifacts:
        words = "".join(str(part["text"]) for part in parts if "text" in part)
        more = [_told(part, name, folder, files) for part in parts if "text" not in part]
        notes += [words.strip(), *more]
    return "\n\n".join(note for note in notes if note)[:_TEXT], tuple(files)


def _told(part: Shape, name: str, folder: Path, files: list[Path]) -> str:
    if "url" in part:
        return f"{_plain(part.get('filename') or name or 'file')}: {part['url']}"
    if "data" in part:
        return f"```json\n{json.dumps(_whole(part['data']), ensure_ascii=False, indent=1)}\n```"
    if "raw" not in part:
        return ""
    shown = _plain(part.get("filename") or name or "file")
    try:
        data = base64.b64decode(str(part["raw"]), validate=True)
    except binascii.Error:
        return f"({shown} could not be read)"
    if len(files) >= _FILES or len(data) > _FILE:
        return f"({shown}, {len(data)} bytes, was not kept: more than a result may carry)"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{len(files) + 1}" / shown
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    files.append(path)
    return ""


def _whole(value: object) -> object:
    """ProtoJSON knows one kind of number; what is whole is shown so."""
    match value:
        case float() if value.is_integer() and abs(value) < 2**53:
            return int(value)
        case dict():
            return {key: _whole(item) for key, item in value.items()}
        case list():
            return [_whole(item) for item in value]
        case _:
            return value


def _plain(name: object) -> str:
    """The last part of a file's name, with nothing in it that leads elsewhere."""
    last = str(name).replace("\\", "/").rpartition("/")[2]
    shown = "".join(c for c in last if c.isprintable())[:120].strip(". ")
    return shown or "file"
