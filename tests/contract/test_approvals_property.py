"""Whatever happens in whatever order, and whoever is first: no yes without a human's act, no use beyond one (G10)."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from taskfabric.domain.approval import YES, Act, State, after
from taskfabric.domain.errors import FabricError
from taskfabric.domain.principal import Via
from taskfabric.domain.status import Status
from taskfabric.domain.task import Task
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs
from taskfabric.services.desk import Rules
from tests.contract.acts import NOON, claim, only_here, status, submit
from tests.contract.approving import MAIL, PIN, Shape, asked, asks, at_the_door, keeper_of, with_pin
from tests.contract.household import Household

EXAMPLES: Final = int(os.environ.get("APPROVAL_EXAMPLES", "25"))
ARGS: Final = (MAIL, {**MAIL, "text": "kindly"}, {**MAIL, "to": "thief@example.org"})
_USED: Final = "SELECT count(*) FROM journal WHERE kind = 'approval-used' AND (data ->> 'approval')::bigint = %s"


def tried(call: Callable[[], Any]) -> Any:
    """What it gives; None when it is refused."""
    try:
        return call()
    except FabricError:
        return None


class Interleaving(RuleBasedStateMachine):
    """One task of kimi's, whose run asks and asks again, while everybody does what he likes."""

    home: Household  # set by the test

    def __init__(self) -> None:
        super().__init__()
        self.yes: dict[int, Shape] = {}  # by approval: the arguments that a human's act allowed
        self.no: set[int] = set()
        self.seen: dict[int, Shape] = {}  # every approval that was ever shown
        self.used: dict[int, int] = {}
        self.lent: dict[int, datetime] = {}  # by approval: until when bob may decide it in alice's place
        self.away: datetime | None = None  # until when he may decide whatever is asked of her
        self.run: Fabric | None = None
        self.task: Task

    @initialize()
    def begin(self) -> None:
        self.home.at(NOON)
        self.home.fabric_as("alice").call(verbs.Vacation(off=True))
        self.task = submit(self.home.fabric_as("alice"), to="kimi")

    # -- the agent -----------------------------------------------------------------------------------

    @rule(number=st.integers(0, 2), again=st.booleans())
    def ask(self, number: int, again: bool) -> None:
        if status(self.home.fabric_as("alice"), self.task) is Status.READY:
            got = tried(lambda: claim(self.home.fabric_as("kimi"), self.task))
            self.run = None if got is None else self.home.in_run("kimi", got)
        run = self.run
        if run is None:
            return
        answer = tried(lambda: asks(run, args=ARGS[number], again=again))
        if answer is not None:
            self.seen[answer["id"]] = answer

    @rule(pick=st.integers(0, 9), number=st.integers(0, 2))
    def use(self, pick: int, number: int) -> None:
        run, approval = self.run, self._one(pick)
        if run is None or approval is None:
            return
        got = tried(lambda: run.call(verbs.Consume(approval=approval["id"], args=ARGS[number])))
        if got is not None:
            assert self.yes[approval["id"]] == ARGS[number]
            self.used[approval["id"]] = self.used.get(approval["id"], 0) + 1
            assert self.used[approval["id"]] == 1

    @rule(pick=st.integers(0, 9), how=st.sampled_from(["kimi", "qwen", "local", "token", "wrong pin", "keeper"]))
    def who_may_not_decide(self, pick: int, how: str) -> None:
        approval = self._one(pick)
        if approval is None:
            return
        who = {
            "local": lambda: self.home.fabric_as("alice", via=Via.LOCAL),
            "token": lambda: self.home.fabric_as("alice"),
            "wrong pin": lambda: self.home.fabric_as("alice"),
            "keeper": lambda: keeper_of(self.home),
        }.get(how, lambda: self.home.fabric_as(how))()
        pin = "000000" if how == "wrong pin" else None
        verb = verbs.Approve(task=approval["task"], seen=approval["hash"], pin=pin)
        assert tried(lambda: who.call(verb)) is None

    # -- the human, at two surfaces -------------------------------------------------------------------------

    @rule(pick=st.integers(0, 9), clicks=st.integers(1, 2), door=st.sampled_from([Via.SESSION, Via.LOCAL]))
    def approve(self, pick: int, clicks: int, door: Via) -> None:
        approval = self._one(pick)
        if approval is None:
            return
        alice = self.home.fabric_as("alice", via=door)
        pin = PIN if door is Via.LOCAL else None
        for _ in range(clicks):
            self._decided(
                tried(lambda: alice.call(verbs.Approve(task=approval["task"], seen=approval["hash"], pin=pin)))
            )

    @rule(pick=st.integers(0, 9))
    def edit(self, pick: int) -> None:
        approval = self._one(pick)
        if approval is None:
            return
        alice = at_the_door(self.home)
        verb = verbs.Approve(task=approval["task"], seen=approval["hash"], args=ARGS[1])
        self._decided(tried(lambda: alice.call(verb)))

    @rule(pick=st.integers(0, 9))
    def approve_what_was_not_shown(self, pick: int) -> None:
        approval = self._one(pick)
        if approval is not None:
            verb = verbs.Approve(task=approval["task"], seen="0" * 64)
            assert tried(lambda: at_the_door(self.home).call(verb)) is None

    @rule(pick=st.integers(0, 9), words=st.sampled_from(["/approve", "/deny no", "/approve please", "approve", "yes"]))
    def comment(self, pick: int, words: str) -> None:
        approval = self._one(pick)
        if approval is None:
            return
        alice = self.home.fabric_as("alice")
        tried(lambda: alice.call(verbs.Comment(task=approval["task"], text=words)))
        if words in ("/approve", "/deny no"):
            for known in self.seen.values():  # of the waiting task it may be a later one
                self._decided(alice.call(verbs.ShowApproval(approval=known["id"])))

    @rule(pick=st.integers(0, 9))
    def deny(self, pick: int) -> None:
        approval = self._one(pick)
        if approval is not None:
            verb = verbs.Deny(task=approval["task"], note="no")
            self._decided(tried(lambda: at_the_door(self.home).call(verb)))

    # -- somebody else in his place ---------------------------------------------------------------------------

    @rule(pick=st.integers(0, 9), hours=st.integers(1, 10))
    def pass_on(self, pick: int, hours: int) -> None:
        approval, until = self._one(pick), self.home.board.now() + timedelta(hours=hours)
        if approval is not None:
            verb = verbs.Delegate(task=approval["task"], to="bob", until=until)
            if tried(lambda: self.home.fabric_as("alice").call(verb)) is not None:
                self.lent[approval["id"]] = max(until, self.lent.get(approval["id"], until))

    @rule(hours=st.integers(0, 10), to=st.sampled_from(["bob", None]))
    def go_away(self, hours: int, to: str | None) -> None:
        """And whoever decided in his place does so no more."""
        until = self.home.board.now() + timedelta(hours=hours)
        verb = verbs.Vacation(until=until, to=to) if hours else verbs.Vacation(off=True)
        self.home.fabric_as("alice").call(verb)
        self.lent, self.away = {}, until if hours and to else None

    @rule(pick=st.integers(0, 9), yes=st.booleans())
    def decide_in_his_place(self, pick: int, yes: bool) -> None:
        approval, bob = self._one(pick), at_the_door(self.home, "bob")
        if approval is None:
            return
        until = max((t for t in (self.lent.get(approval["id"]), self.away) if t is not None), default=NOON)
        verb = verbs.Approve(task=approval["task"], seen=approval["hash"])
        no = verbs.Deny(task=approval["task"], note="no")
        got = tried(lambda: bob.call(verb if yes else no))
        if got is not None:
            assert self.home.board.now() < until
            assert (got["decided_by"], got["for_whom"]) == ("bob", "alice")
            self._decided(got)

    @rule(pick=st.integers(0, 9))
    def withdraw(self, pick: int) -> None:
        approval = self._one(pick)
        if approval is not None:
            tried(lambda: self.home.fabric_as("kimi").call(verbs.Withdraw(approval=approval["id"])))

    # -- by hand ----------------------------------------------------------------------------------------------

    @rule(pick=st.integers(0, 9), column=st.sampled_from(["Ready", "Done", "Backlog"]), gate=st.booleans())
    def move_by_hand(self, pick: int, column: str, gate: bool) -> None:
        approval = self._one(pick)
        ref = self.task.id if approval is None or not gate else approval["task"]
        alice = self.home.fabric_as("alice")
        tried(lambda: alice.call(verbs.Move(task=ref, column=column)))

    @rule()
    def answer(self) -> None:
        tried(lambda: self.home.fabric_as("alice").call(verbs.Answer(task=self.task.id, note="go on")))

    # -- time and faults ------------------------------------------------------------------------------------

    @rule(hours=st.integers(1, 30))
    def time_goes_on(self, hours: int) -> None:
        self.home.later(hours=hours)

    @rule()
    def the_keeper_has_a_round(self) -> None:
        keeper_of(self.home).call(verbs.Tend())

    @rule()
    def the_server_starts_anew(self) -> None:
        self.home.hallway = self.home._hallway(Rules())

    @rule()
    def a_crash_leaves_it_half_told(self) -> None:
        self.home.ground.rows("UPDATE approvals SET is_told = false WHERE state <> 'pending' RETURNING id")

    # -- what always holds ------------------------------------------------------------------------------------

    @invariant()
    def nothing_was_granted_without_a_human_nor_used_twice(self) -> None:
        for number in self.seen:
            state, by, decided, consumed = self.home.ground.rows(
                "SELECT state, decided_by, decided_args, consumed_at FROM approvals WHERE id = %s", number
            )[0]
            assert (State(state) in YES) == (number in self.yes)
            assert (state == "denied") == (number in self.no)
            assert (by is not None) == (number in self.yes or number in self.no)
            assert (decided is not None) == (number in self.yes)
            assert (consumed is not None) == (self.used.get(number, 0) == 1)
            assert self.home.ground.rows(_USED, number) == [(self.used.get(number, 0),)]

    def _one(self, pick: int) -> Shape | None:
        return None if not self.seen else self.seen[sorted(self.seen)[-1 - pick % len(self.seen)]]

    def _decided(self, got: Shape | None) -> None:
        if got is None or got["decided_by"] is None:
            return
        assert got["decided_by"] == "alice" or (got["decided_by"], got["for_whom"]) == ("bob", "alice")
        if got["state"] == "denied":
            assert got["id"] not in self.yes
            self.no.add(got["id"])
        else:
            assert got["id"] not in self.no
            assert self.yes.setdefault(got["id"], got["decided_args"]) == got["decided_args"]


