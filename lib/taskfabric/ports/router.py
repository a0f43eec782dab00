"""The router: what kind of task a text is. It calls no model."""

from __future__ import annotations

from typing import Protocol

from taskfabric.domain.routing import Verdict


class Router(Protocol):
    def judge(self, text: str) -> Verdict:
        """What the text is, and whether that is sure enough to act on. Never waits for anything to be loaded."""

    def state(self) -> tuple[bool, str, str]:
        """Whether all is well, how texts are judged here, and what would make it better; "" = nothing."""
