"""Letters about approvals: stored first, told after; reminders at marks of the time; quiet hours, except for secure."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs
from tests.contract.acts import HOUR, NOON, said
from tests.contract.approving import approve, asked, asks, at_the_door, keeper_of, with_pin
from tests.contract.household import Household
from tests.contract.test_letters import ALICE, Channel, channel, post, reach

__all__ = ["channel", "reach"]  # fixtures


def tend(home: Household) -> dict[str, int]:
    counts: dict[str, int] = keeper_of(home).call(verbs.Tend())
    return counts


def test_who_may_decide_gets_one_letter_that_says_what_and_until_when(
    noon: Household, channel: Channel, reach: Callable[[str], None]
) -> None:
    reach(ALICE)
    _, approval = asked(noon)
    post(noon)
    assert channel.titles == ["kimi asks: mail.send"]
    (letter,) = noon.ground.rows("SELECT body FROM outbox")
    assert "bank@example.org" in letter[0]
    assert f"fabric approve {approval['task']}" in letter[0]
    assert "expires: then nothing is done" in letter[0]


def test_whose_pin_is_forgotten_has_a_letter_that_says_by_whom(
    noon: Household, channel: Channel, reach: Callable[[str], None]
) -> None:
    reach(ALICE.replace("alice", "bob"))
    with_pin(noon, "bob")
    at_the_door(noon).call(verbs.ResetUser(name="bob", forget_pin=True))
    (before,) = noon.ground.rows("SELECT body FROM outbox")
    assert (noon.ground.home / "codes" / "bob.txt").read_text().strip() in before[0]
    post(noon)
    assert channel.titles == ["alice has forgotten your PIN"]
    assert noon.ground.rows("SELECT body FROM outbox") == [("",)], "its code is kept no longer"


def test_asking_again_writes_no_second_letter(
    noon: Household, kimi: Fabric, channel: Channel, reach: Callable[[str], None]
) -> None:
    reach(ALICE)
    asks(kimi)
    asks(kimi)
    post(noon)
    assert channel.titles == ["kimi asks: mail.send"]


def test_reminders_come_at_a_quarter_half_and_nine_tenths_each_once(
    noon: Household, channel: Channel, reach: Callable[[str], None]
) -> None:
    """G10: and decide nothing."""
    reach(ALICE)
    asked(noon)
    reminded = []
    for hours in range(48):
        noon.at(NOON + hours * HOUR)
        if tend(noon)["reminded"]:
            reminded.append(hours)
        assert tend(noon)["reminded"] == 0
    assert reminded == [12, 24, 44]
    post(noon)
    assert channel.titles == ["kimi asks: mail.send", *["still undecided: mail.send"] * 3]


def test_expiry_is_told_as_expiry(
    noon: Household, alice: Fabric, channel: Channel, reach: Callable[[str], None]
) -> None:
    reach(ALICE)
    task, _ = asked(noon)
    noon.later(days=2)
    assert tend(noon)["expired"] == 1
    assert tend(noon)["expired"] == 0
    post(noon)
    assert channel.titles[-1] == "expired, undecided: mail.send"
    assert any("nobody decided" in text for text in said(alice, task, ""))


@pytest.mark.parametrize(("action", "due"), [("mail.send", NOON + HOUR), ("pay.invoice", NOON)])
def test_quiet_hours_hold_a_letter_back_except_for_what_is_secure(
    noon: Household, alice: Fabric, channel: Channel, reach: Callable[[str], None], action: str, due: object
) -> None:
    reach(ALICE)
    alice.call(verbs.SetMe(quiet_begin="11:30", quiet_end="13:00"))
    asked(noon, action=action)
    assert noon.ground.rows("SELECT due FROM outbox") == [(due,)]


def test_who_decides_in_another_s_place_is_told_too(
    noon: Household, alice: Fabric, channel: Channel, reach: Callable[[str], None]
) -> None:
    reach(ALICE + '[bob]\nurls = ["ntfy://host/bob"]\n')
    alice.call(verbs.Vacation(until=NOON + HOUR, to="bob"))
    asked(noon)
    post(noon)
    assert sorted(url for url, _ in channel.taken) == ["ntfy://host/alice", "ntfy://host/bob"]


def test_nobody_else_is_told(noon: Household, channel: Channel, reach: Callable[[str], None]) -> None:
    """G13"""
    reach(ALICE + '[bob]\nurls = ["ntfy://host/bob"]\n')
    _, approval = asked(noon)
    approve(at_the_door(noon), approval)
    noon.later(days=2)
    tend(noon)
    post(noon)
    assert {url for url, _ in channel.taken} == {"ntfy://host/alice"}
