"""What a call may say, and that it does all of it or nothing."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, LiteralString

import pytest
from psycopg import sql

from taskfabric.domain.errors import BadInput, Unavailable
from taskfabric.domain.status import Hindrance, Status
from taskfabric.ports.fabric import Fabric, Verb
from taskfabric.services import verbs
from taskfabric.services.verbs import FileArg
from tests.contract.acts import NOON, claim, fence, finish, look, over_http, said, submit
from tests.contract.household import Household

HALF_A_DAY = 12 * 3600


# -- a result and its files ------------------------------------------------------------------------------------


@contextmanager
def disk_full(noon: Household, event: LiteralString) -> Iterator[None]:
    """The disk is full whenever an event of this kind is to be written down."""
    with noon.ground.tested.connect() as conn:
        conn.execute(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS"
            " $$BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END$$"
        )
        conn.execute(
            sql.SQL(
                "CREATE TRIGGER full_disk BEFORE INSERT ON journal FOR EACH ROW WHEN (NEW.kind = {})"
                " EXECUTE FUNCTION full_disk()"
            ).format(event)
        )
        try:
            yield
        finally:
            conn.execute("DROP TRIGGER full_disk ON journal")
            conn.execute("DROP FUNCTION full_disk")


@pytest.mark.parametrize("event", ["done", "attached"])
@pytest.mark.parametrize("by_hand", [False, True])
def test_a_result_and_its_files_are_one_transaction(
    noon: Household, alice: Fabric, by_hand: bool, event: LiteralString
) -> None:
    """G3: a finish that failed has listed nothing, so that a second try doubles nothing."""
    got = claim(alice, submit(alice))
    files = tuple(FileArg(name=name, data=base64.b64encode(name.encode()).decode()) for name in ("a.txt", "b.txt"))
    whose: dict[str, Any] = {"task": got.task.id} if by_hand else {"fence": fence(got)}
    done = verbs.Done(note="did it", attach=files, **whose)
    with disk_full(noon, event), pytest.raises(Unavailable):
        alice.call(done)
    thread = alice.call(verbs.Show(task=got.task.id))
    assert (thread.task.status, thread.attachments) == (Status.WORKING, ())
    assert alice.call(done).status is Status.VERIFIED
    thread = alice.call(verbs.Show(task=got.task.id))
    assert [one.name for one in thread.attachments] == ["a.txt", "b.txt"]
    assert [alice.call(verbs.Download(attachment=one.id)) for one in thread.attachments] == list(files)


def test_an_agents_result_with_files_is_read_back_whole(alice: Fabric, kimi: Fabric) -> None:
    got = claim(kimi, submit(alice))
    answer = finish(kimi, got, note="here", attach=(FileArg(name="a.txt", data="aGk="),))
    assert answer == look(alice, got.task)
    assert (answer.status, answer.note, answer.producer) == (Status.DONE, "here", "kimi")


def test_two_finishes_by_one_lease_are_refused_before_either(alice: Fabric, kimi: Fabric) -> None:
    """G3"""
    got, other = claim(kimi, submit(alice)), claim(kimi, submit(alice))
    ends = tuple(verbs.End(fence=fence(one), note=note) for one, note in ((got, "a"), (other, "b"), (got, "c")))
    with pytest.raises(BadInput) as caught:
        kimi.call(verbs.DoneMany(ends=ends))
    assert caught.value.facts["field"] == "ends"
    for one in (got, other):
        assert look(alice, one.task).status is Status.WORKING
        assert said(alice, one.task, "late") == []


# -- leases ----------------------------------------------------------------------------------------------------


def test_an_agent_gets_no_lease_of_days(alice: Fabric, kimi: Fabric) -> None:
    """G6: a dead worker's task must be ready again within the day."""
    task = submit(alice)
    asked: list[Verb[Any]] = [verbs.Claim(lease=HALF_A_DAY + 1), verbs.Take(task=task.id, lease=HALF_A_DAY + 1)]
    for verb in asked:
        with pytest.raises(BadInput) as caught:
            kimi.call(verb)
        assert caught.value.facts["field"] == "lease"
    assert look(alice, task).status is Status.READY
    got = kimi.call(verbs.Take(task=task.id, lease=HALF_A_DAY))
    with pytest.raises(BadInput):
        kimi.call(verbs.Renew(fences=(fence(got),), lease=HALF_A_DAY + 1))
    assert look(alice, task).lease_until == got.task.lease_until