@only_here
def test_no_interleaving_grants_without_a_human_or_lets_a_yes_be_used_twice(household: Household) -> None:
    """G10"""
    with_pin(household)
    Interleaving.home = household
    run_state_machine_as_test(
        Interleaving,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_only_what_is_pending_moves_and_only_a_human_s_act_is_a_yes() -> None:
    """G10"""
    for state, act in itertools.product(State, Act):
        assert (after(state, act) is None) == (state is not State.PENDING)
    yes = {act for act in Act if after(State.PENDING, act) in YES}
    assert yes == {Act.APPROVE, Act.EDIT}


# -- at the same moment ------------------------------------------------------------------------------------------


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """What each gives, begun together; None for a refusal."""
    gate = threading.Barrier(len(calls))
    found: list[Any] = [None] * len(calls)

    def go(place: int, call: Callable[[], Any]) -> None:
        gate.wait()
        found[place] = tried(call)

    threads = [threading.Thread(target=go, args=pair) for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@only_here
def test_of_all_who_decide_at_once_one_is_heard(household: Household) -> None:
    """G10: two surfaces and a keeper."""
    home = household
    home.at(NOON)
    alice, keeper = at_the_door(home), keeper_of(home)
    for _ in range(8):
        _, approval = asked(home)
        yes = verbs.Approve(task=approval["task"], seen=approval["hash"])
        other = verbs.Approve(task=approval["task"], seen=approval["hash"], args=ARGS[1])
        no = verbs.Deny(task=approval["task"], note="no")
        got = at_once(
            lambda yes=yes: alice.call(yes),  # type: ignore[misc]
            lambda other=other: alice.call(other),  # type: ignore[misc]
            lambda no=no: alice.call(no),  # type: ignore[misc]
            lambda yes=yes: alice.call(yes),  # type: ignore[misc]
            lambda: keeper.call(verbs.Tend()),
        )
        (heard,) = [one for one in got[:4] if one is not None]
        row = home.ground.rows("SELECT state FROM approvals WHERE id = %s", approval["id"])
        assert row == [(heard["state"],)]


@only_here
def test_of_all_who_use_it_at_once_one_may(household: Household) -> None:
    """G10: at most one execution."""
    home = household
    home.at(NOON)
    for _ in range(4):
        task, approval = asked(home)
        at_the_door(home).call(verbs.Approve(task=approval["task"], seen=approval["hash"]))
        run = home.in_run("kimi", claim(home.fabric_as("kimi"), task))
        verb = verbs.Consume(approval=approval["id"], args=MAIL)
        got = at_once(*[lambda verb=verb, run=run: run.call(verb)] * 6)
        assert sum(one is not None for one in got) == 1


@only_here
def test_a_grant_that_is_revoked_counts_before_or_after_and_never_in_between(household: Household) -> None:
    """G10"""
    home = household
    home.at(NOON)
    alice, kimi = at_the_door(home), home.fabric_as("kimi")
    for number in range(6):
        made = alice.call(verbs.MakeGrant(agent="kimi", action="mail.send"))
        args = {**MAIL, "text": str(number)}
        at_once(lambda made=made: alice.call(verbs.RevokeGrant(id=made["id"])), lambda args=args: asks(kimi, args=args))  # type: ignore[misc]
        assert not asks(kimi, args={**args, "text": f"{number} later"})["allowed"]
        home.later(seconds=timedelta(seconds=1).seconds)
