"""What could not be told to the board: kept on disk, and told when it is back (G14).

Two sorts: the end of a run whose lease was granted, offered with its fence; and an answer that was given while the
board was away, which becomes a task of its own. One file each, readable by its owner only; twice is as good as once.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from taskfabric.domain.errors import FabricError, Unavailable

log = logging.getLogger(__name__)

_LOOK: Final = 2.0  # seconds between two tries

Offer = Callable[[Mapping[str, Any]], None]


class Spool:
    """``offer`` tells the board; it raises Unavailable while that is away, and what else it raises is the end of it."""

    def __init__(self, folder: Path, offer: Offer) -> None:
        self._folder = folder
        self._offer = offer
        self._ended = threading.Event()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """What waits is offered from now on."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._thread = threading.Thread(target=self._run, name="a2a-spool", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Nothing is offered any more; it is when the server starts again."""
        self._ended.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(3)

    def put(self, name: str, shape: Mapping[str, Any]) -> None:
        """It is on the disk. Raises OSError."""
        path = self._folder / f"{name}.json"
        draft = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(shape, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        self._wake.set()

    def __len__(self) -> int:
        return len(list(self._folder.glob("*.json"))) if self._folder.is_dir() else 0

    def _run(self) -> None:
        while not self._ended.is_set():
            if not self._offer_all():
                self._ended.wait(_LOOK)
                continue
            self._wake.wait()
            self._wake.clear()

    def _offer_all(self) -> bool:
        """Whether nothing waits any more."""
        for path in sorted(self._folder.glob("*.json")):
            try:
                self._offer(json.loads(path.read_text()))
            except Unavailable:
                return False
            except FabricError as error:
                log.warning("spooled result given up file=%s reason=%s", path.name, error)
            except Exception:  # it stays there for whoever looks at the log
                log.exception("spooled result cannot be told file=%s", path.name)
                path.rename(path.with_suffix(".broken"))
            path.unlink(missing_ok=True)
        return True
