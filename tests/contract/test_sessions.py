"""Browser sessions: opaque, hashed, revocable; proven by the PIN, and then under another secret."""

from __future__ import annotations

from typing import Any

import pytest

from taskfabric.domain.errors import NeedsHuman, NotAuthenticated, Refused
from taskfabric.domain.principal import Via
from taskfabric.ports.fabric import Fabric, Verb
from taskfabric.ports.sessions import Signed
from taskfabric.services import verbs
from taskfabric.services.sessions import SignIn
from taskfabric.wiring import SYSTEM
from tests.contract.acts import HOUR, NOON, claim, only_here, refused, submit
from tests.contract.approving import PIN, approve, asked, asks, at_the_door, stands, with_pin
from tests.contract.household import Household

pytestmark = only_here


@pytest.fixture
def door(noon: Household) -> SignIn:
    return noon.hallway.sessions


def token_of(home: Household, name: str, via: Via = Via.LOCAL) -> str:
    token, _ = home.credentials.create_token(home.people[name].id, name="x", via=via, stamp=SYSTEM)
    return token


@pytest.fixture
def signed(noon: Household, door: SignIn) -> Signed:
    """alice has signed in with the token of her machine."""
    return door.sign_in(token_of(noon, "alice"), "Firefox on a phone")


def link(home: Household, name: str = "alice") -> str:
    return home.hallway.sessions.link_of_the_house(home.people[name], SYSTEM)


def via_of(door: SignIn, signed: Signed) -> Via:
    admitted = door.caller(signed.secret)
    assert admitted is not None
    return admitted.caller.via


def test_a_token_signs_in_and_the_session_may_do_all_but_decide(noon: Household, door: SignIn, signed: Signed) -> None:
    admitted = door.caller(signed.secret)
    assert admitted is not None
    assert (admitted.caller.principal.name, admitted.caller.may_decide) == ("alice", False)
    fabric = noon.hallway.for_caller(admitted.caller)
    _, approval = asked(noon)
    with pytest.raises(NeedsHuman):
        fabric.call(verbs.Approve(task=approval["task"], seen=approval["hash"]))


def test_the_secret_is_nowhere_in_the_database(noon: Household, signed: Signed) -> None:
    rows = noon.ground.rows("SELECT s::text FROM sessions s") + noon.ground.rows("SELECT j::text FROM journal j")
    assert all(signed.secret not in row[0] and signed.csrf not in row[0] for row in rows)


def test_the_pin_proves_it_under_another_secret_and_the_first_is_worth_nothing(
    noon: Household, door: SignIn, signed: Signed
) -> None:
    with_pin(noon)
    proven = door.prove(signed.secret, PIN)
    assert proven.secret != signed.secret
    assert door.caller(signed.secret) is None
    assert via_of(door, proven) is Via.SESSION


def test_a_wrong_pin_proves_nothing_and_five_lock_it(noon: Household, door: SignIn, signed: Signed) -> None:
    with_pin(noon)
    rules = []
    for pin in ["000000"] * 5 + [PIN]:
        with pytest.raises(Refused) as caught:
            door.prove(signed.secret, pin)
        rules.append(caught.value.facts["rule"])
    assert rules == ["pin"] * 5 + ["pin-locked"]
    assert via_of(door, signed) is Via.LOCAL


def test_a_link_signs_in_once(noon: Household, door: SignIn) -> None:
    secret = link(noon)
    assert via_of(door, door.by_link(secret, "Firefox")) is Via.SESSION
    with pytest.raises(NotAuthenticated) as used:
        door.by_link(secret, "Firefox")
    with pytest.raises(NotAuthenticated) as wrong:
        door.by_link("x" * 43, "Firefox")
    assert used.value.to_json() == wrong.value.to_json()


def test_a_link_is_worth_a_quarter_of_an_hour(noon: Household, door: SignIn) -> None:
    secret = link(noon)
    noon.later(minutes=15)
    with pytest.raises(NotAuthenticated):
        door.by_link(secret, "Firefox")


def test_a_link_that_somebody_else_made_decides_nothing_for_who_has_a_pin(noon: Household, door: SignIn) -> None:
    """Whoever can start the server on the machine is not yet its owner."""
    with_pin(noon)
    assert via_of(door, door.by_link(link(noon), "Firefox")) is Via.LOCAL