def test_a_human_may_keep_a_task_for_days(alice: Fabric) -> None:
    got = alice.call(verbs.Take(task=submit(alice).id, lease=5 * 86400))
    assert got.task.lease_until == NOON + timedelta(days=5)


# -- instants --------------------------------------------------------------------------------------------------


@over_http
@pytest.mark.parametrize("due", [1764583200, "1764583200", 1.5, True, "2026-12-01", "20261201T090000Z", "tomorrow"])
def test_an_instant_is_written_with_its_day_and_its_zone(household: Household, due: object) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "fabric.submit", "params": {"title": "x", "due": due}}
    _, _, body = household.post("alice", call)
    assert b"due is an instant" in body
    assert household.tasks() == 0


@over_http
@pytest.mark.parametrize("due", ["2026-12-01T09:00:00Z", "2026-12-01T10:00+01:00", "2026-12-01T09:00:00.000+00:00"])
def test_an_instant_of_iso_8601_is_understood(household: Household, due: str) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "fabric.submit", "params": {"title": "x", "due": due}}
    _, _, body = household.post("alice", call)
    assert b'"due":"2026-12-01T09:00:00Z"' in body


@over_http
@pytest.mark.parametrize("lease", ["60", True])
def test_a_number_of_seconds_is_a_number(household: Household, lease: object) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "fabric.claim", "params": {"lease": lease}}
    _, _, body = household.post("kimi", call)
    assert b"lease is a number" in body


# -- titles ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("title", ["\u200b", "\u200b \u2060\ufeff", "\u00ad", "\u3164", "\u2800", "\u0301", "\t"])
def test_a_title_can_be_seen(alice: Fabric, title: str) -> None:
    with pytest.raises(BadInput) as caught:
        submit(alice, title)
    assert caught.value.facts["field"] == "title"


@pytest.mark.parametrize("char", ["\x01", "\x07", "\x1b", "\x7f", "\x80", "\x9b"])
def test_no_word_on_a_card_acts_on_a_screen(alice: Fabric, char: str) -> None:
    task = submit(alice)
    file = FileArg(name=f"a{char}.txt", data="aGk=")
    calls: list[Verb[Any]] = [
        verbs.Submit(title=f"a{char}b"),
        verbs.Submit(title=f"a{char}"),
        verbs.EditTask(task=task.id, title=f"{char}[2Ja"),
        verbs.Submit(title="a", tags=(f"a{char}",)),
        verbs.Submit(title="a", refs=(f"git:{char}",)),
        verbs.Attach(task=task.id, file=file),
    ]
    for verb in calls:
        with pytest.raises(BadInput) as caught:
            alice.call(verb)
        assert "control character" in caught.value.message


@pytest.mark.parametrize("title", ["grün 🦊", "a\tb", "買い物", "?", "👩\u200d🔧", "שלום"])
def test_a_title_in_any_script_is_a_title(alice: Fabric, title: str) -> None:
    assert submit(alice, title).title == title


# -- why -------------------------------------------------------------------------------------------------------


def test_an_inbox_is_taken_from_by_its_owner(alice: Fabric, bob: Fabric, kimi: Fabric) -> None:
    why = bob.call(verbs.Why(task=submit(bob, to="alice").id))
    assert (why.claimable, why.first, why.claimers) == (True, None, ("alice",))
    task = submit(kimi, to="alice")
    assert kimi.call(verbs.Why(task=task.id)).claimers == ("alice",)
    alice.call(verbs.Take(task=task.id))


def test_an_expired_lease_holds_nothing_up(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """G6"""
    got = claim(kimi, submit(alice))
    noon.later(minutes=11)
    first = alice.call(verbs.Why(task=got.task.id)).first
    assert first is not None
    assert (first.kind, first.until) == (Hindrance.LEASED, None)
    assert first.text == "its lease expired; the next claim takes it back"
