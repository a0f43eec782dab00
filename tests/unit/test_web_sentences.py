"""The journal in words: no kind of event is shown raw, and an event says of itself what it knows."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import taskfabric
from taskfabric.domain.journal import Cursor, Event
from taskfabric.surfaces.web.sentences import SENTENCES, sentence

_HERE = Path(taskfabric.__file__).parent
# Where an event is written, its kind is the first plain text among the arguments.
_WRITTEN = re.compile(r"""\b(?:_?journal|tell|record|self\.note)\((?:[\w.\[\]]+, )*"([a-z0-9-]+)\"""")
_IN_SQL = re.compile(
    r"fabric_note\([^;]*?'(held|resumed|unblocked|blocked)',\s*jsonb|epoch\)\s*SELECT[^;]*'(restored)'"
)


def _kinds() -> set[str]:
    found: set[str] = set()
    for folder in ("boards/native", "stores", "services"):
        for path in (_HERE / folder).rglob("*.py"):
            found.update(_WRITTEN.findall(path.read_text()))
    for groups in _IN_SQL.findall((_HERE / "db" / "schema.sql").read_text()):
        found.update(kind for kind in groups if kind)
    return found


def _event(kind: str, **data: Any) -> Event:
    return Event(
        cursor=Cursor(), kind=kind, at=datetime(2026, 12, 1, tzinfo=UTC), task_id=1, seq=1, project_id=1, actor="kimi",
        via="token", data=data,
    )  # fmt: skip


def test_every_kind_of_event_that_is_written_has_a_sentence() -> None:
    kinds = _kinds()
    assert {"claimed", "transferred", "removed", "approval-asked", "unblocked", "pin-set"} <= kinds
    assert kinds - set(SENTENCES) == set()


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (_event("submitted"), "made the task"),
        (
            _event("parked", until="2026-12-01T17:00:00Z", reason="quota"),
            "put it back until 2026-12-01T17:00:00Z: quota",
        ),
        (_event("parked"), "put it back"),
        (_event("done", verdict="pass"), "finished it"),
        (_event("done", verdict="fail"), "finished it, verdict fail"),
        (_event("moved", **{"from": "Ready", "to": "Done"}), "moved the card from Ready to Done"),
        (_event("failed", error="a\nb  c", attempt=2), "failed at it, attempt 2: a b c"),
        (_event("told", to=[1, 2], matter="overdue"), "told people about it: overdue"),
        (_event("some.new-kind"), "some new kind"),
    ],
)
def test_an_event_says_what_it_knows_and_no_more(event: Event, words: str) -> None:
    assert sentence(event) == words


def test_a_long_fact_is_cut() -> None:
    assert len(sentence(_event("dead", error="x" * 5000))) < 250
