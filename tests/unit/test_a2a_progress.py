"""What a run in the server tells on its way: in order, gathered, and bounded whatever the run does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taskfabric.surfaces.a2a.progress import Streaming


class Heard:
    """What was told, and what was said."""

    def __init__(self) -> None:
        self.updates: list[Mapping[str, Any]] = []
        self.words: list[tuple[int, str]] = []
        self.now = 0.0
        self.streaming = Streaming(
            self.updates.extend, lambda n, text: self.words.append((n, text)), now=lambda: self.now
        )

    def artifact(self, text: str, *, append: bool = True) -> None:
        self.streaming.artifact({"artifact": {"artifactId": "a", "parts": [{"text": text}]}, "append": append})


def test_pieces_are_gathered_and_said_under_numbers() -> None:
    heard = Heard()
    for word in ("one ", "two ", "three "):
        heard.streaming.chunk(word)
    heard.now = 1.0
    heard.streaming.chunk("four")
    heard.streaming.finish("one two three four")
    assert heard.words == [(0, "one "), (1, "two three four")]
    assert [update["append"] for update in heard.updates] == [False, True]


def test_artifacts_without_end_are_cut_and_the_result_is_told_whole() -> None:
    """An agent elsewhere that tells more and more fills neither the journal nor the card."""
    heard = Heard()
    for n in range(5000):
        heard.artifact("x" * 10_000, append=n > 0)
    told = sum(len(update["artifact"]["parts"][0]["text"]) for update in heard.updates)
    assert told < 9 << 20
    heard.streaming.finish("the result")
    assert heard.updates[-1]["artifact"]["parts"] == [{"text": "the result"}]


def test_many_tiny_artifacts_are_bounded_by_their_number() -> None:
    heard = Heard()
    for _ in range(50_000):
        heard.artifact("x")
    assert len(heard.updates) <= 10_000


def test_one_huge_artifact_is_not_told_but_its_run_goes_on() -> None:
    heard = Heard()
    heard.artifact("x" * (9 << 20))
    heard.artifact("small")
    heard.streaming.finish("the result")
    assert [update["artifact"]["parts"][0]["text"] for update in heard.updates] == ["the result"]