def test_only_humans_sign_in_and_no_run_and_no_limited_token(noon: Household, door: SignIn, alice: Fabric) -> None:
    in_run = alice.call(verbs.RunToken(fence=verbs.FenceArg.of(claim(alice, submit(alice, to="alice")).fence)))["token"]
    limited, _ = noon.credentials.create_token(
        noon.people["alice"].id, name="x", via=Via.TOKEN, stamp=SYSTEM, queues=[noon.project_id("alice")]
    )
    for token in (token_of(noon, "kimi", Via.TOKEN), in_run, limited, "fab_wrong", ""):
        with pytest.raises(NotAuthenticated):
            door.sign_in(token, "Firefox")


def test_a_session_ends_by_its_owner_s_word_and_is_in_his_list(noon: Household, door: SignIn, signed: Signed) -> None:
    alice = noon.fabric_as("alice")
    (shown,) = alice.call(verbs.ListSessions())
    assert (shown["agent"], shown["proven"]) == ("Firefox on a phone", False)
    assert alice.call(verbs.RevokeSession(id=shown["id"]))["revoked_now"]
    assert door.caller(signed.secret) is None
    assert alice.call(verbs.ListSessions()) == []


def test_signing_out_ends_it(door: SignIn, signed: Signed) -> None:
    door.sign_out(signed.secret)
    assert door.caller(signed.secret) is None


def test_who_is_idle_for_two_weeks_signs_in_again(noon: Household, door: SignIn, signed: Signed) -> None:
    noon.later(days=13)
    assert door.caller(signed.secret) is not None
    noon.later(days=13)
    assert door.caller(signed.secret) is not None
    noon.later(days=15)
    assert door.caller(signed.secret) is None


def test_a_session_of_a_disabled_or_reset_account_is_worth_nothing(noon: Household, door: SignIn) -> None:
    bob = door.sign_in(token_of(noon, "bob"), "Firefox")
    at_the_door(noon).call(verbs.ResetUser(name="bob"))
    assert door.caller(bob.secret) is None
    bob = door.sign_in(token_of(noon, "bob"), "Firefox")
    at_the_door(noon).call(verbs.DisableUser(name="bob"))
    assert door.caller(bob.secret) is None
    at_the_door(noon).call(verbs.DisableUser(name="bob", enable=True))
    assert door.caller(bob.secret) is None  # he signs in again


def test_a_lost_pin_is_forgotten_by_another_who_decides_and_opens_nothing_old(noon: Household, alice: Fabric) -> None:
    with_pin(noon, "bob")
    bob, kimi = noon.fabric_as("bob"), noon.fabric_as("kimi")
    task = submit(bob, to="kimi")
    approval = asks(kimi, claim(kimi, task))
    with pytest.raises(NeedsHuman):
        alice.call(verbs.ResetUser(name="bob", forget_pin=True))
    assert stands(kimi, approval) == "pending"
    reset = at_the_door(noon).call(verbs.ResetUser(name="bob", forget_pin=True))
    assert (reset["withdrawn"], noon.credentials.has_pin(noon.people["bob"].id)) == (1, False)
    assert stands(kimi, approval) == "withdrawn"
    assert refused(at_the_door(noon, "bob"), verbs.Approve(task=approval["task"], seen=approval["hash"])) == "decided"
    again = noon.with_token(reset["token"])
    again.call(verbs.Answer(task=task.id, note="ask once more"))
    assert asks(kimi, claim(kimi, task))["state"] == "pending"


def code_of(home: Household, name: str) -> str:
    """What whoever keeps the server reads."""
    return (home.ground.home / "codes" / f"{name}.txt").read_text().strip()


