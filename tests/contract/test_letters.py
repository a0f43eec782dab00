"""Letters: what pings a person, when, and what becomes of it when a channel does not take it."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator

import pytest

from taskfabric.domain.principal import Kind, Trust
from taskfabric.domain.watch import Matter
from taskfabric.ports.credentials import NewPrincipal
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs
from taskfabric.services.upkeep import KEEPER
from taskfabric.wiring import SYSTEM
from tests.contract.acts import HOUR, NOON, ask, claim, finish, submit, wait_for_children
from tests.contract.household import Household

ALICE = '[alice]\nurls = ["ntfy://host/alice"]\n'


class Channel:
    """In the place of apprise: what it was handed, and whether it takes it."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, str]] = []
        self.works = True
        self.refuses: set[str] = set()
        outer = self

        class Apprise:
            def add(self, servers: str) -> bool:
                self.url = servers
                return True

            def notify(self, body: str, title: str = "") -> bool:
                takes = outer.works and self.url not in outer.refuses
                if takes:
                    outer.taken.append((self.url, title))
                return takes

        self.module = types.ModuleType("apprise")
        self.module.Apprise = Apprise  # type: ignore[attr-defined]

    @property
    def titles(self) -> list[str]:
        return [title for _, title in self.taken]


@pytest.fixture
def channel(monkeypatch: pytest.MonkeyPatch) -> Channel:
    made = Channel()
    monkeypatch.setitem(sys.modules, "apprise", made.module)
    return made


@pytest.fixture
def reach(noon: Household) -> Iterator[Callable[[str], None]]:
    """Writes notify.toml, and has the post look past what happened before."""
    file = noon.ground.home / "notify.toml"

    def write(text: str) -> None:
        file.write_text(text, encoding="utf-8")
        post(noon)

    yield write
    file.unlink(missing_ok=True)


def post(home: Household) -> tuple[int, int, int]:
    """A round in which everything committed so far is seen."""
    home.caught_up()
    written = sent = failed = 0
    while True:  # a round looks at so many events, and delivers so many letters
        found = home.hallway.post.round()
        written, sent, failed = written + found[0], sent + found[1], failed + found[2]
        if not any(found):
            return written, sent, failed


def test_an_urgent_task_in_an_inbox_pings_and_another_waits_for_the_digest(
    noon: Household, bob: Fabric, channel: Channel, reach: Callable[[str], None]
) -> None:
    reach(ALICE)
    submit(bob, "some day", to="alice")
    urgent = submit(bob, "now", to="alice", priority=3)
    assert post(noon)[:2] == (1, 1)
    assert channel.taken == [("ntfy://host/alice", f"urgent: #{urgent.id} now")]
    assert post(noon) == (0, 0, 0)


def test_a_gate_pings_when_something_begins_to_wait_for_it(
    noon: Household, alice: Fabric, kimi: Fabric, channel: Channel, reach: Callable[[str], None]
) -> None:
    reach(ALICE)
    got = claim(kimi, submit(alice, "parent"))
    gate = noon.in_run("kimi", got).call(verbs.Submit(title="may I?", to="alice")).task
    assert post(noon) == (0, 0, 0)
    wait_for_children(kimi, got)
    post(noon)
    assert channel.titles == [f"others wait for #{gate.id} may I?"]


def test_a_blocker_in_an_inbox_pings_when_it_begins_to_block(
    noon: Household, alice: Fabric, bob: Fabric, channel: Channel, reach: Callable[[str], None]
) -> None:
    reach('[bob]\nurls = ["ntfy://host/bob"]\n')
    gate = submit(alice, "sign it", to="bob")
    submit(alice, "send it", after=(gate.id,))
    post(noon)
    assert channel.titles == [f"others wait for #{gate.id} sign it"]


def test_a_question_pings_whom_it_is_put_to(
    noon: Household, alice: Fabric, kimi: Fabric, channel: Channel, reach: Callable[[str], None]
) -> None:
    reach(ALICE)
    task = submit(alice, "colours")
    ask(kimi, claim(kimi, task))
    post(noon)
    assert channel.titles == [f"a question in #{task.id} colours"]


def test_nobody_is_pinged_by_what_he_did_himself(
    noon: Household, alice: Fabric, channel: Channel, reach: Callable[[str], None]
) -> None:
    reach(ALICE)
    submit(alice, "mine", to="alice", priority=3)
    assert post(noon) == (0, 0, 0)


def test_what_the_keeper_tells_pings(
    noon: Household, bob: Fabric, channel: Channel, reach: Callable[[str], None]
) -> None:
    noon.credentials.add_principal(NewPrincipal(name=KEEPER, kind=Kind.SERVICE, trust=Trust.TRUSTED), SYSTEM)
    reach(ALICE)
    task = submit(bob, "late", to="alice", due=NOON + HOUR)
    noon.later(hours=2)
    keeper = noon.fabric_as(KEEPER)
    (concern,) = keeper.call(verbs.Watch(matter=Matter.OVERDUE))
    tell = verbs.Tell(matter=Matter.OVERDUE, task=task.id, occasion=concern.occasion, level=0)
    assert [keeper.call(tell), keeper.call(tell)] == [True, False]
    post(noon)
    assert channel.titles == [f"overdue: #{task.id} late"]


