"""Submit: where a task goes, and what one key means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskfabric.domain.errors import BadInput, KeyConflict, NotFound
from taskfabric.domain.principal import Trust
from taskfabric.domain.queue import QueueKind
from taskfabric.domain.status import Status
from taskfabric.services import verbs
from taskfabric.services.submit import body_hash
from taskfabric.wiring import SYSTEM
from tests.contract.acts import claim, finish, refused, submit
from tests.contract.household import Household


@pytest.mark.parametrize(
    ("to", "queue"),
    [
        ("pool", "pool"),
        ("auto", "pool"),
        ("any", "pool"),
        ("any:queue=errands", "errands"),
        ("errands", "errands"),
        ("kimi", "kimi"),
        ("bob", "bob"),
        ("me", "alice"),
    ],
)
def test_a_target_means_one_queue(household: Household, to: str, queue: str) -> None:
    household.projects.make_queue("errands", QueueKind.POOL, SYSTEM)
    assert submit(household.fabric_as("alice"), to=to).queue == queue


def test_a_queue_is_found_however_its_name_is_written(household: Household) -> None:
    task = submit(household.fabric_as("alice"))
    assert [got.task.id for got in household.fabric_as("kimi").call(verbs.Claim(queue="Pool"))] == [task.id]


def test_a_principals_own_queue_goes_before_a_queue_of_his_name(household: Household) -> None:
    newcomer = household.agent("newcomer")
    household.projects.make_queue("newcomers-desk", QueueKind.AGENT, SYSTEM, owner_id=newcomer.id)
    assert submit(household.fabric_as("alice"), to="newcomer").queue == "newcomers-desk"


def test_the_stricter_of_target_and_task_counts(household: Household) -> None:
    task = submit(
        household.fabric_as("alice"),
        to="any:tier=medium,needs=tools+vision,trust=sandboxed",
        tier="large",
        needs=("browser", "tools"),
        trust="trusted",
    )
    assert (task.tier, task.needs, task.required_trust) == ("large", ("browser", "tools", "vision"), Trust.TRUSTED)


@pytest.mark.parametrize(("score", "tier"), [(None, ""), (0, ""), (2, "small"), (5, "medium"), (8, "large")])
def test_a_tier_follows_from_the_score(household: Household, score: int | None, tier: str) -> None:
    assert submit(household.fabric_as("alice"), to="auto", score=score).tier == tier


def test_an_unknown_name_is_answered_with_one_that_the_caller_may_use(household: Household) -> None:
    with pytest.raises(NotFound) as caught:
        submit(household.fabric_as("alice"), to="kimo")
    assert "'kimi'" in caught.value.next
    with pytest.raises(NotFound) as caught:
        submit(household.fabric_as("qwen"), to="kimo")
    assert "kimi" not in caught.value.next


@pytest.mark.parametrize("to", ["any:queue=kimi", "any:queue=nothing", "nobody", "fabric"])
def test_what_is_no_target_is_not_found(household: Household, to: str) -> None:
    with pytest.raises(NotFound):
        submit(household.fabric_as("alice"), to=to)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"title": "  "}, "title"),
        ({"title": "x" * 2001}, "title"),
        ({"title": "two\nlines"}, "title"),
        ({"description": "ü" * (2**19 + 1)}, "description"),
        ({"tags": ("",)}, "tags"),
        ({"tags": tuple(str(n) for n in range(51))}, "tags"),
        ({"refs": ("",)}, "refs"),
        ({"refs": tuple(f"task:{n}" for n in range(101))}, "refs"),
        ({"needs": tuple(f"n{n}" for n in range(21))}, "needs"),
        ({"needs": ("Not One",)}, "needs"),
        ({"tier": "huge"}, "tier"),
        ({"trust": "boundless"}, "trust"),
        ({"to": "Not a name"}, "to"),
        ({"due": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))}, "due"),
        ({"not_before": datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=12)))}, "not_before"),
    ],
)
def test_what_cannot_be_a_task_is_said_so_and_leaves_nothing(
    household: Household, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(BadInput) as caught:
        submit(household.fabric_as("alice"), **fields)
    assert caught.value.facts["field"] == field
    assert household.tasks() == 0


@pytest.mark.parametrize("tag", ["blocked", "Needs-Human-Verify", " tier:large", "trust:human", "needs:tools", "VETO"])
def test_a_tag_that_a_rule_uses_is_never_anybodys_to_give(household: Household, tag: str) -> None:
    alice = household.fabric_as("alice")
    task = submit(alice)
    assert refused(alice, verbs.Submit(title="x", tags=(tag,))) == "reserved-tag"
    assert refused(alice, verbs.EditTask(task=task.id, add_tags=(tag,))) == "reserved-tag"
    assert refused(alice, verbs.EditTask(task=task.id, remove_tags=(tag,))) == "reserved-tag"


def test_an_unrated_task_waits_where_the_score_is_checked(household: Household) -> None:
    alice, kimi = household.fabric_as("alice"), household.fabric_as("kimi")
    alice.call(verbs.CreateQueue(name="rated", score_check=True))
    alice.call(verbs.SetMember(queue="rated", name="kimi"))
    task = submit(alice, to="rated")
    assert (task.status, kimi.call(verbs.Claim(queue="rated"))) == (Status.HELD, [])
    rated = alice.call(verbs.EditTask(task=task.id, score=3))
    assert (rated.status, rated.tier, rated.score) == (Status.READY, "medium", 3)
    assert [got.task.id for got in kimi.call(verbs.Claim(queue="rated"))] == [task.id]


def test_a_chosen_tier_stays_when_the_score_changes(household: Household) -> None:
    alice = household.fabric_as("alice")
    chosen, derived = submit(alice, tier="large", score=1), submit(alice, score=1)
    assert alice.call(verbs.EditTask(task=chosen.id, score=5)).tier == "large"
    assert alice.call(verbs.EditTask(task=derived.id, score=5)).tier == "medium"
    assert alice.call(verbs.EditTask(task=chosen.id, tier="")).tier == "medium"


# -- keys (G11) ------------------------------------------------------------------------------------------


def test_the_same_key_and_body_is_the_same_task_also_after_it_is_done(household: Household) -> None:
    """G11"""
    alice, kimi = household.fabric_as("alice"), household.fabric_as("kimi")
    first = alice.call(verbs.Submit(title="once", key="k"))
    finish(kimi, claim(kimi, first.task))
    again = alice.call(verbs.Submit(title="once", key="k"))
    assert (first.created, again.created, again.task.id) == (True, False, first.task.id)
    assert again.task.status is Status.DONE
    assert alice.call(verbs.Submit(title="once", key="k", key_scope="open")).created


def test_the_same_key_for_another_body_is_an_error(household: Household) -> None:
    """G11"""
    alice = household.fabric_as("alice")
    submit(alice, "once", key="k")
    with pytest.raises(KeyConflict):
        submit(alice, "twice", key="k")


def test_another_submitters_key_is_another_key(household: Household) -> None:
    """G11, G13"""
    first = submit(household.fabric_as("alice"), "mine", key="k")
    assert submit(household.fabric_as("bob"), "his", key="k").id != first.id


@given(hours=st.integers(-12, 12))
def test_one_instant_in_two_zones_is_one_body(hours: int) -> None:
    """G11"""
    at = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
    there = at.astimezone(timezone(timedelta(hours=hours)))
    one, other = verbs.Submit(title="x", due=at, key="a"), verbs.Submit(title="x", due=there, key="b", key_scope="open")
    assert body_hash(one) == body_hash(other)


def test_a_body_is_everything_but_the_key() -> None:
    """G11"""
    plain = body_hash(verbs.Submit(title="x"))
    changed: dict[str, Any] = {
        "title": "y",
        "description": "y",
        "to": "kimi",
        "priority": 2,
        "score": 1,
        "tier": "small",
        "needs": ("tools",),
        "trust": "trusted",
        "tags": ("t",),
        "refs": ("task:1",),
        "reference": "r",
        "due": datetime(2026, 11, 30, tzinfo=UTC),
        "not_before": datetime(2026, 11, 30, tzinfo=UTC),
        "parent": 1,
        "after": (1,),
        "backlog": True,
        "human_verify": True,
        "notify": True,
        "label": "private",
    }
    assert set(changed) | {"key", "key_scope"} == set(verbs.Submit.model_fields)
    hashes = [body_hash(verbs.Submit(**{"title": "x", **{name: value}})) for name, value in changed.items()]
    assert len({plain, *hashes}) == len(changed) + 1
