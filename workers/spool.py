"""The spool: how a run ended, kept on disk while the server is away, and offered with its fence when it is back.

One file a lease, readable by its owner only, on the disk (fsync) before it counts. The server takes it, or refuses it
because somebody else has the task; then it has kept it as a late result. Either way it leaves the spool.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from taskfabric.domain.errors import BadInput
from taskfabric.domain.lease import Fence
from taskfabric.domain.outcome import Outcome
from taskfabric.domain.outcome_shape import outcome_of, shape_of

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """A file that belongs to a result."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended, complete: what is offered to the board."""

    fence: Fence
    outcome: Outcome
    files: tuple[Attached, ...] = ()


class Spool:
    """The ends that wait in a folder. Several processes may share it: what two of them offer is taken once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def put(self, ended: Ended) -> None:
        """It is on the disk. Raises OSError."""
        path = self._path(ended.fence)
        draft = path.with_suffix(f".{os.getpid()}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(_shape(ended), file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        log.warning("result spooled task=%s", ended.fence)

    def waiting(self) -> Iterator[Ended]:
        """What waits, oldest first. A file that cannot be read is put aside, and said so."""
        for path in self._files():
            try:
                yield _ended(json.loads(path.read_text()))
            except FileNotFoundError:  # another process was quicker
                continue
            except (ValueError, KeyError, TypeError, BadInput, OSError) as error:
                log.error("spooled result not readable file=%s reason=%s", path, error)  # noqa: TRY400 (no fault of ours)
                with contextlib.suppress(OSError):
                    path.replace(path.with_suffix(".bad"))

    def offer(self, deliver: Callable[[Ended], None]) -> None:
        """Deliver all that waits. ``deliver`` raises Unavailable to keep what it was given, and what comes after."""
        for ended in self.waiting():
            deliver(ended)
            self._path(ended.fence).unlink(missing_ok=True)

    def __len__(self) -> int:
        return len(self._files())

    def _files(self) -> Sequence[Path]:
        with contextlib.suppress(OSError):
            return sorted(self._folder.glob("*.json"), key=lambda path: (path.stat().st_mtime, path.name))
        return ()

    def _path(self, fence: Fence) -> Path:
        return self._folder / f"{fence.task_id}-{fence.epoch}-{fence.hex}.json"


def _shape(ended: Ended) -> dict[str, object]:
    fence = ended.fence
    return {
        "task": fence.task_id,
        "epoch": fence.epoch,
        "token": fence.hex,
        "outcome": shape_of(ended.outcome),
        "files": [{"name": file.name, "data": base64.b64encode(file.data).decode()} for file in ended.files],
    }


def _ended(shape: dict[str, object]) -> Ended:
    task, epoch, token, outcome, files = (shape[key] for key in ("task", "epoch", "token", "outcome", "files"))
    if not (isinstance(task, int) and isinstance(epoch, int) and isinstance(token, str)):
        raise TypeError("no fence")
    if not isinstance(outcome, dict) or not isinstance(files, list):
        raise TypeError("no outcome")
    return Ended(
        fence=Fence.parse(task, epoch, token),
        outcome=outcome_of(outcome),
        files=tuple(Attached(name=file["name"], data=base64.b64decode(file["data"])) for file in files),
    )
