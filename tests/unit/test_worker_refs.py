"""What refs lead to, and what they must not lead to."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskfabric.domain.errors import BadInput, Unavailable, not_found
from taskfabric.domain.task import Entry, Thread
from taskfabric.ports.runtime import Material
from tests.unit.making import NOW, make_task
from workers import refs, web


def nobody(number: int) -> Thread:
    raise not_found("task")


def reach(root: Path) -> refs.Reach:
    return refs.Reach(roots=(root,), show=nobody)


def one(ref: str, root: Path, budget: int = 10_000) -> Material:
    (found,) = refs.resolve([ref], reach(root), budget=budget)
    return found


def test_a_file_below_a_root_is_read(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/plan.md").write_text("the plan")
    assert one("file:docs/plan.md", tmp_path).text == "the plan"
    assert one(f"file:{tmp_path}/docs/plan.md", tmp_path).text == "the plan"
    assert one("file:docs", tmp_path).text == "plan.md"


@pytest.mark.parametrize(
    "name",
    [
        "../secret",
        "/etc/passwd",
        "docs/../../secret",
        ".env",
        ".fabric/credentials",
        "way-out",
        "hidden-way",
        "a\0b",
        "",
        "x" * 5000,
    ],
)
def test_nothing_outside_and_nothing_hidden_is_read(tmp_path: Path, name: str) -> None:
    root = tmp_path / "root"
    (root / ".fabric").mkdir(parents=True)
    (root / "docs").mkdir()
    (root / ".fabric/credentials").write_text("token")
    (root / ".env").write_text("token")
    (tmp_path / "secret").write_text("token")
    (root / "way-out").symlink_to(tmp_path / "secret")
    (root / "hidden-way").symlink_to(root / ".env")
    found = one(f"file:{name}", root)
    assert "token" not in found.text
    assert found.error or not name  # the root itself is a folder whose names may be seen
    assert ".env" not in found.text


def test_what_is_no_text_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\0\0")
    assert one("file:picture.png", tmp_path).error == "not a text"


def test_a_revision_and_a_file_of_it_are_shown(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        given = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", "-C", str(tmp_path), *given, *words], check=True, capture_output=True)

    git("init")
    (tmp_path / "a.txt").write_text("before")
    git("add", "a.txt")
    git("commit", "-m", "the first")
    (tmp_path / "a.txt").write_text("after")
    assert one("git:main:a.txt", tmp_path).text == "before"
    assert "the first" in one("git:HEAD", tmp_path).text
    assert one("git:nowhere:a.txt", tmp_path).error
    for trick in ("git:--output=/tmp/x", "git:-p:a", "git::a.txt", "git:HEAD:.env"):
        assert one(trick, tmp_path).error, trick


def test_another_task_brings_its_result_and_what_people_said() -> None:
    entry = Entry(id=1, task_id=12, author="bob", author_id=2, at=NOW, text="looks good")
    line = Entry(id=2, task_id=12, author="kimi", author_id=3, at=NOW, text="claimed", kind="claimed")
    thread = Thread(task=make_task(note="it is so", verdict="pass"), entries=(entry, line))
    (found,) = refs.resolve(["task:12"], refs.Reach(roots=(), show=lambda number: thread), budget=1000)
    assert "Result (pass): it is so" in found.text
    assert "bob: looks good" in found.text
    assert "claimed" not in found.text


def test_a_ref_that_leads_nowhere_says_why(tmp_path: Path) -> None:
    found = refs.resolve(
        ["task:12", "task:x", "bank:garden", "https://example.org/", "nothing"], reach(tmp_path), budget=99
    )
    assert all(material.error and not material.text for material in found)
    assert "not granted" in found[3].error


def test_a_server_that_is_away_is_no_material(tmp_path: Path) -> None:
    def away(number: int) -> Thread:
        raise Unavailable("away")

    with pytest.raises(Unavailable):
        refs.resolve(["task:1"], refs.Reach(roots=(), show=away), budget=99)


@settings(deadline=None)  # the machine may be busy otherwise
@given(st.lists(st.integers(0, 3000), max_size=8), st.integers(400, 4000))
def test_all_texts_together_stay_within_the_budget_and_a_cut_is_visible(lengths: list[int], budget: int) -> None:
    given_ = [Material(ref=f"r{n}", text="x" * length) for n, length in enumerate(lengths)]
    found = refs.within(budget, given_)
    assert [m.ref for m in found] == [m.ref for m in given_]
    room = 100 * len(lengths)  # a text that is cut to nothing still says so
    assert sum(len(m.text) for m in found) <= budget + room
    for before, after in zip(given_, found, strict=True):
        assert after.cut == (before.text != after.text)
        assert ("cut here" in after.text) == after.cut
    if sum(lengths) <= budget:
        assert not any(m.cut for m in found)


def test_a_short_ref_is_whole_beside_a_long_one() -> None:
    short, long = Material(ref="a", text="short"), Material(ref="b", text="y" * 10_000)
    found = refs.within(1000, [long, short])
    assert found[1] == short
    assert found[0].cut
    assert found[0].text.startswith("yyy")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://localhost:8420/",
        "http://169.254.169.254/",
        "http://10.0.0.1/",
        "file:///etc/passwd",
        "http://user@example.org/",
        "http://",
    ],
)
def test_the_web_is_not_this_house(url: str) -> None:
    with pytest.raises(BadInput):
        web.fetch(url, 100)
