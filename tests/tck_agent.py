"""The agent that the public compliance kit expects: what it does is chosen by how a message's id begins."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from taskfabric.domain.card import AgentCard
from taskfabric.domain.outcome import Declined, Done, Failed, Waiting
from taskfabric.ports.runtime import Job, Progress, Result

CARD: Final = """
kind = "model"
description = "The agent of the compliance kit."
concurrency = 64
lease = "10m"
queues = []
capabilities = ["text"]
[model]
model = "none/none"
"""
_STAY: Final = 4.0  # seconds that a task stays working where somebody subscribes a second time


class TckRuntime:
    """A runtime that thinks nothing."""

    def __init__(self, card: AgentCard) -> None:
        self._pause = threading.Event()  # never set

    def run(self, job: Job, progress: Progress, stopped: Callable[[], str | None]) -> Result:
        message = job.message or {}
        name = str(message.get("messageId", ""))
        if name.startswith("tck-input-required"):
            return Result(outcome=Waiting(question="What next?"))
        if name.startswith("tck-reject-task"):
            return Result(outcome=Declined(reason="This task is refused"))
        if name.startswith("tck-message-response"):
            reply = {"messageId": f"reply-{job.fence}", "parts": [{"text": "Direct message response"}]}
            return Result(outcome=Done(note="replied"), reply=reply)
        if "test-resubscribe-message-id" in name:
            for _ in range(int(_STAY / 0.05)):
                if why := stopped():
                    return Result(outcome=Failed(error=why))
                self._pause.wait(0.05)
                progress.touch()
        for update in _artifacts(name):
            progress.artifact(update)
        return Result(outcome=Done(note="Hello from TCK"))

    def close(self) -> None:
        pass


def _artifacts(name: str) -> list[Mapping[str, Any]]:
    if name.startswith("tck-artifact-file-url"):
        url = {"url": "https://example.com/output.txt", "filename": "output.txt", "mediaType": "text/plain"}
        return [_whole(url)]
    if name.startswith(("tck-artifact-file", "tck-stream-artifact-file")):
        raw = base64.b64encode(b"Generated file content").decode()
        return [_whole({"raw": raw, "filename": "output.txt", "mediaType": "text/plain"})]
    if name.startswith("tck-artifact-data"):
        return [_whole({"data": {"key": "value", "count": 42}})]
    if name.startswith("tck-artifact-text"):
        return [_whole({"text": "Generated text content"})]
    if name.startswith("tck-stream-artifact-chunked"):
        return [
            _whole({"text": "chunk-1 "}, last=False),
            {**_whole({"text": "chunk-2"}), "append": True},
        ]
    if name.startswith(("tck-stream-001", "tck-stream-003", "tck-stream-ordering-001", "tck-stream-artifact-text")):
        return [_whole({"text": "Stream content"})]
    return []


def _whole(part: Mapping[str, Any], *, last: bool = True) -> dict[str, Any]:
    return {
        "artifact": {"artifactId": "artifact-1", "name": "output", "parts": [part]},
        "append": False,
        "lastChunk": last,
    }
