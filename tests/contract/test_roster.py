"""Accounts, tokens, PINs, queues and members, as people manage them through the fabric."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from taskfabric.domain.errors import BadInput, FabricError, LeaseLost, NeedsHuman, NotFound
from taskfabric.domain.principal import ProjectRole, Via
from taskfabric.domain.queue import QueueKind
from taskfabric.services import verbs
from taskfabric.services.verbs import FenceArg
from tests.contract.acts import claim, finish, only_here, refused, submit
from tests.contract.household import Household


def test_a_new_person_can_work_at_once(household: Household) -> None:
    answer = household.fabric_as("alice").call(verbs.AddUser(name="carol", full_name="Carol", zone="Europe/Berlin"))
    assert (answer["name"], answer["inbox"]) == ("carol", "carol")
    carol = household.with_token(answer["token"])
    hello = carol.call(verbs.Hello())
    assert (hello.name, hello.kind, hello.zone, hello.facts["queue"]) == ("carol", "human", "Europe/Berlin", "carol")
    note = submit(household.fabric_as("bob"), "call me", to="carol")
    assert [got.task.id for got in carol.call(verbs.Claim())] == [note.id]


def test_an_administrator_reads_no_inbox_but_his_own(household: Household) -> None:
    """G13"""
    alice = household.fabric_as("alice")
    alice.call(verbs.AddUser(name="carol"))
    hidden = submit(household.fabric_as("bob"), "private", to="carol")
    with pytest.raises(NotFound):
        alice.call(verbs.Show(task=hidden.id))
    assert refused(alice, verbs.SetMember(queue="carol", name="alice")) == "not-a-manager"


@pytest.mark.parametrize("name", ["alice", "Kimi", "pool", "me", "", "a" * 64, "kimi"])
def test_a_name_that_is_taken_or_cannot_be_one_makes_nobody(household: Household, name: str) -> None:
    before = len(household.credentials.principals())
    with pytest.raises(BadInput):
        household.fabric_as("alice").call(verbs.AddUser(name=name))
    assert len(household.credentials.principals()) == before


def test_people_are_managed_by_administrators(household: Household) -> None:
    bob = household.fabric_as("bob")
    for verb in (
        verbs.AddUser(name="mallory"),
        verbs.DisableUser(name="alice"),
        verbs.ResetUser(name="alice"),
        verbs.Sweep(),
        verbs.CreateQueue(name="things"),
    ):
        assert refused(bob, verb) in ("admin", "arrange")


def test_a_disabled_account_answers_nobody(household: Household) -> None:
    alice = household.fabric_as("alice")
    token = alice.call(verbs.CreateToken(name="kimi"))["token"]
    alice.call(verbs.DisableUser(name="kimi"))
    assert household.credentials.authenticate(token) is None
    alice.call(verbs.DisableUser(name="kimi", enable=True))
    assert household.with_token(token).call(verbs.Hello()).name == "kimi"


def test_nobody_disables_himself(household: Household) -> None:
    assert refused(household.fabric_as("alice"), verbs.DisableUser(name="alice")) == "self"


# -- tokens ----------------------------------------------------------------------------------------------


def test_a_token_for_a_new_name_makes_a_sandboxed_agent_of_the_pool(household: Household) -> None:
    """The machine's local credential is enough for that."""
    alice = household.fabric_as("alice", via=Via.LOCAL)
    answer = alice.call(verbs.CreateToken(name="helper", needs=("tools",), tiers=("small",), concurrency=1))
    assert (answer["kind"], answer["trust"], answer["created_principal"]) == ("agent", "sandboxed", True)
    helper = household.with_token(answer["token"])
    task = submit(alice, needs=("tools",))
    assert [got.task.id for got in helper.call(verbs.Claim())] == [task.id]
    assert submit(helper, to="alice").on_behalf == "alice"


@pytest.mark.parametrize("via", [Via.LOCAL, Via.TOKEN])
def test_more_than_sandboxed_needs_a_decision(household: Household, via: Via) -> None:
    """A process with the owner's credential is not the owner."""
    alice = household.fabric_as("alice", via=via)
    for verb in (
        verbs.CreateToken(name="helper", trust="trusted"),
        verbs.CreateToken(name="alice"),
        verbs.ResetUser(name="bob"),
    ):
        with pytest.raises(NeedsHuman):
            alice.call(verb)
    assert household.credentials.principal("helper") is None


