"""The threads of the server that carry things out of the house: letters, cards' followers."""

from __future__ import annotations

import random
from typing import Final

from taskfabric.ports.signal import Signal
from taskfabric.services.following import Following
from taskfabric.services.letters import Post
from taskfabric.surfaces.rounds import Rounds

_LETTERS: Final = 5.0  # seconds between two rounds of the post
_FOLLOW: Final = 5.0  # seconds after which the journal is looked at without a sign
_SETTLE: Final = 0.1  # between a change and the round that follows it: a flood is followed in few
_LOOK: Final = 1.0  # the same while there is nothing to follow for


def postman(post: Post) -> Rounds:
    """Delivers letters. A channel that hangs holds up letters and nothing else."""

    def deliver() -> None:
        post.round()

    return Rounds("post", deliver, idle=lambda: _LETTERS * random.uniform(0.8, 1.2))


def follower(following: Following, signal: Signal) -> Rounds:
    """Follows the journal for automatic actions and webhooks."""

    def follow() -> float:
        return _SETTLE if following.round().follows else _LOOK

    return Rounds("follower", follow, idle=lambda: _FOLLOW, signal=signal, gather=_SETTLE)
