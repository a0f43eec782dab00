"""The fleet over both ways in: cards, a(t), the roster, quotas, pauses and the output of runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, Literal

import pytest

from taskfabric.domain.card_file import read_card
from taskfabric.domain.errors import BadInput, LeaseLost, NotFound, Refused
from taskfabric.domain.limit import Confidence, LimitClass
from taskfabric.domain.principal import Trust
from taskfabric.domain.status import Hindrance
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs
from taskfabric.services.desk import Rules
from taskfabric.services.fleet_verbs import LearnedArg
from tests.contract.acts import NOON, claim, fence, finish, look, submit
from tests.contract.household import Household

HOUR = timedelta(hours=1)
Put = Callable[..., None]
Pieces = tuple[tuple[int, Literal["out", "err", "trace"], str], ...]


@pytest.fixture
def put(noon: Household) -> Iterator[Put]:
    """Write a card file into the fabric's home. It counts from the next ``fresh`` hallway on."""
    folder = noon.ground.home / "cards"

    def write(name: str, text: str) -> None:
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")

    yield write
    shutil.rmtree(folder, ignore_errors=True)


def card(account: str = "acme", *, limit: int = 10, more: str = "", windows: bool = True) -> str:
    window = f'[[windows]]\nname = "five_hour"\nlength = "5h"\nlimit = {limit}\n' if windows else ""
    return (
        f'kind = "command"\ndescription = "d"\ntiers = ["small", "large"]\naccount = "{account}"\n{more}\n'
        f'[command]\nargv = ["cat"]\n{window}'
    )


@pytest.fixture
def cards(noon: Household, put: Put) -> Iterator[None]:
    """kimi and qwen have cards on one account, ten runs in five hours."""
    put("kimi", card())
    put("qwen", card())
    with noon.ruled_by(Rules()):
        yield


def report(fabric: Fabric, instance: str = "a@box", state: Any = "idle", **more: Any) -> dict[str, Any]:
    return fabric.call(verbs.Report(instance=instance, state=state, **more))


def limited(fabric: Fabric, cls: LimitClass = LimitClass.EXHAUSTED, **more: Any) -> dict[str, Any]:
    return fabric.call(verbs.Limited(limit=verbs.LimitArg(cls=cls, window="five_hour", **more)))


def known(hours: float) -> dict[str, Any]:
    return {"reset": NOON + timedelta(hours=hours), "confidence": Confidence.EXACT, "evidence": "limit reached"}


def row(fabric: Fabric, name: str) -> dict[str, Any]:
    return next(r for r in fabric.call(verbs.Agents()) if r["name"] == name)


# -- cards -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("cards")
def test_a_worker_gets_its_own_card_and_nobody_elses(kimi: Fabric, alice: Fabric) -> None:
    """G13"""
    got = kimi.call(verbs.Card(name="kimi"))
    assert read_card(got["card"], name="kimi").account == "acme"
    assert got["hash"] == report(kimi)["hash"]
    assert alice.call(verbs.Card(name="qwen"))["name"] == "qwen"
    for name in ("qwen", "nobody"):
        with pytest.raises(NotFound, match="no such agent card"):
            kimi.call(verbs.Card(name=name))


def test_an_enabled_card_has_a_principal_and_a_queue_and_others_are_left_alone(
    noon: Household, put: Put, alice: Fabric
) -> None:
    before = noon.credentials.principal("qwen")
    put(
        "newcomer", card(more='trust = "untrusted"\ncapabilities = ["code"]\nconcurrency = 2\nqueues = ["pool", "den"]')
    )
    put("off", card(more="enabled = false"))
    put("alice", card())
    with noon.ruled_by(Rules()):
        alice.call(verbs.Agents())
        found = alice.call(verbs.CheckCards())
    made = noon.credentials.principal("newcomer")
    assert made is not None
    assert (made.trust, made.capabilities, made.concurrency, made.tiers) == (
        Trust.UNTRUSTED,
        ("code", "cost/local", "cost/flat", "cost/metered"),
        2,
        ("small", "large"),
    )
    assert made.owner_id == noon.people["alice"].id
    assert [q.name for q in noon.projects.queues_of(made.id)] == ["newcomer", "pool", "den"]
    assert noon.credentials.principal("off") is None
    assert noon.credentials.principal("qwen") == before
    assert ("alice", "fail") in [(f["card"], f["state"]) for f in found]