def test_a_pin_or_a_session_decides(household: Household) -> None:
    alice = household.fabric_as("alice", via=Via.LOCAL)
    alice.call(verbs.SetPin(pin="471100"))
    assert refused(alice, verbs.CreateToken(name="helper", trust="trusted", pin="000000")) == "pin"
    assert alice.call(verbs.CreateToken(name="helper", trust="trusted", pin="471100"))["trust"] == "trusted"
    assert alice.call(verbs.ResetUser(name="bob", pin="471100"))["name"] == "bob"
    signed_in = household.fabric_as("alice", via=Via.SESSION)
    assert signed_in.call(verbs.CreateToken(name="other", trust="trusted"))["trust"] == "trusted"


def test_a_token_of_anothers_agent_is_a_decision(household: Household) -> None:
    """It reads what its owner may read."""
    household.fabric_as("bob").call(verbs.CreateToken(name="bobs"))
    alice = household.fabric_as("alice", via=Via.LOCAL)
    with pytest.raises(NeedsHuman):
        alice.call(verbs.CreateToken(name="bobs"))
    assert household.fabric_as("alice", via=Via.SESSION).call(verbs.CreateToken(name="bobs"))["token"]


def test_tokens_are_made_for_oneself_and_for_own_agents_only(household: Household) -> None:
    bob = household.fabric_as("bob", via=Via.SESSION)
    for name in ("alice", "kimi", "fabric"):
        assert refused(bob, verbs.CreateToken(name=name)) == "tokens"
    assert refused(household.fabric_as("kimi"), verbs.CreateToken(name="kimi")) == "tokens"
    assert household.with_token(bob.call(verbs.CreateToken(name="bob"))["token"]).call(verbs.Hello()).name == "bob"


def test_a_scoped_token_is_limited_to_its_queues(household: Household) -> None:
    alice = household.fabric_as("alice")
    in_pool, in_own = submit(alice), submit(alice, to="kimi")
    narrow = household.with_token(alice.call(verbs.CreateToken(name="kimi", queues=("kimi",)))["token"])
    assert [got.task.id for got in narrow.call(verbs.Claim(limit=9))] == [in_own.id]
    with pytest.raises(NotFound):
        narrow.call(verbs.Show(task=in_pool.id))


def test_a_new_agent_joins_only_queues_that_its_human_manages(household: Household) -> None:
    alice, bob = household.fabric_as("alice"), household.fabric_as("bob")
    alice.call(verbs.CreateQueue(name="errands"))
    assert refused(bob, verbs.CreateToken(name="helper", queues=("errands",))) == "not-a-manager"
    assert refused(bob, verbs.CreateToken(name="helper", queues=("bob",))) == "inbox"
    with pytest.raises(NotFound):
        bob.call(verbs.CreateToken(name="helper", queues=("nothing",)))
    assert household.credentials.principal("helper") is None
    answer = alice.call(verbs.CreateToken(name="helper", queues=("errands",)))
    shown = household.with_token(answer["token"]).call(verbs.ListQueues())
    assert sorted(queue.name for queue in shown) == ["alice", "errands", "pool"]


def test_what_an_agent_is_does_not_change_with_one_more_token(household: Household) -> None:
    for verb in (
        verbs.CreateToken(name="kimi", needs=("root",)),
        verbs.CreateToken(name="kimi", trust="trusted"),
        verbs.CreateToken(name="kimi", concurrency=9),
    ):
        with pytest.raises(BadInput):
            household.fabric_as("alice", via=Via.SESSION).call(verb)


def test_a_token_expires_in_the_future(household: Household) -> None:
    with pytest.raises(BadInput):
        household.fabric_as("alice").call(verbs.CreateToken(name="kimi", expires=datetime(2020, 1, 1, tzinfo=UTC)))


def test_a_revoked_token_is_worth_nothing(household: Household) -> None:
    alice, bob = household.fabric_as("alice"), household.fabric_as("bob")
    made = alice.call(verbs.CreateToken(name="kimi", label="laptop"))
    assert [t["principal"] for t in alice.call(verbs.ListTokens()) if t["name"] == "laptop"] == ["kimi"]
    assert "laptop" not in [t["name"] for t in bob.call(verbs.ListTokens())]
    with pytest.raises(NotFound):
        bob.call(verbs.RevokeToken(id=made["id"]))
    assert alice.call(verbs.RevokeToken(id=made["id"]))["revoked"]
    assert household.credentials.authenticate(made["token"]) is None


