"""The total status function, what keeps a task from being claimed, and the reserved tags."""

from __future__ import annotations

from datetime import datetime
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskfabric.domain.status import (
    COLUMN_TITLES,
    FINISHED,
    FLAG_OF_TAG,
    OPEN_STATUSES,
    A2AState,
    ColumnRole,
    Flag,
    Hindrance,
    Status,
    a2a_state,
    is_reserved,
    status_of,
    why_not,
)
from taskfabric.domain.task import Task
from tests.unit.making import LATER, NOW, instants, make_task, tasks

COLUMNS = (*ColumnRole, None)
ALL_FLAGS = [Flag(bits) for bits in range(2 * max(Flag))]


def test_every_combination_has_one_status() -> None:
    """All columns, open and closed, all sets of reserved tags: none is left out, and the open ones are open."""
    for column, is_open, flags in product(COLUMNS, (True, False), ALL_FLAGS):
        status = status_of(column, is_open, flags)
        assert isinstance(status, Status)
        if is_open:
            assert status in OPEN_STATUSES | {Status.DEAD}
        else:
            assert status in FINISHED - {Status.DONE}


def test_every_status_is_some_combinations() -> None:
    made = {status_of(*c) for c in product(COLUMNS, (True, False), ALL_FLAGS)}
    assert made == set(Status)


BACKLOG, READY, WORKING, DONE = ColumnRole.BACKLOG, ColumnRole.READY, ColumnRole.WORKING, ColumnRole.DONE


@pytest.mark.parametrize(
    ("column", "is_open", "flags", "status"),
    [
        (BACKLOG, True, Flag.NONE, "backlog"),
        (None, True, Flag.NONE, "backlog"),
        (READY, True, Flag.NONE, "ready"),
        (READY, True, Flag.PARKED, "ready"),
        (READY, True, Flag.VETO, "ready"),
        (BACKLOG, True, Flag.BLOCKED, "held"),
        (READY, True, Flag.BLOCKED, "held"),
        (READY, True, Flag.BLOCKED | Flag.PARKED, "held"),
        (WORKING, True, Flag.NONE, "working"),
        (WORKING, True, Flag.NEEDS_INPUT, "working"),
        (WORKING, True, Flag.BLOCKED | Flag.NEEDS_INPUT, "waiting"),
        (WORKING, True, Flag.BLOCKED | Flag.NEEDS_AUTH, "waiting"),
        (WORKING, True, Flag.BLOCKED, "waiting"),
        (DONE, True, Flag.NONE, "done"),
        (DONE, True, Flag.NEEDS_HUMAN_VERIFY, "done"),
        (DONE, True, Flag.VETO, "done"),
        (DONE, False, Flag.NONE, "verified"),
        (DONE, False, Flag.VETO, "verified"),
        (DONE, True, Flag.DEAD_LETTER, "dead"),
        (DONE, False, Flag.DEAD_LETTER, "dead"),
        (BACKLOG, False, Flag.NONE, "cancelled"),
        (READY, False, Flag.NONE, "cancelled"),
        (WORKING, False, Flag.NONE, "cancelled"),
        (None, False, Flag.NONE, "cancelled"),
        (DONE, False, Flag.CANCELLED, "cancelled"),
        (READY, False, Flag.REJECTED, "rejected"),
        (DONE, False, Flag.REJECTED, "rejected"),
        (DONE, False, Flag.A2A_MESSAGE, "record"),
        (READY, False, Flag.A2A_MESSAGE, "record"),
    ],
)
def test_the_table_of_statuses_row_by_row(column: ColumnRole | None, is_open: bool, flags: Flag, status: str) -> None:
    assert status_of(column, is_open, flags) == status


@given(
    column=st.sampled_from(COLUMNS), is_open=st.booleans(), bits=st.integers(0, 2 * max(Flag) - 1), parked=st.booleans()
)
def test_parked_is_decoration(column: ColumnRole | None, is_open: bool, bits: int, parked: bool) -> None:
    flags = Flag(bits)
    decorated = flags | Flag.PARKED if parked else flags & ~Flag.PARKED
    assert status_of(column, is_open, decorated) == status_of(column, is_open, flags)


def test_open_and_finished_are_all_statuses_and_share_only_done() -> None:
    assert set(Status) == OPEN_STATUSES | FINISHED
    assert frozenset({Status.DONE}) == OPEN_STATUSES & FINISHED
    assert set(COLUMN_TITLES) == set(ColumnRole)


@given(task=tasks(), now=instants)
def test_nothing_holds_a_task_back_exactly_when_a_claim_may_take_it(task: Task, now: datetime) -> None:
    claimable = (
        task.status is Status.READY and not task.open_blockers and (task.not_before is None or task.not_before <= now)
    )
    assert (not why_not(task, now)) == claimable


@given(task=tasks(), now=instants)
def test_every_reason_is_a_sentence_for_people(task: Task, now: datetime) -> None:
    for reason in why_not(task, now):
        assert reason.text
        assert reason.until is None or reason.until.tzinfo is not None