def test_in_quiet_hours_a_letter_waits_for_their_end(
    noon: Household, alice: Fabric, bob: Fabric, channel: Channel, reach: Callable[[str], None]
) -> None:
    reach(ALICE + 'quiet = "11:00-14:00"\n')
    submit(bob, "now", to="alice", priority=3)
    assert post(noon)[:2] == (1, 0)
    (letter,) = alice.call(verbs.Letters())
    assert (letter["state"], letter["due"]) == ("pending", "2026-11-30T14:00:00Z")
    noon.later(hours=2)
    assert post(noon)[1] == 1
    assert alice.call(verbs.Letters())[0]["state"] == "sent"


def test_a_channel_that_does_not_take_it_is_a_visible_state_and_is_tried_again(
    noon: Household, alice: Fabric, bob: Fabric, channel: Channel, reach: Callable[[str], None]
) -> None:
    reach(ALICE)
    channel.works = False
    submit(bob, "now", to="alice", priority=3)
    assert post(noon) == (1, 0, 1)
    (letter,) = alice.call(verbs.Letters())
    assert (letter["state"], letter["attempts"]) == ("pending", 1)
    assert "did not take it" in letter["error"]
    assert "ntfy" not in letter["error"], "an address holds secrets"
    assert post(noon) == (0, 0, 0), "not before its rest is over"
    channel.works = True
    noon.later(minutes=2)
    assert post(noon) == (0, 1, 0)
    assert alice.call(verbs.Letters())[0]["state"] == "sent"


def test_it_is_given_up_at_last_and_stays_visible(
    noon: Household, alice: Fabric, bob: Fabric, channel: Channel, reach: Callable[[str], None]
) -> None:
    reach(ALICE)
    channel.works = False
    submit(bob, "now", to="alice", priority=3)
    tries = 0
    for _ in range(40):
        tries += post(noon)[2]
        noon.later(hours=1)
    assert tries == 24
    assert alice.call(verbs.Letters())[0]["state"] == "failed"


def test_without_apprise_letters_wait_and_say_what_is_missing(
    noon: Household, alice: Fabric, bob: Fabric, monkeypatch: pytest.MonkeyPatch, reach: Callable[[str], None]
) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    reach(ALICE)
    submit(bob, "now", to="alice", priority=3)
    assert post(noon)[2] == 1
    assert "not installed" in alice.call(verbs.Letters())[0]["error"]


def test_letters_are_read_by_whom_they_are_for(
    noon: Household, bob: Fabric, kimi: Fabric, channel: Channel, reach: Callable[[str], None]
) -> None:
    """G13"""
    reach(ALICE)
    submit(bob, "now", to="alice", priority=3)
    post(noon)
    assert bob.call(verbs.Letters()) == []
    assert kimi.call(verbs.Letters()) == []


def test_a_broken_notify_file_leaves_the_last_good_one_in_force(
    noon: Household, bob: Fabric, channel: Channel, reach: Callable[[str], None]
) -> None:
    reach(ALICE)
    submit(bob, "now", to="alice", priority=3)
    post(noon)
    reach("[alice\n")
    submit(bob, "and this", to="alice", priority=3)
    post(noon)
    assert len(channel.taken) == 2


def test_two_servers_deliver_each_letter_once(
    noon: Household, bob: Fabric, channel: Channel, reach: Callable[[str], None]
) -> None:
    reach(ALICE)
    for number in range(5):
        submit(bob, str(number), to="alice", priority=3)
    noon.caught_up()
    noon.hallway.post.round()
    noon.hallway.post.round()
    assert len(channel.taken) == 5


def test_the_end_of_a_task_is_told_to_whom_asked_for_that(
    noon: Household, alice: Fabric, kimi: Fabric, channel: Channel, reach: Callable[[str], None]
) -> None:
    reach(ALICE)
    told, silent = submit(alice, "told", notify=True), submit(alice, "silent")
    assert "notify" in told.tags
    for task in (told, silent):
        finish(kimi, claim(kimi, task))
    assert post(noon)[:2] == (1, 1)
    assert channel.titles == [f"it has ended: #{told.id} told"]


def test_what_an_agent_asks_to_be_told_is_told_to_its_human(
    noon: Household, alice: Fabric, kimi: Fabric, channel: Channel, reach: Callable[[str], None]
) -> None:
    reach(ALICE)
    task = submit(kimi, "a chore", to="kimi", notify=True)
    finish(kimi, claim(kimi, task))
    post(noon)
    assert channel.titles == [f"it has ended: #{task.id} a chore"]