def test_no_list_shows_a_secret(household: Household) -> None:
    alice = household.fabric_as("alice")
    token = alice.call(verbs.CreateToken(name="kimi"))["token"]
    household.caught_up()
    shown = str(alice.call(verbs.ListTokens())) + str(alice.call(verbs.Events(limit=1000)))
    assert token not in shown
    assert "pin" not in repr(verbs.SetPin(pin="471100", old="471101")).replace("SetPin", "")


def test_a_reset_leaves_one_token(household: Household) -> None:
    alice = household.fabric_as("alice")
    old = alice.call(verbs.CreateToken(name="kimi"))["token"]
    new = alice.call(verbs.ResetUser(name="kimi"))
    assert new["revoked"] == 1
    assert household.credentials.authenticate(old) is None
    assert household.with_token(new["token"]).call(verbs.Hello()).name == "kimi"


def test_a_runs_token_is_for_the_holder_and_ends_with_the_run(household: Household) -> None:
    """Invariant 1"""
    kimi, qwen = household.fabric_as("kimi"), household.fabric_as("qwen")
    got = claim(kimi, submit(household.fabric_as("alice")))
    fence = FenceArg.of(got.fence)
    with pytest.raises(LeaseLost):
        qwen.call(verbs.RunToken(fence=fence))
    token = kimi.call(verbs.RunToken(fence=fence))["token"]
    assert household.with_token(token).call(verbs.Hello()).facts["run"] == str(got.fence)
    finish(kimi, got)
    assert household.credentials.authenticate(token) is None


# -- PINs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pin", ["", "12345", "x" * 65])
def test_a_pin_has_a_sensible_length(household: Household, pin: str) -> None:
    with pytest.raises(BadInput):
        household.fabric_as("bob").call(verbs.SetPin(pin=pin))


def test_changing_a_pin_needs_the_old_one(household: Household) -> None:
    bob = household.fabric_as("bob", via=Via.LOCAL)
    bob.call(verbs.SetPin(pin="471100"))
    with pytest.raises(NeedsHuman):
        bob.call(verbs.SetPin(pin="222222"))
    assert refused(bob, verbs.SetPin(pin="222222", old="333333")) == "pin"
    assert bob.call(verbs.SetPin(pin="222222", old="471100"))["set"]


def test_an_agent_has_no_pin(household: Household) -> None:
    assert refused(household.fabric_as("kimi"), verbs.SetPin(pin="471100")) == "pin"


# -- queues ----------------------------------------------------------------------------------------------


def test_people_make_queues_for_their_own_agents(household: Household) -> None:
    household.agent("bobs", owner="bob")
    bob = household.fabric_as("bob")
    made = bob.call(verbs.CreateQueue(name="bobs", kind=QueueKind.AGENT))
    assert (made.owner, made.kind.value) == ("bobs", "agent")
    assert bob.call(verbs.CreateQueue(name="bobs", kind=QueueKind.AGENT)) == made
    bob.call(verbs.SetMember(queue="bobs", name="kimi", role=ProjectRole.VIEWER))
    bob.call(verbs.SetMember(queue="bobs", name="kimi", role=None))
    with pytest.raises(BadInput):
        bob.call(verbs.SetMember(queue="bobs", name="bobs", role=None))


@pytest.mark.parametrize(
    "verb",
    [
        verbs.CreateQueue(name="x", kind=QueueKind.INBOX),
        verbs.CreateQueue(name="kimi", kind=QueueKind.INBOX),
        verbs.CreateQueue(name="alice", kind=QueueKind.AGENT),
        verbs.CreateQueue(name="p", kind=QueueKind.POOL, owner="alice"),
        verbs.CreateQueue(name="kimi", kind=QueueKind.POOL),
        verbs.CreateQueue(name="auto", kind=QueueKind.POOL),
        verbs.CreateQueue(name="No Name", kind=QueueKind.POOL),
    ],
)
def test_a_queue_that_makes_no_sense_is_not_made(household: Household, verb: verbs.CreateQueue) -> None:
    before = household.projects.queues()
    with pytest.raises(BadInput):
        household.fabric_as("alice").call(verb)
    assert household.projects.queues() == before


@only_here
def test_every_verb_is_answered(household: Household) -> None:
    """A verb without an answer would not start."""
    assert set(verbs.BY_METHOD.values()) == household.hallway.answered
    assert all(verb.method == method and verb.__doc__ for method, verb in verbs.BY_METHOD.items())


def test_an_error_of_the_roster_is_one_of_the_tree(household: Household) -> None:
    with pytest.raises(FabricError) as caught:
        household.fabric_as("alice").call(verbs.DisableUser(name="nobody"))
    assert caught.value.name == "not-found"