def test_a_changed_card_changes_its_agent(noon: Household, put: Put, alice: Fabric) -> None:
    for concurrency in (1, 5):
        put("kimi", card(more=f"concurrency = {concurrency}"))
        with noon.ruled_by(Rules()):
            alice.call(verbs.Agents())
        assert {p.name: p.concurrency for p in noon.credentials.principals()}["kimi"] == concurrency
    assert len(noon.events("agent-described")) == 2


def test_a_broken_card_is_on_the_roster_and_in_the_doctor(noon: Household, put: Put, alice: Fabric) -> None:
    put("broken", 'kind = "comand"')
    with noon.ruled_by(Rules()):
        assert "did you mean 'command'" in row(alice, "broken")["problem"]
        checks = [c for c in alice.call(verbs.Doctor()) if c.name == "card"]
        assert [c.state for c in checks] == ["fail"]
        found = alice.call(verbs.CheckCards())
        assert [(f["card"], f["state"]) for f in found if f["state"] == "fail"] == [("broken", "fail")]


# -- the roster --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("cards")
def test_the_roster_says_who_is_open_and_what_its_workers_say(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    submit(alice, to="kimi")
    assert (row(alice, "kimi")["open"], row(alice, "kimi")["why"]) == (False, "no worker runs")
    report(kimi, state="running", running=1)
    shown = row(alice, "kimi")
    assert (shown["open"], shown["running"], shown["queue"]["waiting"]) == (True, 1, 1)
    assert shown["quota"] == [
        {"window": "five_hour", "unit": "runs", "limit": 10, "used": 0, "left": 10, "reset": None}
    ]
    report(kimi, state="closed", reason="the node sleeps")
    assert row(alice, "kimi")["why"] == "the node sleeps"
    noon.later(minutes=5)
    assert (row(alice, "kimi")["why"], row(alice, "kimi")["workers"][0]["state"]) == ("no worker runs", "silent")
    assert "off" not in row(alice, "echo")["why"]
    assert not row(alice, "echo")["open"]


@pytest.mark.usefixtures("cards")
def test_an_agent_sees_only_those_it_knows(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """G13"""
    noon.agent("hermit", pool=False)
    assert [r["name"] for r in kimi.call(verbs.Agents())] == ["kimi", "local", "qwen"]
    assert noon.fabric_as("hermit").call(verbs.Agents()) == []


@pytest.mark.usefixtures("cards")
def test_a_run_neither_reports_nor_reserves_nor_pauses(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    inside = noon.in_run("kimi", claim(kimi, submit(alice, to="kimi")))
    for verb in (
        verbs.Report(instance="x", state="idle"),
        verbs.Reserve(),
        verbs.Limited(limit=verbs.LimitArg(cls=LimitClass.EXHAUSTED)),
        verbs.Pause(name="qwen"),
        verbs.Resume(name="kimi", account=True),
    ):
        with pytest.raises(Refused):
            inside.call(verb)


def test_an_agent_without_a_card_is_told_so(noon: Household) -> None:
    noon.agent("bare")
    bare = noon.fabric_as("bare")
    with pytest.raises(NotFound, match="no agent card for 'bare'"):
        report(bare)


# -- pause -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("cards")
def test_a_pause_holds_until_its_end_or_until_it_is_lifted(
    noon: Household, alice: Fabric, bob: Fabric, kimi: Fabric
) -> None:
    alice.call(verbs.Pause(name="kimi", until=NOON + HOUR, note="quiet"))
    told = report(kimi)
    assert (told["open"], told["until"], told["reason"]) == (False, "2026-11-30T13:00:00Z", "paused by alice: quiet")
    noon.later(hours=1)
    assert report(kimi)["open"]
    alice.call(verbs.Pause(name="kimi"))
    assert (report(kimi)["open"], report(kimi)["until"]) == (False, None)
    assert alice.call(verbs.Resume(name="kimi"))["was_paused"]
    assert report(kimi)["open"]
    with pytest.raises(Refused, match="does not answer to you"):
        bob.call(verbs.Pause(name="kimi"))
    with pytest.raises(Refused):
        kimi.call(verbs.Pause(name="kimi"))
    with pytest.raises(BadInput, match="past"):
        alice.call(verbs.Pause(name="kimi", until=NOON))
    with pytest.raises(NotFound):
        alice.call(verbs.Pause(name="nobody"))


# -- the quota wall ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("cards")
def test_a_spent_quota_closes_the_account_for_every_card_on_it_and_opens_by_itself(
    noon: Household, alice: Fabric, kimi: Fabric, qwen: Fabric
) -> None:
    task = submit(alice)
    assert report(kimi)["open"]
    assert report(qwen)["open"]
    assert alice.call(verbs.Why(task=task.id)).first is None
    told = limited(kimi, **known(3))
    assert told["closed"]
    assert report(kimi)["until"] == report(qwen)["until"] == told["until"]
    until = datetime.fromisoformat(told["until"])
    assert timedelta(seconds=30) <= until - (NOON + 3 * HOUR) <= timedelta(seconds=120)
    assert look(alice, task).not_before is None  # what waits is not touched
    why = alice.call(verbs.Why(task=task.id))
    assert why.claimable
    assert why.first is not None
    assert why.first.kind is Hindrance.CLOSED
    assert "five_hour quota of account acme is spent" in why.first.text
    assert why.first.until == until
    noon.at(until)
    assert report(kimi)["open"]
    assert report(qwen)["open"]
    assert alice.call(verbs.Why(task=task.id)).first is None
    assert len(noon.events("account-closed")) == 1


def test_of_a_pool_whose_one_agent_is_closed_another_may_still_take(
    noon: Household, put: Put, alice: Fabric, kimi: Fabric
) -> None:
    task = submit(alice)
    put("kimi", card())
    put("qwen", card("other"))
    with noon.ruled_by(Rules()):
        limited(kimi, **known(3))
        report(kimi)
        report(noon.fabric_as("qwen"))
        assert alice.call(verbs.Why(task=task.id)).first is None


@pytest.mark.usefixtures("cards")
def test_an_unknown_reset_is_tried_by_one_worker_that_has_work(
    noon: Household, alice: Fabric, kimi: Fabric, qwen: Fabric
) -> None:
    until = limited(kimi)["until"]
    assert until == "2026-11-30T12:15:00Z"
    noon.later(minutes=15)
    assert not report(qwen, "q@box")["open"]  # nothing to run, so nothing to try with
    submit(alice)
    tries = report(qwen, "q@box")
    assert (tries["open"], tries["probe"]) == (True, True)
    assert not report(kimi, "k@box")["open"]
    assert not kimi.call(verbs.Reserve(instance="k@box"))["granted"]
    got = qwen.call(verbs.Reserve(instance="q@box"))
    assert got["granted"]
    assert not qwen.call(verbs.Reserve(instance="q@box"))["granted"]  # one try is one run
    qwen.call(verbs.Spent(reservation=got["reservation"]))
    assert report(kimi, "k@box")["open"]
    assert len(noon.events("account-opened")) == 1


@pytest.mark.usefixtures("cards")
def test_a_try_that_fails_doubles_the_wait_and_in_the_end_a_human_is_told_once(
    noon: Household, alice: Fabric, kimi: Fabric
) -> None:
    submit(alice)
    waits = []
    for _ in range(8):
        now = noon.board.now()
        told = limited(kimi)
        waits.append(told["until"])
        noon.later(hours=1)
        assert report(kimi)["open"], now
    assert waits[:3] == ["2026-11-30T12:15:00Z", "2026-11-30T13:30:00Z", "2026-11-30T15:00:00Z"]
    letters = [t for t in alice.call(verbs.List(queue="alice")) if "stays closed" in t.title]
    assert [t.title for t in letters] == ["The account acme stays closed"]


@pytest.mark.usefixtures("cards")
def test_a_human_opens_an_account_at_once(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    limited(kimi, **known(5))
    assert alice.call(verbs.Resume(name="qwen", account=True))["account_opened"]
    assert report(kimi)["open"]


@pytest.mark.usefixtures("cards")
def test_a_run_that_began_before_the_wall_does_not_open_the_account(kimi: Fabric, qwen: Fabric) -> None:
    before = qwen.call(verbs.Reserve())
    limited(kimi, **known(5))
    qwen.call(verbs.Spent(reservation=before["reservation"]))
    assert not report(qwen)["open"]


@pytest.mark.usefixtures("cards")
@pytest.mark.parametrize("cls", [LimitClass.THROTTLE, LimitClass.OVERLOAD])
def test_a_throttle_or_an_overload_keeps_only_this_worker_away(kimi: Fabric, qwen: Fabric, cls: LimitClass) -> None:
    assert not limited(kimi, cls)["closed"]
    assert report(qwen)["open"]


# -- the ledger and the governor -----------------------------------------------------------------------------


@pytest.mark.usefixtures("cards")
def test_background_work_stops_at_the_reserve_and_urgent_work_at_the_limit(
    noon: Household, alice: Fabric, kimi: Fabric, qwen: Fabric
) -> None:
    for fabric in (kimi, qwen) * 4:
        assert fabric.call(verbs.Reserve())["granted"]
    told = report(kimi)
    assert (told["open"], told["background"]) == (True, False)
    refused = kimi.call(verbs.Reserve())
    assert not refused["granted"]
    assert "kept for urgent work" in refused["reason"]
    last = [kimi.call(verbs.Reserve(interactive=True)) for _ in range(3)]
    assert [r["granted"] for r in last] == [True, True, False]
    assert last[2]["until"] == "2026-11-30T17:00:00Z"
    assert not report(kimi)["open"]
    kimi.call(verbs.Spent(reservation=last[1]["reservation"], units=0))  # it came to nothing
    assert kimi.call(verbs.Reserve(interactive=True))["granted"]
    noon.later(hours=5)
    assert kimi.call(verbs.Reserve())["granted"]
    assert row(alice, "qwen")["quota"][0]["used"] == 1


@pytest.mark.usefixtures("cards")
def test_a_reservation_is_settled_once_and_by_its_own_agent(kimi: Fabric, qwen: Fabric) -> None:
    number = kimi.call(verbs.Reserve())["reservation"]
    with pytest.raises(NotFound):
        qwen.call(verbs.Spent(reservation=number))
    kimi.call(verbs.Spent(reservation=number, usage={"total_tokens": 7}))
    with pytest.raises(NotFound):
        kimi.call(verbs.Spent(reservation=number))


def test_a_budget_in_cents_closes_the_card_until_the_month_ends(noon: Household, put: Put, kimi: Fabric) -> None:
    budget = '[[windows]]\nname = "budget"\ncalendar = "month"\nunit = "cents"\nlimit = 500\n'
    put("kimi", card(windows=False) + budget)
    with noon.ruled_by(Rules()):
        number = kimi.call(verbs.Reserve())["reservation"]
        kimi.call(verbs.Spent(reservation=number, usage={"cents": 500}))
        told = report(kimi)
        assert (told["open"], told["until"]) == (False, "2026-12-01T00:00:00Z")


# -- output --------------------------------------------------------------------------------------------------


def test_output_is_kept_in_order_once_and_only_of_the_holder(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    """G2, G13"""
    task = submit(alice)
    got = claim(kimi, task)
    words: Pieces = ((0, "out", "one"), (1, "err", "two"))
    assert kimi.call(verbs.Chunks(fence=fence(got), chunks=words))["written"] == 2
    assert kimi.call(verbs.Chunks(fence=fence(got), chunks=(*words, (2, "out", "three"))))["written"] == 1
    seen = alice.call(verbs.ReadChunks(task=task.id, after=0))
    assert (seen["epoch"], [(c["n"], c["text"]) for c in seen["chunks"]]) == (1, [(1, "two"), (2, "three")])
    finish(kimi, got)
    with pytest.raises(LeaseLost):
        kimi.call(verbs.Chunks(fence=fence(got), chunks=((3, "out", "late"),)))
    with pytest.raises(NotFound):
        noon.fabric_as("bob").call(verbs.ReadChunks(task=submit(alice, to="alice").id))


def test_an_agent_that_called_reads_what_the_run_said_and_not_what_its_program_complained_of(
    kimi: Fabric, qwen: Fabric
) -> None:
    """D4: an exception's words come that way, too."""
    task = submit(qwen)
    got = claim(kimi, task)
    words: Pieces = ((0, "err", "dbpass=hunter2"), (1, "out", "one"), (2, "trace", "dbpass"), (3, "out", "two"))
    kimi.call(verbs.Chunks(fence=fence(got), chunks=words))
    seen = [qwen.call(verbs.ReadChunks(task=task.id, after=after, limit=1))["chunks"] for after in (-1, 1, 3)]
    assert [[c["text"] for c in page] for page in seen] == [["one"], ["two"], []]
    assert len(kimi.call(verbs.ReadChunks(task=task.id))["chunks"]) == 4


def test_another_agent_does_not_write_into_a_run_even_with_its_fence(alice: Fabric, kimi: Fabric, qwen: Fabric) -> None:
    """G2"""
    got = claim(kimi, submit(alice))
    with pytest.raises(LeaseLost):
        qwen.call(verbs.Chunks(fence=fence(got), chunks=((0, "out", "not mine"),)))


@pytest.mark.usefixtures("cards")
def test_what_a_provider_says_of_its_windows_is_on_the_roster_of_every_card_on_the_account(
    alice: Fabric, kimi: Fabric
) -> None:
    reservation = kimi.call(verbs.Reserve())["reservation"]
    window = LearnedArg(window="weekly", used=0.25, amount=100)
    kimi.call(verbs.Spent(reservation=reservation, learned=(window,)))
    for name in ("kimi", "qwen"):
        (told,) = row(alice, name)["learned"]
        assert (told["window"], told["used"], told["limit"]) == ("weekly", 0.25, 100)


def test_a_task_that_may_cost_no_more_than_a_subscription_is_for_those_that_do_not(
    noon: Household, put: Put, alice: Fabric
) -> None:
    put("kimi", card(account="one", more='cost = "metered"\nallow_metered = true'))
    put("qwen", card(account="two", more='cost = "flat"'))
    with noon.ruled_by(Rules()):
        alice.call(verbs.Agents())
        task = submit(alice, to="any:cost=flat")
        assert noon.fabric_as("kimi").call(verbs.Claim()) == []
        claimers = alice.call(verbs.Why(task=task.id)).claimers
        assert "qwen" in claimers
        assert "kimi" not in claimers
        (got,) = noon.fabric_as("qwen").call(verbs.Claim())
        assert got.task.id == task.id


def test_auto_goes_by_the_agents_that_are_there(
    noon: Household, put: Put, alice: Fabric, kimi: Fabric, qwen: Fabric
) -> None:
    put("kimi", card().replace('["small", "large"]', '["large"]'))
    put("qwen", card(account="two").replace('["small", "large"]', '["small"]'))
    with noon.ruled_by(Rules()):
        alice.call(verbs.Agents())
        for fabric in (kimi, qwen):
            assert report(fabric)["open"]
        assert submit(alice, "Refactor the architecture", to="auto").tier == "large"
        alice.call(verbs.Pause(name="kimi"))
        left = submit(alice, "Refactor the architecture", to="auto")
        assert (left.tier, left.needs) == ("", ()), "one is left, so there is nothing to decide"