@pytest.mark.parametrize(
    ("task", "kind", "text"),
    [
        (make_task(status=Status.HELD, hold="#7 is cancelled"), Hindrance.HELD, "#7 is cancelled"),
        (make_task(status=Status.HELD), Hindrance.HELD, "it is held until a human acts"),
        (make_task(status=Status.WORKING, holder="kimi"), Hindrance.LEASED, "kimi has it"),
        (make_task(status=Status.WORKING), Hindrance.LEASED, "it is being worked on without a lease"),
        (make_task(status=Status.WAITING, asked="sam"), Hindrance.ASKED, "it waits for an answer from sam"),
        (make_task(status=Status.WAITING, flags=Flag.NEEDS_INPUT), Hindrance.ASKED, "it waits for an answer"),
        (make_task(status=Status.WAITING), Hindrance.CHILDREN, "it waits for its children to finish"),
        (make_task(status=Status.BACKLOG), Hindrance.STATUS, "it is in the backlog; a human moves it to Ready"),
        (make_task(status=Status.DEAD), Hindrance.STATUS, "it is dead"),
        (make_task(blockers=(3, 4), open_blockers=2), Hindrance.BLOCKERS, "it is blocked by #3, #4"),
        (make_task(open_blockers=2), Hindrance.BLOCKERS, "it is blocked by 2 task(s)"),
        (make_task(not_before=LATER), Hindrance.NOT_BEFORE, "it is not due to start yet"),
        (make_task(not_before=LATER, flags=Flag.PARKED), Hindrance.NOT_BEFORE, "it is parked"),
    ],
)
def test_what_holds_a_task_back_is_named(task: Task, kind: Hindrance, text: str) -> None:
    first = why_not(task, NOW)[0]
    assert (first.kind, first.text) == (kind, text)


def test_a_lease_and_a_start_say_until_when() -> None:
    leased = make_task(status=Status.WORKING, holder="kimi", lease_until=LATER)
    assert why_not(leased, NOW)[0].until == LATER
    assert why_not(make_task(not_before=LATER), NOW)[0].until == LATER


def test_a_task_may_start_at_the_very_instant() -> None:
    assert why_not(make_task(not_before=NOW), NOW) == []


def test_every_flag_is_one_tag_and_back() -> None:
    for bits in ALL_FLAGS:
        again = Flag.NONE
        for tag in bits.tags:
            again |= FLAG_OF_TAG[tag]
        assert again == bits


@pytest.mark.parametrize("tag", [*FLAG_OF_TAG, "Blocked", " veto ", "tier:large", "Trust:human"])
def test_a_tag_that_a_rule_uses_is_reserved_however_it_is_written(tag: str) -> None:
    assert is_reserved(tag)


@pytest.mark.parametrize("tag", ["", "urgent", "blocked-by-rain", "tier", "my tier:x", "vetoed"])
def test_a_persons_tag_is_not_reserved(tag: str) -> None:
    assert not is_reserved(tag)


@pytest.mark.parametrize(
    ("status", "flags", "claimed_before", "state"),
    [
        ("backlog", Flag.NONE, False, A2AState.SUBMITTED),
        ("held", Flag.BLOCKED, True, A2AState.SUBMITTED),
        ("ready", Flag.NONE, False, A2AState.SUBMITTED),
        ("ready", Flag.PARKED, True, A2AState.WORKING),
        ("working", Flag.NONE, True, A2AState.WORKING),
        ("waiting", Flag.BLOCKED | Flag.NEEDS_INPUT, True, A2AState.INPUT_REQUIRED),
        ("waiting", Flag.BLOCKED | Flag.NEEDS_AUTH, True, A2AState.AUTH_REQUIRED),
        ("waiting", Flag.BLOCKED, True, A2AState.WORKING),
        ("done", Flag.NONE, True, A2AState.COMPLETED),
        ("verified", Flag.NONE, True, A2AState.COMPLETED),
        ("dead", Flag.DEAD_LETTER, True, A2AState.FAILED),
        ("cancelled", Flag.CANCELLED, False, A2AState.CANCELED),
        ("rejected", Flag.REJECTED, False, A2AState.REJECTED),
        ("record", Flag.A2A_MESSAGE, False, None),
    ],
)
def test_each_status_has_its_a2a_state(status: str, flags: Flag, claimed_before: bool, state: A2AState | None) -> None:
    assert a2a_state(Status(status), flags, claimed_before=claimed_before) is state


@given(status=st.sampled_from(Status), bits=st.integers(0, 2 * max(Flag) - 1), claimed_before=st.booleans())
def test_only_a_record_has_no_a2a_state(status: Status, bits: int, claimed_before: bool) -> None:
    state = a2a_state(status, Flag(bits), claimed_before=claimed_before)
    assert (state is None) == (status is Status.RECORD)
