"""The thread that delivers letters while the server runs: a round every few seconds, never a fault of the server."""

from __future__ import annotations

import logging
import random
import threading
from typing import Final, Self

from taskfabric.domain.errors import Unavailable
from taskfabric.services.letters import Post

log = logging.getLogger(__name__)

_INTERVAL: Final = 5.0  # seconds


class Postman:
    """Rounds until the end of the block. A channel that hangs holds up letters and nothing else."""

    def __init__(self, post: Post, *, interval: float = _INTERVAL) -> None:
        self._post = post
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="post", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(2.0)

    def _run(self) -> None:
        while not self._stop.wait(self._interval * random.uniform(0.8, 1.2)):
            try:
                self._post.round()
            except Unavailable as away:
                log.info("post waits reason=%r", away.message)
            except Exception:  # the next round tries again
                log.exception("round of the post failed")
