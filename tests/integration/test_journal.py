"""The journal is read by cursor: nothing is skipped, nothing comes twice, nothing is shown that is not the reader's."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from taskfabric.boards.native import journal as module
from taskfabric.boards.native.journal import NativeJournal
from taskfabric.domain.errors import BadInput
from taskfabric.domain.journal import Cursor, Event
from taskfabric.domain.outcome import Done
from taskfabric.domain.principal import Kind, ProjectRole, Viewer
from tests.integration.conftest import Rig


@pytest.fixture
def journal(rig: Rig) -> NativeJournal:
    return NativeJournal(rig.database)


def eyes(rig: Rig, name: str) -> Viewer:
    stamp = rig.people[name]
    return Viewer(principal_id=stamp.principal_id, kind=stamp.kind)


def catch_up(rig: Rig) -> None:
    """All that is committed now can be read: other tests on this server have transactions, too, and a reader stops
    before the oldest one."""
    conn = rig.test_database.connect()
    written = conn.execute("SELECT pg_current_xact_id()::text").fetchone()
    deadline = time.monotonic() + 30
    while conn.execute("SELECT pg_snapshot_xmin(pg_current_snapshot()) > %s::xid8", written).fetchone() != (True,):
        assert time.monotonic() < deadline, "a transaction on this server does not end"


def of_tasks(events: Sequence[Event]) -> list[tuple[int, str]]:
    return [(e.task_id, e.kind) for e in events if e.task_id is not None]


def test_the_journal_tells_what_happened_in_order(rig: Rig, journal: NativeJournal) -> None:
    task = rig.submit()
    claimed = rig.claim()
    assert claimed is not None
    rig.board.settle(claimed.fence, Done(note="did it"), rig.people["kimi"])
    catch_up(rig)
    events, _ = journal.read(Cursor(), 100, eyes(rig, "alice"), task_id=task.id)
    assert [(e.kind, e.seq, e.actor, e.epoch) for e in events] == [
        ("submitted", 1, "alice", 0),
        ("claimed", 2, "kimi", 1),
        ("done", 3, "kimi", 1),
    ]


@pytest.mark.parametrize("page", [1, 2, 3, 100])
def test_page_after_page_each_event_comes_once(rig: Rig, journal: NativeJournal, page: int) -> None:
    tasks = [rig.submit(str(n)) for n in range(7)]
    cursor, found = Cursor(), []
    while True:
        catch_up(rig)
        events, cursor = journal.read(cursor, page, eyes(rig, "alice"))
        found += of_tasks(events)
        if not events:
            break
    assert found == [(task.id, "submitted") for task in tasks]


def test_from_the_end_only_what_is_new_is_read(rig: Rig, journal: NativeJournal) -> None:
    rig.submit("old")
    catch_up(rig)
    end = journal.end()
    catch_up(rig)
    assert journal.read(end, 10, eyes(rig, "alice"))[0] == []
    new = rig.submit("new")
    catch_up(rig)
    events, cursor = journal.read(end, 10, eyes(rig, "alice"))
    assert of_tasks(events) == [(new.id, "submitted")]
    assert journal.read(cursor, 10, eyes(rig, "alice"))[0] == []


def test_an_event_that_commits_late_is_not_skipped(rig: Rig, journal: NativeJournal) -> None:
    """The reader stops before the oldest transaction still running, and goes on when it has ended."""
    late = rig.test_database.connect()
    late.execute("BEGIN")
    row = late.execute(
        "INSERT INTO journal (actor_id, kind, via) VALUES (%s, 'late', 'token') RETURNING id",
        (rig.people["alice"].principal_id,),
    ).fetchone()
    assert row is not None
    task = rig.submit()
    events, cursor = journal.read(Cursor(), 100, eyes(rig, "alice"))
    assert (task.id, "submitted") not in of_tasks(events)
    late.execute("COMMIT")
    catch_up(rig)
    events, _ = journal.read(cursor, 100, eyes(rig, "alice"))
    assert [e.kind for e in events] == ["late", "submitted"]


def test_an_event_that_is_rolled_back_holds_nobody_up(rig: Rig, journal: NativeJournal) -> None:
    late = rig.test_database.connect()
    late.execute("BEGIN")
    late.execute("INSERT INTO journal (actor_id, kind, via) VALUES (0, 'late', 'token')")
    task = rig.submit()
    _, cursor = journal.read(Cursor(), 100, eyes(rig, "alice"))
    late.execute("ROLLBACK")
    catch_up(rig)
    events, _ = journal.read(cursor, 100, eyes(rig, "alice"))
    assert of_tasks(events) == [(task.id, "submitted")]


def test_nobody_reads_events_of_tasks_that_are_not_his(rig: Rig, journal: NativeJournal) -> None:
    """G13"""
    hers = rig.submit(by="alice")
    his = rig.submit(by="bob")
    catch_up(rig)
    assert of_tasks(journal.read(Cursor(), 100, eyes(rig, "alice"))[0]) == [(hers.id, "submitted")]
    assert of_tasks(journal.read(Cursor(), 100, eyes(rig, "bob"))[0]) == [(his.id, "submitted")]
    assert journal.read(Cursor(), 100, eyes(rig, "bob"), task_id=hers.id)[0] == []


def test_a_tokens_scope_narrows_the_journal(rig: Rig, journal: NativeJournal) -> None:
    """G13"""
    rig.submit()
    alice = rig.people["alice"].principal_id
    narrow = Viewer(principal_id=alice, kind=Kind.HUMAN, queues=frozenset({4711}))
    catch_up(rig)
    events, _ = journal.read(Cursor(), 100, narrow)
    assert [e for e in events if e.project_id is not None] == []


def test_what_is_not_for_the_reader_is_not_looked_at_twice(
    rig: Rig, journal: NativeJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ROUND", 3)
    for n in range(8):
        rig.submit(str(n), by="bob")
    task = rig.submit(by="alice")
    catch_up(rig)
    events, cursor = journal.read(Cursor(), 10, eyes(rig, "alice"))
    assert of_tasks(events) == [(task.id, "submitted")]
    assert cursor > events[0].cursor
    assert journal.read(cursor, 10, eyes(rig, "alice"))[0] == []


def test_queues_narrow_the_journal(rig: Rig, journal: NativeJournal) -> None:
    task = rig.submit()
    project = rig.pool.project_id
    catch_up(rig)
    assert of_tasks(journal.read(Cursor(), 100, eyes(rig, "alice"), queues=[project])[0]) == [(task.id, "submitted")]
    assert journal.read(Cursor(), 100, eyes(rig, "alice"), queues=[4711])[0] == []
    with pytest.raises(BadInput):
        journal.read(Cursor(), 100, eyes(rig, "alice"), queues=[project], task_id=task.id)


def test_a_projects_own_events_are_for_its_members(rig: Rig, journal: NativeJournal) -> None:
    """G13"""
    alice, bob = rig.people["alice"], rig.people["bob"]
    project = rig.projects.create("Surprise party", alice)
    catch_up(rig)
    assert [e.kind for e in journal.read(Cursor(), 100, eyes(rig, "alice"), queues=[project.id])[0]] == [
        "project-created"
    ]
    catch_up(rig)
    assert journal.read(Cursor(), 100, eyes(rig, "bob"), queues=[project.id])[0] == []
    rig.projects.set_member(project.id, bob.principal_id, ProjectRole.VIEWER, alice)
    catch_up(rig)
    catch_up(rig)
    assert len(journal.read(Cursor(), 100, eyes(rig, "bob"), queues=[project.id])[0]) == 2


def test_a_cursor_travels_as_text(journal: NativeJournal) -> None:
    end = journal.end()
    assert Cursor.parse(str(end)) == end
