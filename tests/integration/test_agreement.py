"""Where a rule stands twice, in Python and in SQL, the two agree on everything."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskfabric.boards.native.submit import link_state
from taskfabric.domain.dependency import Effect, effect_of
from taskfabric.domain.principal import Trust
from taskfabric.domain.status import FINISHED, ColumnRole, Flag, Status, status_of, why_not
from taskfabric.domain.take_order import Head, first, serves
from taskfabric.domain.tier import TIERS
from tests.integration.conftest import Rig

ONE_DATABASE = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def test_the_status_is_the_same_function_in_sql_and_in_python(rig: Rig) -> None:
    roles = [None, *ColumnRole]
    cases = list(itertools.product(roles, (True, False), range(1024)))
    with rig.database.connection() as conn:
        rows = conn.execute(
            "SELECT fabric_status(r, o, f) FROM unnest(%s::text[], %s::bool[], %s::int[]) WITH ORDINALITY"
            " AS u(r, o, f, n) ORDER BY n",
            (
                [None if r is None else r.value for r, _, _ in cases],
                [o for _, o, _ in cases],
                [f for _, _, f in cases],
            ),
        ).fetchall()
    assert [row[0] for row in rows] == [status_of(r, o, Flag(f)).value for r, o, f in cases]


def test_finished_is_the_same_set_in_sql_and_in_python(rig: Rig) -> None:
    with rig.database.connection() as conn:
        told = {s: conn.execute("SELECT fabric_finished(%s)", (s.value,)).fetchone() for s in Status}
    assert {s for s, row in told.items() if row is not None and row[0]} == FINISHED


@pytest.mark.parametrize("veto", [False, True])
@pytest.mark.parametrize("needs_verified", [False, True])
def test_a_blockers_end_means_the_same_to_the_trigger_as_to_the_domain(
    rig: Rig, veto: bool, needs_verified: bool
) -> None:
    for status in Status:
        if status is Status.RECORD:
            continue
        state = _state_after(rig, status, veto=veto, needs_verified=needs_verified)
        expected = effect_of(status, Flag.VETO if veto else Flag.NONE, needs_verified=needs_verified)
        assert state == {Effect.SATISFY: "satisfied", Effect.BREAK: "broken", Effect.WAIT: "open"}[expected], status


def _state_after(rig: Rig, status: Status, *, veto: bool, needs_verified: bool) -> str:
    blocker = rig.submit("blocker")
    rig.submit("dependent", after=(blocker.id,))
    role, is_open, flags = {
        Status.BACKLOG: ("backlog", True, 0),
        Status.READY: ("ready", True, 0),
        Status.HELD: ("ready", True, 1),
        Status.WORKING: ("working", True, 0),
        Status.WAITING: ("working", True, 3),
        Status.DONE: ("done", True, 0),
        Status.VERIFIED: ("done", False, 0),
        Status.DEAD: ("done", True, 32),
        Status.CANCELLED: ("ready", False, 64),
        Status.REJECTED: ("working", False, 128),
    }[status]
    with rig.database.connection() as conn:
        conn.execute(
            "UPDATE queues SET needs_verified = %s WHERE project_id = %s", (needs_verified, rig.pool.project_id)
        )
        conn.execute(
            "UPDATE tasks SET role = %(r)s, is_active = %(o)s, flags = %(f)s,"
            " status = fabric_status(%(r)s, %(o)s, %(f)s) WHERE id = %(id)s",
            {"r": role, "o": is_open, "f": flags | (16 if veto else 0), "id": blocker.id},
        )
        conn.execute("SELECT fabric_carry_end(%s, 'ready')", (blocker.id,))
        row = conn.execute(
            "SELECT state FROM task_has_links WHERE link_id = 3 AND opposite_task_id = %s", (blocker.id,)
        ).fetchone()
    assert row is not None
    return str(row[0])


def test_a_new_link_starts_in_the_state_that_its_blocker_gives_it() -> None:
    assert link_state(Status.DONE, Flag.NONE, needs_verified=False) == "satisfied"
    assert link_state(Status.DEAD, Flag.NONE, needs_verified=False) == "broken"
    assert link_state(Status.READY, Flag.NONE, needs_verified=False) == "open"


lanes = st.lists(
    st.tuples(
        st.sampled_from((0, 1, 2, 3)),
        st.sampled_from(("", *TIERS)),
        st.sampled_from(((), ("tools",), ("vision",), ("tools", "vision"))),
        st.sampled_from((Trust.UNTRUSTED, Trust.TRUSTED)),
        st.integers(0, 10),  # hours it has waited
    ),
    min_size=1,
    max_size=12,
)


@ONE_DATABASE
@given(
    made=lanes,
    tiers=st.sampled_from((None, ("small",), ("small", "large"))),
    capabilities=st.sampled_from((None, (), ("tools",), ("tools", "vision"))),
    trust=st.sampled_from((Trust.SANDBOXED, Trust.TRUSTED)),
    order=st.permutations((0, 1, 2, 3)),
)
def test_a_claim_takes_the_head_that_the_take_order_names(
    rig: Rig,
    made: list[tuple[int, str, tuple[str, ...], Trust, int]],
    tiers: tuple[str, ...] | None,
    capabilities: tuple[str, ...] | None,
    trust: Trust,
    order: list[int],
) -> None:
    rig.clear()
    now = rig.board.now()
    rig.test_database.clock.set(now)
    heads: dict[tuple[object, ...], Head] = {}
    for n, (priority, tier, needs, required, waited) in enumerate(made):
        task = rig.submit(f"t{n}", priority=priority, tier=tier, needs=needs, required_trust=required)
        since = now - timedelta(hours=waited)
        with rig.database.connection() as conn:
            conn.execute("UPDATE tasks SET ready_since = %s WHERE id = %s", (since, task.id))
        fits = serves(
            tier=tier,
            needs=needs,
            required=required,
            own_queue=False,
            tiers=tiers,
            capabilities=capabilities,
            trust=trust,
        )
        if fits:
            head = Head(task_id=task.id, priority=priority, queue_order=0, rank=n, ready_since=since)
            heads.setdefault((priority, tier, needs, required), head)
    expected = first(heads.values(), order, aging=timedelta(hours=4), now=now)
    got = rig.claim(want=rig.want(tiers=tiers, capabilities=capabilities, trust=trust, order=tuple(order)))
    assert (got and got.task.id) == (expected and expected.task_id)


@ONE_DATABASE
@given(
    hours=st.one_of(st.none(), st.integers(-3, 3)),
    blockers=st.integers(0, 2),
    hold=st.booleans(),
    backlog=st.booleans(),
)
def test_a_task_can_be_claimed_exactly_when_nothing_hinders_it(
    rig: Rig, hours: int | None, blockers: int, hold: bool, backlog: bool
) -> None:
    rig.clear()
    now: datetime = rig.board.now()
    rig.test_database.clock.set(now)
    parked = [rig.submit("blocker", backlog=True) for _ in range(blockers)]
    task = rig.submit(
        "it",
        not_before=None if hours is None else now + timedelta(hours=hours),
        after=tuple(b.id for b in parked),
        hold="it waits" if hold else None,
        backlog=backlog,
    )
    hindered = why_not(rig.task(task.id), now)
    assert (rig.claim() is None) == bool(hindered), hindered
