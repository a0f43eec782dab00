"""Results made fit for the board, and the output of a run on its way there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from taskfabric.domain.errors import LeaseLost, Unavailable
from taskfabric.domain.outcome import Declined, Done, Failed, Outcome, Parked, Released, Waiting, WaitingOnChildren
from tests.unit.making import NOW
from workers.ending import fit
from workers.telling import Chunk, Telling


def test_a_result_that_is_too_long_is_cut_and_attached_whole() -> None:
    outcome, files = fit(Done(note="ä" * 300_000), ())
    assert isinstance(outcome, Done)
    assert len(outcome.note.encode()) <= 262_144
    assert outcome.note.endswith("are in result.md …]")
    assert [file.name for file in files] == ["result.md"]
    assert files[0].data.decode() == "ä" * 300_000


@pytest.mark.parametrize("note", ["", "  \n", "\t"])
def test_a_result_without_a_word_is_a_failure(note: str) -> None:
    assert fit(Done(note=note), ())[0] == Failed(error="it ended without a result")


@pytest.mark.parametrize(
    "outcome",
    [
        Done(note="a\0b\ud800"),
        Failed(error="a\0b\ud800" * 3000),
        Failed(error=""),
        Parked(until=NOW, reason="\ud800"),
        Waiting(question=""),
        WaitingOnChildren(),
        Released(reason="\0"),
        Declined(reason=""),
    ],
)
def test_no_text_of_a_run_is_one_that_the_board_refuses(outcome: Outcome) -> None:
    fitting, _ = fit(outcome, ())
    for field in ("note", "error", "reason", "question"):
        text = getattr(fitting, field, "x")
        assert "\0" not in text
        text.encode()
        assert len(text) <= 262_144
        assert text or isinstance(fitting, Parked | Released)


def test_a_file_that_is_too_large_or_missing_is_named_in_the_note(tmp_path: Path) -> None:
    big, small = tmp_path / "big.bin", tmp_path / "small.txt"
    with big.open("wb") as file:
        file.truncate(100 << 20)
    small.write_text("fits")
    outcome, files = fit(Done(note="done"), (big, small, tmp_path / "gone"))
    assert [file.name for file in files] == ["small.txt"]
    assert isinstance(outcome, Done)
    assert "big.bin, 104857600 bytes, was not attached" in outcome.note
    assert "gone was not attached" in outcome.note


# ---------------------------------------------------------------- output


class Server:
    """Takes chunks unless it is away."""

    def __init__(self) -> None:
        self.away = False
        self.got: list[Chunk] = []

    def send(self, chunks: Sequence[Chunk]) -> None:
        if self.away:
            raise Unavailable("away")
        self.got.extend(chunks)

    @property
    def text(self) -> str:
        return "".join(text for _, _, text in self.got)


def test_small_pieces_are_sent_together_and_numbered_from_zero() -> None:
    server = Server()
    telling = Telling(server.send, cap=1000)
    for word in "abc":
        telling.chunk(word)
    telling.chunk("!", stream="err")
    telling.flush()
    telling.chunk("d")
    telling.flush()
    assert server.got == [(0, "out", "abc"), (1, "err", "!"), (2, "out", "d")]


def test_beyond_the_cap_it_is_only_counted() -> None:
    server = Server()
    telling = Telling(server.send, cap=10)
    for _ in range(1000):
        telling.chunk("x" * 1000)
    telling.flush()
    assert len(server.text) < 100
    assert telling.dropped == 1_000_000 - 10


def test_what_could_not_be_sent_is_sent_later_with_its_number() -> None:
    """What arrived and was not answered is not stored twice: a number stands for one text."""
    server = Server()
    telling = Telling(server.send, cap=1000)
    server.away = True
    telling.chunk("a")
    telling.flush()
    telling.chunk("b")
    telling.flush()
    server.away = False
    telling.flush()
    assert server.got == [(0, "out", "a"), (1, "out", "b")]


def test_a_refusal_does_not_stop_the_run() -> None:
    def refuse(chunks: Sequence[Chunk]) -> None:
        raise LeaseLost("gone")

    telling = Telling(refuse, cap=1000)
    telling.chunk("a")
    telling.flush()
    telling.chunk("b")


def test_every_sign_counts_as_movement() -> None:
    now = [100.0]
    telling = Telling(lambda chunks: None, cap=10, now=lambda: now[0])
    now[0] = 200.0
    telling.touch()
    assert telling.moved == 200.0
    now[0] = 300.0
    telling.chunk("x" * 100)
    assert telling.moved == 300.0
