"""From an A2A message to a task's words, and from what was told of a task to A2A's Task, in ProtoJSON."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from taskfabric.domain.status import A2AState, Status
from taskfabric.ports.a2a import Seen, Told

Shape = dict[str, Any]
Fill = Callable[[str, str], str | None]  # (sha256, name) to the file's bytes in base64; None = too large, or gone

SPOOLED: Final = "spooled"  # the board was away: it is told of the task when it is back

_TITLE: Final = 120  # characters
# Nothing that acts on a screen or turns text around: such characters stay in the journal, not on the card.
_HIDDEN: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_WORD: Final = re.compile(r"\w")
_MENTION: Final = re.compile(r"(?<![\w`])@(?=\w)")


def title_of(message: Mapping[str, Any], who: str) -> str:
    """The first line of the message that says something, shortened."""
    for line in _seen("\n".join(_texts(message))).splitlines():
        words = line.strip(" \t#*>-")
        if _WORD.search(words):
            return words if len(words) <= _TITLE else f"{words[: _TITLE - 1].rstrip()}…"
    return f"A message from {who}"


def description_of(message: Mapping[str, Any]) -> str:
    """The message as Markdown: its texts, its data as code, its links and files by name."""
    pieces: list[str] = []
    for part in message["parts"]:
        name = _seen(str(part.get("filename", "")))
        if "text" in part:
            pieces.append(_MENTION.sub("@\u2060", _seen(part["text"])))
        elif "data" in part:
            pieces.append(f"```json\n{json.dumps(part['data'], ensure_ascii=False, indent=1)}\n```")
        elif "url" in part:
            pieces.append(f"- <{_seen(part['url'])}> {name}".rstrip())
        else:
            pieces.append(f"- file {name or 'without a name'}")
    return "\n\n".join(pieces)


def words_of(update: Mapping[str, Any]) -> str:
    """The same of an artifact, or of a piece of one."""
    return description_of({"parts": update["artifact"].get("parts", ())})


def _texts(message: Mapping[str, Any]) -> list[str]:
    return [part["text"] for part in message["parts"] if "text" in part]


def _seen(text: str) -> str:
    return _HIDDEN.sub("", text)


def text_of(message: Mapping[str, Any]) -> str:
    """What the message says, for the thread of a task."""
    return description_of(message) or "(nothing)"


def hash_of(agent: str, message: Mapping[str, Any]) -> bytes:
    """What makes two messages under one key the same: everything but their ids."""
    said = {name: value for name, value in message.items() if name not in ("messageId", "taskId", "contextId")}
    return hashlib.sha256(json.dumps([agent, said], sort_keys=True).encode()).digest()


# ---------------------------------------------------------------- the other way


def task_of(seen: Seen, *, history: int | None, artifacts: bool, fill: Fill) -> Shape:
    """A2A's Task. ``history``: how many of the latest messages; None = all. Files are filled in by ``fill``."""
    shape: Shape = {"id": seen.id, "contextId": seen.context, "status": {}}
    folded: dict[str, Shape] = {}
    messages: list[Any] = []
    for told in seen.told:
        if told.kind == "message":
            messages.append(told.body["message"])
        elif told.kind == "status":
            shape["status"] = told.body["statusUpdate"]["status"]
        else:
            fold(folded, told.body["artifactUpdate"])
    if artifacts and folded:
        shape["artifacts"] = [filled(artifact, fill) for artifact in folded.values()]
    kept = messages if history is None else messages[-history:] if history else []
    if kept:
        shape["history"] = kept
    shape["metadata"] = metadata_of(seen)
    return shape


def fold(folded: dict[str, Shape], update: Mapping[str, Any]) -> None:
    """An artifact update is applied: it appends its parts, or replaces the artifact."""
    artifact = update["artifact"]
    before = folded.get(artifact["artifactId"])
    if before is None or not update.get("append"):
        folded[artifact["artifactId"]] = {**artifact, "parts": list(artifact.get("parts", ()))}
        return
    before["parts"] += artifact.get("parts", ())
    if len(before["parts"]) > 1 and all(set(part) == {"text"} for part in before["parts"]):
        # Pieces of one text, streamed: whoever reads it afterwards gets it whole.
        before["parts"] = [{"text": "".join(part["text"] for part in before["parts"])}]
    if "metadata" in artifact:
        before["metadata"] = {**before.get("metadata", {}), **artifact["metadata"]}


def filled(artifact: Mapping[str, Any], fill: Fill) -> Shape:
    """The artifact with the bytes of its files."""
    parts = []
    for part in artifact["parts"]:
        sha256 = part.get("metadata", {}).get("fabric/sha256")
        data = fill(sha256, part.get("filename", "")) if sha256 and not _CONTENT & set(part) else None
        parts.append(part if data is None else {**part, "raw": data})
    return {**artifact, "parts": parts}


def has_file(event: Mapping[str, Any]) -> bool:
    """Whether bytes are to be read for this event."""
    artifact = event.get("artifactUpdate", {}).get("artifact", {})
    return any("metadata" in part for part in artifact.get("parts", ()))


_CONTENT: Final = frozenset({"text", "raw", "url", "data"})


def metadata_of(seen: Seen) -> Shape:
    """What the board knows beyond A2A's states: its own word, and whether the result was verified."""
    status = seen.status if seen.current else ""
    shape: Shape = {"fabric/status": status or "reopened"}
    if status == SPOOLED:
        return {**shape, "fabric/verification": "pending", "fabric/degraded": True}
    if seen.state is A2AState.COMPLETED:
        judged = {Status.VERIFIED.value: "passed", Status.DONE.value: "pending"}.get(status, "failed")
        shape["fabric/verification"] = "failed" if seen.verdict == "fail" and seen.current else judged
    if seen.follows:
        shape["fabric/follows"] = seen.follows
    return shape


def after(told: Sequence[Told], n: int) -> list[Told]:
    """The events after this number that go onto a stream."""
    return [one for one in told if one.n > n and one.kind != "message"]
