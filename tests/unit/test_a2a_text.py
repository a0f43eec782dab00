"""From a message to a task's words, and from what was told to A2A's Task."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskfabric.domain.status import A2AState, ColumnRole, Flag, Status, a2a_state, status_of
from taskfabric.ports.a2a import INTERRUPTED, TERMINAL, Seen, Told
from taskfabric.services.a2a_text import description_of, fold, hash_of, task_of, text_of, title_of

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def said(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"messageId": "m", "role": "ROLE_USER", "parts": list(parts), **more}


@settings(deadline=None)
@given(
    column=st.sampled_from([None, *ColumnRole]),
    is_open=st.booleans(),
    flags=st.integers(0, 1023).map(Flag),
    claimed=st.booleans(),
)
def test_every_row_has_exactly_one_state_or_is_a_record(
    column: ColumnRole | None, is_open: bool, flags: Flag, claimed: bool
) -> None:
    status = status_of(column, is_open, flags)
    state = a2a_state(status, flags, claimed_before=claimed)
    assert (state is None) == (status is Status.RECORD)
    if not is_open and state is not None:
        assert state in TERMINAL
    if state in INTERRUPTED:
        assert status is Status.WAITING


@settings(deadline=None)
@given(st.text(max_size=300))
def test_every_text_has_a_title_that_can_be_seen_on_one_line(text: str) -> None:
    title = title_of(said({"text": text}), "alice")
    assert title.strip()
    assert len(title.splitlines()) == 1
    assert len(title) <= 120


def test_a_description_has_all_that_was_said_and_nothing_that_acts_on_a_screen() -> None:
    text = description_of(
        said(
            {"text": "hello @alice \x1b[2J\u202eevil"},
            {"data": {"a": 1}},
            {"url": "https://example.com/x", "filename": "x"},
            {"raw": "YQ==", "filename": "y.txt"},
        )
    )
    assert "@alice" not in text
    assert not {"\x1b", "\u202e"} & set(text)
    assert all(word in text for word in ('"a": 1', "<https://example.com/x> x", "file y.txt"))
    assert text_of(said({"text": ""}))


def test_a_key_stands_for_what_was_said_and_not_for_its_ids() -> None:
    one = said({"text": "a"})
    assert hash_of("x", one) == hash_of("x", {**one, "messageId": "n", "contextId": "c"})
    assert hash_of("x", one) != hash_of("y", one)
    assert hash_of("x", one) != hash_of("x", said({"text": "b"}))


def _seen(*bodies: tuple[str, dict[str, Any]], **more: Any) -> Seen:
    told = tuple(Told(n=n, kind=kind, body=body) for n, (kind, body) in enumerate(bodies, 1))
    seen = Seen(
        id="t",
        task_id=1,
        owner_id=2,
        agent_id=3,
        context="c",
        state=A2AState.COMPLETED,
        seq=len(told),
        changed=NOON,
        current=True,
        follows=None,
        status="done",
        told=told,
    )
    return replace(seen, **more)


def _artifact(parts: list[dict[str, Any]], *, append: bool) -> tuple[str, dict[str, Any]]:
    update = {"artifact": {"artifactId": "a", "parts": parts}, "append": append}
    return "artifact", {"artifactUpdate": update}


@settings(deadline=None)
@given(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=8))
def test_pieces_of_a_text_are_read_as_one(pieces: list[str]) -> None:
    told = [_artifact([{"text": piece}], append=n > 0) for n, piece in enumerate(pieces)]
    task = task_of(_seen(*told), history=None, artifacts=True, fill=lambda *_: None)
    assert task["artifacts"] == [{"artifactId": "a", "parts": [{"text": "".join(pieces)}]}]


def test_an_update_that_does_not_append_takes_the_place_of_the_artifact() -> None:
    folded: dict[str, Any] = {}
    for text in ("one", "two"):
        fold(folded, {"artifact": {"artifactId": "a", "parts": [{"text": text}]}})
    assert folded["a"]["parts"] == [{"text": "two"}]


@pytest.mark.parametrize(("length", "kept"), [(None, 3), (0, 0), (2, 2), (9, 3)])
def test_a_history_is_as_long_as_it_was_asked_for(length: int | None, kept: int) -> None:
    told = [("message", {"message": {"messageId": str(n)}}) for n in range(3)]
    task = task_of(_seen(*told), history=length, artifacts=True, fill=lambda *_: None)
    assert [m["messageId"] for m in task.get("history", [])] == ["0", "1", "2"][3 - kept :]


@pytest.mark.parametrize(
    ("status", "verdict", "current", "judged"),
    [
        ("done", "pass", True, "pending"),
        ("done", "fail", True, "failed"),
        ("verified", "pass", True, "passed"),
        ("ready", None, False, "failed"),
    ],
)
def test_the_verification_is_shown(status: str, verdict: str | None, current: bool, judged: str) -> None:
    seen = _seen(status=status, verdict=verdict, current=current)
    task = task_of(seen, history=None, artifacts=True, fill=lambda *_: None)
    assert task["metadata"]["fabric/verification"] == judged
