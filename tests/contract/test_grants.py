"""Standing grants, the policy, and who decides for whom."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

import psycopg
import pytest

from taskfabric import assets
from taskfabric.domain.errors import BadInput, FabricError, NeedsHuman
from taskfabric.domain.principal import Kind, Trust, Via
from taskfabric.domain.status import Status
from taskfabric.ports.credentials import NewPrincipal
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs
from taskfabric.wiring import SYSTEM
from tests.contract.acts import HOUR, NOON, claim, refused, status, submit
from tests.contract.approving import (
    MAIL,
    PIN,
    again,
    approve,
    asked,
    asks,
    at_the_door,
    consume,
    deny,
    keeper_of,
    not_his,
    stands,
    with_pin,
)
from tests.contract.household import Household

MAILS: Final = '[actions."mail.*"]\nkind = "send"\nlevel = "confirm"'


@pytest.fixture
def house_file(noon: Household) -> Iterator[Callable[[str, str], None]]:
    """Changes a line of the policy file of this home."""
    file = noon.ground.home / "policy.toml"

    def write(was: str, now: str) -> None:
        text = file.read_text() if file.exists() else assets.read_text("config/policy.toml")
        assert was in text
        file.write_text(text.replace(was, now, 1))

    yield write
    file.unlink(missing_ok=True)


def grant(home: Household, action: str = "mail.send", **more: object) -> dict[str, object]:
    return at_the_door(home).call(verbs.MakeGrant(agent="kimi", action=action, **more))  # type: ignore[arg-type]


# -- standing grants -----------------------------------------------------------------------------------------


def test_what_a_human_granted_needs_nobody_and_the_run_goes_on(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    made = grant(noon)
    task = submit(alice, to="kimi")
    run = noon.in_run("kimi", claim(kimi, task))
    got = asks(run)
    assert (got["allowed"], got["decided_by"], got["grant"]) == (True, "alice", made["id"])
    assert consume(run, got)["consumed_at"] is not None
    assert status(alice, task) is Status.WORKING
    assert [g["used"] for g in alice.call(verbs.ListGrants())] == [1]


def test_a_grant_ends_and_can_be_revoked(noon: Household, alice: Fabric, kimi: Fabric) -> None:
    grant(noon, until=NOON + HOUR)
    assert asks(kimi)["allowed"]
    noon.later(hours=1)
    assert not asks(kimi, args={"to": "x"})["allowed"]
    made = grant(noon)
    alice.call(verbs.RevokeGrant(id=int(str(made["id"]))))
    assert not asks(kimi, args={"to": "y"})["allowed"]


def test_a_grant_is_for_its_agent_action_and_recipient_only(noon: Household, kimi: Fabric, qwen: Fabric) -> None:
    grant(noon, recipient=MAIL["to"])
    assert asks(kimi)["allowed"]
    assert not asks(qwen)["allowed"]
    assert not asks(kimi, args={**MAIL, "to": "thief@example.org"})["allowed"]
    assert not asks(kimi, action="mail.forward")["allowed"]


def test_a_grant_lasts_thirty_days_unless_its_maker_names_an_end(noon: Household) -> None:
    assert grant(noon)["until"] == "2026-12-30T12:00:00Z"


def test_a_no_to_just_this_beats_every_grant(noon: Household, kimi: Fabric) -> None:
    """G10"""
    _, approval = asked(noon)
    deny(at_the_door(noon), approval)
    grant(noon)
    assert not asks(kimi)["allowed"]
    assert asks(kimi, args={**MAIL, "text": "another"})["allowed"]


def test_there_is_no_grant_for_what_is_secure(noon: Household, kimi: Fabric) -> None:
    with_pin(noon)
    alice = at_the_door(noon)
    for action in ("pay.invoice", "pay.*"):
        assert refused(alice, verbs.MakeGrant(agent="kimi", action=action)) == "secure"
    _, approval = asked(noon, action="pay.invoice")
    always = verbs.Approve(task=approval["task"], seen=approval["hash"], pin=PIN, always=True)
    assert refused(alice, always) == "secure"
    grant(noon, action="mail.*")
    assert not asks(kimi, args={**MAIL, "amount": 5000})["allowed"]


def test_always_makes_a_grant_with_the_scope_of_what_was_approved(noon: Household, kimi: Fabric) -> None:
    _, approval = asked(noon)
    approve(at_the_door(noon), approval, always=True)
    (made,) = at_the_door(noon).call(verbs.ListGrants())
    assert (made["agent"], made["action"], made["recipient"]) == ("kimi", "mail.send", MAIL["to"])
    assert asks(kimi, args={**MAIL, "text": "next"})["allowed"]


@contextlib.contextmanager
def no_more_grants(home: Household) -> Iterator[None]:
    """The database takes no further grant, as when its disk is full."""
    with home.ground.tested.connect() as conn:
        conn.execute("ALTER TABLE grants ADD CONSTRAINT full_disk CHECK (false) NOT VALID")
        try:
            yield
        finally:
            conn.execute("ALTER TABLE grants DROP CONSTRAINT full_disk")


def test_always_decides_and_grants_or_does_neither(noon: Household, alice: Fabric) -> None:
    _, approval = asked(noon)
    with no_more_grants(noon), pytest.raises((FabricError, psycopg.Error)):
        approve(at_the_door(noon), approval, always=True)
    assert stands(alice, approval) == "pending"
    approve(at_the_door(noon), approval, always=True)
    assert [g["used"] for g in alice.call(verbs.ListGrants())] == [0]


def test_always_with_an_edit_grants_what_was_decided_and_not_what_was_asked(noon: Household, kimi: Fabric) -> None:
    _, approval = asked(noon)
    approve(at_the_door(noon), approval, args={**MAIL, "to": "the-landlord"}, always=True)
    [made] = at_the_door(noon).call(verbs.ListGrants())
    assert made["recipient"] == "the-landlord"
    assert asks(kimi, args={**MAIL, "text": "something else"})["state"] == "pending"
    assert asks(kimi, args={"to": "the-landlord", "text": "hello"})["allowed"]


def test_always_for_what_names_nobody_grants_nothing_towards_anybody(noon: Household, kimi: Fabric) -> None:
    _, approval = asked(noon, args={"text": "please"})
    approve(at_the_door(noon), approval, always=True)
    assert asks(kimi, args=MAIL)["state"] == "pending"
    assert asks(kimi, args={"text": "once more"})["allowed"]


def test_a_grant_with_an_end_that_cannot_be_decides_nothing(noon: Household) -> None:
    _, approval = asked(noon)
    with pytest.raises(BadInput):
        approve(at_the_door(noon), approval, always=True, until=NOON)
    assert stands(at_the_door(noon), approval) == "pending"
    assert at_the_door(noon).call(verbs.ListGrants()) == []


def test_a_grant_counts_where_its_maker_would_be_asked_and_nowhere_else(
    noon: Household, bob: Fabric, kimi: Fabric
) -> None:
    grant(noon)
    task = submit(bob, to="kimi")
    assert asks(kimi, claim(kimi, task))["state"] == "pending"


def test_nobody_grants_for_another_s_agent_nor_without_proof(noon: Household, bob: Fabric) -> None:
    assert refused(at_the_door(noon, "bob"), verbs.MakeGrant(agent="kimi", action="mail.send")) == "grants"
    with pytest.raises(NeedsHuman):
        noon.fabric_as("alice", via=Via.LOCAL).call(verbs.MakeGrant(agent="kimi", action="mail.send"))
    assert not_his(bob, verbs.RevokeGrant(id=int(str(grant(noon)["id"]))))["name"] == "not-found"
    assert bob.call(verbs.ListGrants()) == []


def test_a_run_makes_no_grant(noon: Household, alice: Fabric) -> None:
    """Invariant 5"""
    run = noon.in_run("alice", claim(alice, submit(alice, to="alice")))
    assert refused(run, verbs.MakeGrant(agent="kimi", action="mail.send")) == "in-run"


# -- the policy ----------------------------------------------------------------------------------------------


def test_a_file_that_asks_for_less_holds_when_an_administrator_said_so(
    noon: Household, kimi: Fabric, house_file: Callable[[str, str], None]
) -> None:
    """Changing levels is itself a decision."""
    house_file(MAILS, MAILS.replace("confirm", "logged"))
    assert asks(kimi)["state"] == "pending"
    with pytest.raises(NeedsHuman):
        noon.fabric_as("alice").call(verbs.AcceptPolicy())
    assert refused(at_the_door(noon, "bob"), verbs.AcceptPolicy()) == "admin"
    assert at_the_door(noon).call(verbs.AcceptPolicy())["changed"]
    assert asks(kimi)["allowed"]


def test_a_file_that_asks_for_more_holds_at_once(
    noon: Household, kimi: Fabric, house_file: Callable[[str, str], None]
) -> None:
    house_file('kind = "write"\nlevel = "logged"', 'kind = "write"\nlevel = "secure"')
    assert asks(kimi, action="note.add", args={})["level"] == "secure"
    assert not at_the_door(noon).call(verbs.ShowPolicy())["accepted"]
    checks = {c.name: c.next for c in noon.fabric_as("alice").call(verbs.Doctor())}
    assert "policy accept" in checks["policy"]


def test_a_file_that_cannot_be_read_changes_nothing_and_says_so(
    noon: Household, kimi: Fabric, house_file: Callable[[str, str], None]
) -> None:
    house_file('kind = "secure"\nlevel = "secure"', 'kind = "secure"\nlevel = "auto"')
    assert asks(kimi, action="pay.invoice", args={})["level"] == "secure"
    assert "secure" in at_the_door(noon).call(verbs.ShowPolicy())["problem"]
    (check,) = [c for c in noon.fabric_as("alice").call(verbs.Doctor()) if c.name == "policy"]
    assert (check.state, "secure" in check.text) == ("warn", True)


def test_an_approval_does_not_outlive_a_stricter_policy(
    noon: Household, house_file: Callable[[str, str], None]
) -> None:
    """G10: judged again when it is used."""
    task, approval = asked(noon)
    approve(at_the_door(noon), approval)
    run, answer = again(noon, task)
    house_file(MAILS, MAILS.replace("confirm", "secure"))
    assert refused(run, verbs.Consume(approval=answer["id"], args=MAIL)) == "level"


def test_what_nobody_decides_goes_on_to_the_next_human_of_the_house(
    noon: Household, bob: Fabric, house_file: Callable[[str, str], None]
) -> None:
    house_file("household = []", 'household = ["alice", "bob"]')
    at_the_door(noon).call(verbs.AcceptPolicy())
    _, approval = asked(noon)
    assert approval["next"] == {"name": "bob", "at": "2026-12-02T09:36:00Z"}
    keeper = keeper_of(noon)
    noon.later(hours=45)
    assert keeper.call(verbs.Tend())["passed_on"] == 0
    not_his(bob, verbs.ShowApproval(approval=approval["id"]))
    noon.later(hours=1)
    assert keeper.call(verbs.Tend())["passed_on"] == 1
    assert bob.call(verbs.ShowApproval(approval=approval["id"]))["deciders"][1]["how"] == "escalated"
    assert approve(at_the_door(noon, "bob"), approval)["decided_by"] == "bob"


def test_an_unaccepted_household_shows_nothing_to_anybody(
    noon: Household, bob: Fabric, house_file: Callable[[str, str], None]
) -> None:
    """G13"""
    house_file("household = []", 'household = ["alice", "bob"]')
    _, approval = asked(noon)
    noon.later(hours=47)
    assert keeper_of(noon).call(verbs.Tend())["passed_on"] == 0
    not_his(bob, verbs.ShowApproval(approval=approval["id"]))


# -- in somebody's place ---------------------------------------------------------------------------------------


def test_on_vacation_the_one_named_decides_and_that_is_marked(noon: Household, alice: Fabric) -> None:
    alice.call(verbs.Vacation(until=NOON + 24 * HOUR, to="bob"))
    _, approval = asked(noon)
    assert approval["away"] == {
        "name": "alice",
        "until": "2026-12-01T12:00:00Z",
        "to": "bob",
        "note": "away; bob decides meanwhile, but nothing secure or private",
    }
    got = approve(at_the_door(noon, "bob"), approval)
    assert (got["decided_by"], got["for_whom"]) == ("bob", "alice")


def test_what_was_pending_is_passed_on_too_and_comes_back_with_its_owner(
    noon: Household, alice: Fabric, bob: Fabric
) -> None:
    _, approval = asked(noon)
    not_his(bob, verbs.ShowApproval(approval=approval["id"]))
    alice.call(verbs.Vacation(until=NOON + 24 * HOUR, to="bob"))
    assert stands(bob, approval) == "pending"
    alice.call(verbs.Vacation(off=True))
    noon.later(seconds=1)
    not_his(at_the_door(noon, "bob"), verbs.Approve(task=approval["task"], seen=approval["hash"]))
    assert approve(at_the_door(noon), approval)["for_whom"] is None


def test_a_delegation_ends_with_the_vacation(noon: Household, alice: Fabric) -> None:
    alice.call(verbs.Vacation(until=NOON + HOUR, to="bob"))
    _, approval = asked(noon)
    noon.later(hours=1)
    not_his(at_the_door(noon, "bob"), verbs.Approve(task=approval["task"], seen=approval["hash"]))


def test_a_vacation_says_that_the_one_who_decides_meanwhile_has_no_way_in(noon: Household, alice: Fabric) -> None:
    noon.credentials.add_principal(NewPrincipal(name="carol", kind=Kind.HUMAN, trust=Trust.HUMAN), SYSTEM)
    got = alice.call(verbs.Vacation(until=NOON + HOUR, to="carol"))
    assert got["warning"] == "carol has neither a token nor a browser, so nobody decides meanwhile"
    carol = noon.credentials.principal("carol")
    assert carol is not None
    noon.credentials.create_token(carol.id, name="x", via=Via.TOKEN, stamp=SYSTEM)
    assert alice.call(verbs.Vacation())["warning"] == ""


def test_nobody_decides_what_is_secure_for_another_on_vacation(noon: Household, alice: Fabric) -> None:
    with_pin(noon, "bob")
    alice.call(verbs.Vacation(until=NOON + HOUR, to="bob"))
    _, approval = asked(noon, action="pay.invoice")
    verb = verbs.Approve(task=approval["task"], seen=approval["hash"], pin=PIN)
    not_his(at_the_door(noon, "bob"), verb)


def test_who_decides_in_another_s_place_makes_no_grant(noon: Household, alice: Fabric) -> None:
    _, approval = asked(noon)
    alice.call(verbs.Delegate(task=approval["task"], to="bob"))
    verb = verbs.Approve(task=approval["task"], seen=approval["hash"], always=True)
    assert refused(at_the_door(noon, "bob"), verb) == "grants"


def test_who_decides_in_another_s_place_makes_nothing_secure_of_it(noon: Household, alice: Fabric) -> None:
    with_pin(noon, "bob")
    _, approval = asked(noon)
    alice.call(verbs.Delegate(task=approval["task"], to="bob"))
    edited = verbs.Approve(task=approval["task"], seen=approval["hash"], args={**MAIL, "amount": 5000}, pin=PIN)
    assert refused(at_the_door(noon, "bob"), edited) == "secure"
    assert stands(alice, approval) == "pending"
    with_pin(noon)
    assert at_the_door(noon).call(edited)["level"] == "secure"


def test_one_request_is_passed_on_by_whom_it_is_for(noon: Household, alice: Fabric, bob: Fabric) -> None:
    _, approval = asked(noon)
    not_his(bob, verbs.Delegate(task=approval["task"], to="alice"))
    assert alice.call(verbs.Delegate(task=approval["task"], to="bob"))["kind"] == "approval"
    assert refused(bob, verbs.Delegate(task=approval["task"], to="alice")) == "delegate"
    assert deny(at_the_door(noon, "bob"), approval)["for_whom"] == "alice"
