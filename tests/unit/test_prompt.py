"""The prompt: all of the task that fits, and a visible mark where something did not."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from taskfabric.domain.card import AgentCard, CardKind
from taskfabric.domain.lease import Fence
from taskfabric.domain.task import Entry
from taskfabric.ports.runtime import Job, Material
from taskfabric.runtimes import prompt
from tests.unit.making import make_task

CARD = AgentCard(name="chat", kind=CardKind.MODEL)
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def job(*materials: Material, thread: tuple[Entry, ...] = (), description: str = "It drops the date.") -> Job:
    return Job(
        task=make_task(title="Fix the parser", description=description),
        fence=Fence(task_id=12, epoch=1, token=1),
        card=CARD,
        workspace=Path(),
        materials=materials,
        thread=thread,
    )


def entry(text: str, kind: str = "", number: int = 1) -> Entry:
    return Entry(id=number, task_id=12, author="ada", author_id=1, at=NOW, text=text, kind=kind)


def test_what_fits_is_there_without_a_mark() -> None:
    said = prompt.compose(
        job(Material(ref="file:a.md", text="alpha"), Material(ref="task:3", text="beta")), budget=2000
    )
    assert said.startswith("# Task 12: Fix the parser\nIt drops the date.")
    assert "--- reference file:a.md ---\nalpha\n--- end of file:a.md ---" in said
    assert "beta" in said
    assert "cut" not in said


def test_a_material_that_was_cut_before_says_so_too() -> None:
    assert "[cut: it goes on]" in prompt.compose(job(Material(ref="a", text="x", cut=True)), budget=2000)


def test_a_material_that_is_missing_says_why() -> None:
    assert "[not available: no such file]" in prompt.compose(job(Material(ref="a", error="no such file")), budget=2000)


def test_answers_and_rejections_are_told_and_the_fabrics_books_are_not() -> None:
    books = entry("claimed by chat", "claimed"), entry("half of it", "said")
    thread = (*books, entry("Blue.", "answer"), entry("Not good enough.", "rejected"))
    said = prompt.compose(job(thread=thread), budget=2000)
    assert "ada: Blue." in said
    assert "ada: Not good enough." in said
    assert "claimed" not in said
    assert "half of it" not in said


@given(
    texts=st.lists(st.integers(0, 5000).map(lambda n: "x" * n), max_size=6),
    description=st.integers(0, 9000).map(lambda n: "d" * n),
    budget=st.integers(1500, 6000),
)
def test_it_never_grows_beyond_its_budget_and_every_cut_is_visible(
    texts: list[str], description: str, budget: int
) -> None:
    materials = [Material(ref=f"file:{place}.md", text=text) for place, text in enumerate(texts)]
    said = prompt.compose(job(*materials, description=description), budget=budget)
    assert len(said) <= budget
    whole = description in said and all(text in said for text in texts)
    assert whole or "[cut: " in said
