"""The task in JSON: what every surface shows, and reads back."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, fields, replace

import pytest
from hypothesis import given

from taskfabric.domain.principal import Trust
from taskfabric.domain.queue import Queue, QueueKind
from taskfabric.domain.status import Flag
from taskfabric.domain.task import Task, instant, new_task
from tests.unit.making import LATER, make_task, tasks

# Ids of accounts and the lease's length are the server's own: they stay in the row.
NOT_SHOWN = {"submitter_id", "holder_id", "producer_id", "lease_length"}
CONTRACTED = {
    *("ref", "id", "queue", "title", "status", "holder", "epoch", "lease_until", "attempts", "priority", "score"),
    *("tier", "needs", "due", "not_before", "parent", "blockers", "submitter", "key", "created", "verdict", "note"),
    "updated_at",
}


@given(task=tasks())
def test_a_task_is_the_same_after_a_trip_over_the_wire(task: Task) -> None:
    assert Task.from_json(json.loads(json.dumps(task.to_json()))) == task


def test_the_shape_carries_every_field_but_the_servers_own() -> None:
    named = {f.name for f in fields(Task)} - NOT_SHOWN - {"is_open", "flags"}
    assert named <= set(make_task().to_json())


def test_the_contracted_keys_are_always_there() -> None:
    assert set(make_task().to_json()) >= CONTRACTED


def test_the_ref_is_the_number_unless_a_lease_is_named() -> None:
    assert make_task().to_json()["ref"] == "12"
    assert make_task().to_json(ref="12@3")["ref"] == "12@3"


def test_instants_are_written_in_utc_with_a_z() -> None:
    shape = make_task(due=LATER).to_json()
    assert shape["due"] == "2026-11-30T17:10:00Z"
    assert instant(shape["due"]) == LATER
    assert instant(None) is None


def test_the_card_shows_peoples_tags_first_and_then_the_reserved_ones() -> None:
    task = make_task(tags=("urgent",), flags=Flag.PARKED, needs=("tools",), tier="large", required_trust=Trust.TRUSTED)
    assert task.all_tags == ("urgent", "parked", "needs:tools", "tier:large", "trust:trusted")


def test_a_queue_is_the_same_after_a_trip_over_the_wire() -> None:
    queue = Queue(
        project_id=3, name="kimi", kind=QueueKind.AGENT, owner="kimi", unmapped=("done",), counts={"ready": 2}
    )
    assert Queue.from_json(json.loads(json.dumps(queue.to_json()))) == queue


def test_a_task_cannot_be_changed_in_passing() -> None:
    with pytest.raises(FrozenInstanceError):
        make_task().title = "another"  # type: ignore[misc] # the assignment is what is tested


def test_a_task_made_quickly_is_a_task_like_any_other() -> None:
    plain = make_task(title="a", epoch=3)
    quick = new_task(**{item.name: getattr(plain, item.name) for item in fields(Task)})
    assert (type(quick), quick, hash(quick)) == (Task, plain, hash(plain))
    with pytest.raises(FrozenInstanceError):
        quick.title = "b"  # type: ignore[misc]
    with pytest.raises(TypeError):
        new_task(id=1)  # type: ignore[call-arg]
    assert quick.changed(title="b", epoch=4) == replace(plain, title="b", epoch=4)
