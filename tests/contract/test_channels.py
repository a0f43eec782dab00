"""Channels of one's own: who may have them, what is refused, and that nobody ever sees an address again."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from taskfabric.domain.errors import BadInput, NeedsHuman, NotFound, Refused
from taskfabric.domain.principal import Via
from taskfabric.ports.fabric import Fabric, Verb
from taskfabric.services import verbs
from tests.contract.acts import claim, submit
from tests.contract.approving import PIN, at_the_door, with_pin
from tests.contract.household import Household
from tests.contract.test_letters import ALICE, Channel, channel, post, reach

__all__ = ["channel", "reach"]
URL = "ntfys://93.184.215.14/secret-topic"  # a public address, for which no name server is asked


def added(fabric: Fabric, url: str = URL, **more: Any) -> dict[str, Any]:
    return fabric.call(verbs.AddChannel(address=url, **more))


def test_a_channel_is_shown_without_what_is_secret_in_it(bob: Fabric) -> None:
    made = added(bob)
    (shown,) = bob.call(verbs.ListChannels())
    assert (shown["id"], shown["shown"], shown["source"]) == (made["id"], "ntfys://93.184.215.14/…", "own")
    assert "secret" not in json.dumps([made, shown])


def test_an_address_is_neither_in_the_database_nor_in_the_journal_nor_in_a_log(
    noon: Household, bob: Fabric, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    bob.call(verbs.TryChannel(id=added(bob)["id"]))
    rows = noon.ground.rows("SELECT c::text FROM channels c") + noon.ground.rows("SELECT j::text FROM journal j")
    hidden = b"secret-topic".hex()
    assert not [row for row in rows if "secret" in row[0] or hidden in row[0]]
    assert "secret" not in caplog.text
    assert "secret" not in repr(verbs.AddChannel(address=URL))


def test_what_notify_toml_says_is_listed_too_and_goes_on(
    noon: Household, alice: Fabric, bob: Fabric, channel: Channel, reach: Callable[[str], None]
) -> None:
    reach(ALICE)
    shown = alice.call(verbs.ListChannels())
    assert [(one["id"], one["shown"], one["source"]) for one in shown] == [(None, "ntfy://…", "notify.toml")]
    submit(bob, "now", to="alice", priority=3)
    assert post(noon)[:2] == (1, 1)


@pytest.mark.parametrize(
    "url",
    [
        *("file:///etc/passwd", "syslog://", "dbus://", "nonsense"),
        *("ntfy://127.0.0.1/x", "json://[::1]:8420/x", "json://169.254.169.254/x", "ntfys://10.0.0.1/x"),
        *("mailto://me:secret@93.184.215.14?smtp=127.0.0.1", "gotify://192.168.1.1/secret", "json://2130706433/x"),
    ],
)
def test_unsafe_services_and_internal_addresses_are_refused_before_anything_is_kept(bob: Fabric, url: str) -> None:
    with pytest.raises(BadInput) as caught:
        added(bob, url)
    assert "secret" not in caught.value.message
    assert bob.call(verbs.ListChannels()) == []


def test_nobody_sees_tries_or_removes_a_channel_of_somebody_else(bob: Fabric, alice: Fabric) -> None:
    """G13"""
    his = added(bob)["id"]
    assert alice.call(verbs.ListChannels()) == []
    for verb in (verbs.TryChannel(id=his), verbs.RemoveChannel(id=his)):
        with pytest.raises(NotFound) as theirs:
            alice.call(verb)
        with pytest.raises(NotFound) as nobodys:
            alice.call(verb.model_copy(update={"id": 999_999}))
        assert theirs.value.to_json() == nobodys.value.to_json()
    assert len(bob.call(verbs.ListChannels())) == 1


def test_neither_an_agent_nor_a_run_nor_a_limited_token_has_channels(
    noon: Household, alice: Fabric, kimi: Fabric
) -> None:
    task = submit(alice, "a chore", to="kimi")
    run = noon.in_run("kimi", claim(kimi, task))
    limited = noon.fabric_as("bob", queues=frozenset({noon.project_id("pool")}))
    asked: list[Verb[Any]] = [verbs.AddChannel(address=URL), verbs.ListChannels(), verbs.TryChannel(id=1)]
    for fabric in (kimi, run, limited):
        for verb in asked:
            with pytest.raises(Refused):
                fabric.call(verb)


def test_once_there_is_a_pin_a_channel_is_added_and_removed_only_with_it(noon: Household) -> None:
    with_pin(noon, "bob")
    bob = noon.fabric_as("bob", via=Via.LOCAL)
    with pytest.raises(NeedsHuman):
        added(bob)
    made = added(bob, pin=PIN)
    with pytest.raises(NeedsHuman):
        bob.call(verbs.RemoveChannel(id=made["id"]))
    assert at_the_door(noon, "bob").call(verbs.RemoveChannel(id=made["id"]))["removed"]
    assert bob.call(verbs.ListChannels()) == []


def test_one_has_ten_channels_at_most(bob: Fabric) -> None:
    for number in range(10):
        added(bob, f"{URL}{number}")
    with pytest.raises(BadInput, match="at most 10"):
        added(bob)


def test_a_channel_that_does_not_take_it_says_why(bob: Fabric) -> None:
    got = bob.call(verbs.TryChannel(id=added(bob)["id"]))
    assert not got["taken"]
    assert got["problem"]
    assert "secret" not in json.dumps(got)


def test_a_letter_is_not_sent_again_to_those_who_have_it(
    noon: Household, alice: Fabric, bob: Fabric, channel: Channel, reach: Callable[[str], None]
) -> None:
    reach('[alice]\nurls = ["ntfy://one/alice", "ntfy://two/alice"]\n')
    channel.refuses = {"ntfy://two/alice"}
    submit(bob, "now", to="alice", priority=3)
    assert post(noon) == (1, 0, 1)
    assert "address 2 of 2 did not take it" in alice.call(verbs.Letters())[0]["error"]
    noon.later(minutes=2)
    assert post(noon) == (0, 0, 1)
    channel.refuses = set()
    noon.later(minutes=5)
    assert post(noon) == (0, 1, 0)
    assert [url for url, _ in channel.taken] == ["ntfy://one/alice", "ntfy://two/alice"]