def test_who_reset_somebody_can_do_nothing_in_his_name_that_counts(noon: Household, alice: Fabric) -> None:
    with_pin(noon, "bob")
    reset = at_the_door(noon).call(verbs.ResetUser(name="bob", forget_pin=True))
    as_bob, kimi = noon.with_token(reset["token"]), noon.fabric_as("kimi")
    task = submit(as_bob, to="kimi")
    approval = asks(kimi, claim(kimi, task))
    assert refused(as_bob, verbs.Comment(task=approval["task"], text="/approve")) == "decision"
    with pytest.raises(NeedsHuman):
        approve(as_bob, approval)
    with pytest.raises(NeedsHuman) as told:
        as_bob.call(verbs.SetPin(pin=PIN))
    assert told.value.facts["rule"] == "pin-code"
    assert refused(as_bob, verbs.SetPin(pin=PIN, code="guessed")) == "pin-code"
    assert refused(as_bob, verbs.Vacation(until=NOON + HOUR, to="alice")) == "pin-code"
    assert refused(as_bob, verbs.Delegate(task=approval["task"], to="alice")) == "pin-code"
    needs_him: list[Verb[Any]] = [verbs.AddChannel(address="ntfys://93.184.215.14/x"), verbs.CreateToken(name="bob")]
    for verb in needs_him:
        with pytest.raises(NeedsHuman):
            as_bob.call(verb)
    link = at_the_door(noon).call(verbs.SignInLink(name="bob"))["secret"]
    assert via_of(noon.hallway.sessions, noon.hallway.sessions.by_link(link, "Firefox")) is Via.LOCAL
    assert stands(kimi, approval) == "pending"


def test_the_code_of_his_letter_makes_him_himself_again(noon: Household, alice: Fabric) -> None:
    with_pin(noon, "bob")
    reset = at_the_door(noon).call(verbs.ResetUser(name="bob", forget_pin=True))
    assert reset["code_kept"] == "codes/bob.txt in the home of the server"
    assert code_of(noon, "bob") not in str(reset)
    bob = noon.with_token(reset["token"])
    assert bob.call(verbs.Me())["pin_code"]
    bob.call(verbs.SetPin(pin=PIN, code=code_of(noon, "bob")))
    assert (bob.call(verbs.Me())["pin"], bob.call(verbs.Me())["pin_code"]) == (True, False)
    assert not (noon.ground.home / "codes" / "bob.txt").exists()
    kimi = noon.fabric_as("kimi")
    approval = asks(kimi, claim(kimi, submit(bob, to="kimi")))
    assert approve(bob, approval, pin=PIN)["state"] == "approved"


def test_a_reset_of_who_has_no_pin_takes_the_code_too_and_withdraws_nothing(noon: Household, kimi: Fabric) -> None:
    approval = asks(kimi, claim(kimi, submit(noon.fabric_as("bob"), to="kimi")))
    token_of(noon, "bob")
    reset = at_the_door(noon).call(verbs.ResetUser(name="bob"))
    with pytest.raises(NeedsHuman):
        noon.with_token(reset["token"]).call(verbs.SetPin(pin=PIN))
    assert stands(kimi, approval) == "pending"


def test_a_reset_that_leaves_the_pin_asks_for_no_code(noon: Household) -> None:
    with_pin(noon, "bob")
    reset = at_the_door(noon).call(verbs.ResetUser(name="bob"))
    assert reset["code_kept"] is None
    bob = noon.with_token(reset["token"])
    assert bob.call(verbs.SetPin(pin="135791", old=PIN))["set"]


def test_the_first_token_of_a_new_person_decides_nothing_in_a_comment(noon: Household, kimi: Fabric) -> None:
    carol = noon.with_token(at_the_door(noon).call(verbs.AddUser(name="carol"))["token"])
    approval = asks(kimi, claim(kimi, submit(carol, to="kimi")))
    assert refused(carol, verbs.Comment(task=approval["task"], text="/approve")) == "decision"
    carol.call(verbs.SetPin(pin=PIN))
    assert approve(carol, approval, pin=PIN)["state"] == "approved"


@pytest.mark.parametrize("name", ["alice", "kimi"])
def test_nobody_forgets_his_own_pin_and_agents_have_none(noon: Household, name: str) -> None:
    assert refused(at_the_door(noon), verbs.ResetUser(name=name, forget_pin=True)) == "self"


def test_making_a_link_is_a_decision_and_for_another_it_is_an_administrator_s(noon: Household, alice: Fabric) -> None:
    with pytest.raises(NeedsHuman):
        alice.call(verbs.SignInLink())
    made = at_the_door(noon).call(verbs.SignInLink(name="bob"))
    assert (made["name"], made["expires"]) == ("bob", "2026-11-30T12:15:00Z")
    run = noon.in_run("alice", claim(alice, submit(alice, to="alice")))
    assert refused(run, verbs.SignInLink()) == "in-run"


def test_what_a_form_carries_follows_from_the_secret_and_differs_for_each(door: SignIn, signed: Signed) -> None:
    admitted = door.caller(signed.secret)
    assert admitted is not None
    assert admitted.csrf == signed.csrf
    assert signed.csrf != signed.secret
