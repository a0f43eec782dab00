"""Push over A2A: who is told, in which order, how often, and what is kept of his secrets."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from taskfabric.domain.errors import BadInput, Unavailable
from taskfabric.ports.push import Delivery, PushConfig, PushStore, Secrets
from taskfabric.settings import load
from taskfabric.stores.egress import WebEgress
from taskfabric.stores.vault import Vault
from taskfabric.surfaces.push_postman import PushPostman
from taskfabric.testing import TestDatabase
from taskfabric.wiring import House, build
from tests.integration.hiring import until
from tests.unit.listener import Heard, heard_at

ALICE, BOB = 101, 102


@pytest.fixture
def house(database: TestDatabase, tmp_path: Path) -> Iterator[House]:
    settings = load(env={}, home=tmp_path, overrides={"push.allow_hosts": ["127.0.0.1", "example.com"]})
    with contextlib.closing(build(settings, database.dsn, home=tmp_path, name="test")) as made:
        yield made


def a_task(house: House, owner: int = ALICE) -> str:
    """A task that somebody follows over A2A; its id."""
    a2a_id = str(uuid.uuid4())
    with house.database.connection() as conn:
        conn.execute(
            "INSERT INTO a2a_tasks (id, task_id, owner_id, agent_id, context, state, seq, changed)"
            " VALUES (%s, (SELECT count(*) + 1 FROM a2a_tasks), %s, 1, 'c', 'TASK_STATE_WORKING', 0, fabric_now())",
            (a2a_id, owner),
        )
    return a2a_id


def happens(house: House, a2a_id: str, *numbers: int, kind: str = "status") -> None:
    with house.database.connection() as conn:
        for n in numbers:
            body = json.dumps({"statusUpdate": {"taskId": a2a_id, "status": {"state": f"S{n}"}}})
            conn.execute(
                "INSERT INTO a2a_events (a2a_id, n, kind, body) VALUES (%s, %s, %s, %s)", (a2a_id, n, kind, body)
            )


def told(heard: Heard) -> list[str]:
    return [json.loads(call.body)["statusUpdate"]["status"]["state"] for call in heard.requests]


def later(test: TestDatabase, seconds: int) -> None:
    test.clock.advance(timedelta(seconds=seconds))


def drained(house: House) -> int:
    """Everything that is due is told, one thing after another; how many arrived."""
    arrived = 0
    while due := house.push_delivery.due(50):
        arrived += sum(house.push_delivery.tell(one) for one in due)
    return arrived


def rows(house: House, query: str) -> list[tuple[Any, ...]]:
    with house.database.connection() as conn:
        return conn.execute(query).fetchall()


# ---------------------------------------------------------------- configs


def test_two_configs_without_an_id_are_two_with_ids_of_ours(house: House) -> None:
    """a2a-python #1237, a2a-js #543."""
    task = a_task(house)
    made = [house.push.create(task, ALICE, {"url": "https://example.com/a"}) for _ in range(2)]
    assert len({one["id"] for one in made} | {task}) == 3
    assert house.push.list(task, ALICE) == made


def test_a_config_under_its_id_is_replaced_and_can_be_deleted_twice(house: House) -> None:
    task = a_task(house)
    house.push.create(task, ALICE, {"id": "one", "url": "https://example.com/a"})
    house.push.create(task, ALICE, {"id": "one", "url": "https://example.com/b"})
    assert [one["url"] for one in house.push.list(task, ALICE)] == ["https://example.com/b"]
    assert house.push.delete(task, ALICE, "one") is True
    assert house.push.delete(task, ALICE, "one") is False
    assert house.push.get(task, ALICE, "one") is None


def test_secrets_come_back_masked_and_lie_sealed(house: House, tmp_path: Path) -> None:
    task = a_task(house)
    config = {
        "id": "one",
        "url": "https://example.com/a",
        "token": "t0ken-of-hers",
        "authentication": {"scheme": "Bearer", "credentials": "cr3dential"},
    }
    shown = house.push.create(task, ALICE, config)
    assert shown == house.push.get(task, ALICE, "one") == house.push.list(task, ALICE)[0]
    assert (shown["token"], shown["authentication"]) == ("***", {"scheme": "Bearer", "credentials": "***"})
    kept = str(rows(house, "SELECT push_configs::text, encode(sealed, 'escape') FROM push_configs"))
    assert "t0ken" not in kept
    assert "cr3d" not in kept
    assert (tmp_path / "push.key").stat().st_mode & 0o777 == 0o600


def test_a_masked_secret_that_is_sent_back_is_refused(house: House) -> None:
    with pytest.raises(BadInput, match="not shown"):
        house.push.check({"url": "https://example.com/a", "token": "***"})


def test_a_config_is_its_owners_alone(house: House) -> None:
    """G13."""
    task = a_task(house)
    house.push.create(task, ALICE, {"id": "one", "url": "https://example.com/a"})
    assert house.push.get(task, BOB, "one") is None
    assert house.push.list(task, BOB) == []
    assert house.push.delete(task, BOB, "one") is False


WRONG: list[dict[str, Any]] = [
    {"token": "a\r\nX-Admin: 1"},
    {"token": "a\nb"},
    {"token": "caf\N{LATIN SMALL LETTER E WITH ACUTE}"},
    {"authentication": {"scheme": "Bearer", "credentials": "x\ny"}},
    {"authentication": {"scheme": "Bearer\r\nX", "credentials": "x"}},
    {"authentication": {"scheme": "a b", "credentials": "x"}},
    {"authentication": "Bearer x"},
    {"id": "a b"},
    {"id": "a" * 129},
    {"token": "a" * 4097},
    {"token": 1},
    {"urls": "https://example.com"},
    {"url": ""},
    {"url": "http://169.254.169.254/"},
    {"url": "http://[::ffff:127.0.0.1]/"},
    {"url": "http://2130706433/"},
    {"url": "http://127.1/"},
]


def test_what_cannot_be_sent_or_must_not_be_asked_is_refused_and_nothing_is_kept(house: House) -> None:
    """a2a-rs #124; a2a-python #786."""
    task = a_task(house)
    for config in WRONG:
        whole = {"url": "https://example.com/a", **config}
        with pytest.raises(BadInput):
            house.push.check(whole)
        with pytest.raises(BadInput):
            house.push.create(task, ALICE, whole)
    assert house.push.list(task, ALICE) == []


def test_a_task_has_ten_configs_at_most_also_of_calls_at_once(house: House) -> None:
    task = a_task(house)

    def create(number: int) -> bool:
        try:
            house.push.create(task, ALICE, {"id": f"c{number}", "url": "https://example.com/a"})
        except BadInput:
            return False
        return True

    with ThreadPoolExecutor(6) as crowd:
        assert sum(crowd.map(create, range(30))) == 10
    (kept, *_) = house.push.list(task, ALICE)
    assert house.push.create(task, ALICE, {"id": kept["id"], "url": "https://example.com/b"})["url"].endswith("b")


# ---------------------------------------------------------------- telling


def test_what_happens_is_told_in_order_with_the_secrets_and_a_key(house: House) -> None:
    task = a_task(house)
    happens(house, task, 1)
    with heard_at() as heard:
        auth = {"scheme": "Bearer", "credentials": "cr3d"}
        house.push.create(task, ALICE, {"url": heard.url, "token": "t0k", "authentication": auth})
        happens(house, task, 2)
        happens(house, task, 3, kind="message")
        happens(house, task, 4)
        assert drained(house) == 2
    assert told(heard) == ["S2", "S4"]
    headers = heard.requests[0].headers
    assert headers["x-a2a-notification-token"] == "t0k"
    assert headers["authorization"] == "Bearer cr3d"
    assert headers["idempotency-key"] == f"{task}-2"
    assert rows(house, "SELECT * FROM push_outbox") == []


def test_a_failure_is_tried_again_later_and_later_and_nothing_overtakes_it(
    house: House, database: TestDatabase
) -> None:
    task = a_task(house)
    with heard_at() as heard:
        house.push.create(task, ALICE, {"url": heard.url})
        heard.answers = [500, 302, 200, 200]
        happens(house, task, 1, 2)
        assert drained(house) == 0
        later(database, 6)
        assert drained(house) == 0
        later(database, 6)
        assert drained(house) == 0
        later(database, 6)
        assert drained(house) == 2
    assert told(heard) == ["S1", "S1", "S1", "S2"]


def test_one_receivers_trouble_is_nobody_elses(house: House) -> None:
    one, other = a_task(house), a_task(house)
    with heard_at() as broken, heard_at() as sound:
        broken.answer = (503, {})
        house.push.create(one, ALICE, {"url": broken.url})
        house.push.create(one, ALICE, {"url": sound.url})
        house.push.create(other, BOB, {"url": sound.url})
        happens(house, one, 1)
        happens(house, other, 1)
        assert drained(house) == 2


def test_after_ten_failures_an_address_is_given_up(house: House, database: TestDatabase) -> None:
    task = a_task(house)
    with heard_at() as heard:
        heard.answer = (500, {})
        house.push.create(task, ALICE, {"url": heard.url})
        happens(house, task, 1, 2)
        for _ in range(12):
            drained(house)
            later(database, 3600)
        happens(house, task, 3)
        assert drained(house) == 0
    assert told(heard) == ["S1"] * 10
    assert rows(house, "SELECT given_up FROM push_configs") == [("it answers 500",)]
    assert rows(house, "SELECT * FROM push_outbox") == []


def test_an_address_that_says_gone_is_not_asked_again(house: House) -> None:
    task = a_task(house)
    with heard_at() as heard:
        heard.answer = (410, {})
        house.push.create(task, ALICE, {"url": heard.url})
        happens(house, task, 1, 2)
        drained(house)
    assert told(heard) == ["S1"]


def test_two_tellers_tell_nothing_twice(house: House) -> None:
    tasks = [a_task(house) for _ in range(5)]
    with heard_at() as heard:
        for task in tasks:
            house.push.create(task, ALICE, {"url": heard.url})
            happens(house, task, 1, 2, 3)
        with ThreadPoolExecutor(4) as crowd:
            assert sum(crowd.map(lambda _: drained(house), range(4))) == 15
        assert len(heard.requests) == 15
        for task in tasks:
            about = [c for c in heard.requests if json.loads(c.body)["statusUpdate"]["taskId"] == task]
            assert [c.headers["idempotency-key"][-1] for c in about] == ["1", "2", "3"]


def test_an_address_is_judged_again_when_it_is_called(house: House) -> None:
    """What was allowed once is not for ever: the policy is asked at each delivery."""
    task = a_task(house)
    with heard_at() as heard:
        house.push.create(task, ALICE, {"url": heard.url})
        happens(house, task, 1)
        (one,) = house.push_delivery.due(5)
        strict = type(house.push_delivery)(
            store=house.push_delivery.store,
            egress=WebEgress(),
            now=house.push_delivery.now,
            fill=house.push_delivery.fill,
            tries=3,
        )
        assert strict.tell(one) is False
    assert heard.requests == []


def test_who_registers_with_his_message_hears_what_a_quick_worker_told_before(house: House) -> None:
    """Of the events, those after the ones that the message itself was answered with; each once."""
    task = a_task(house)
    happens(house, task, 1, 2, 3)
    with heard_at() as heard:
        house.push.create(task, ALICE, {"id": "one", "url": heard.url}, after=1)
        happens(house, task, 4)
        house.push.create(task, ALICE, {"id": "one", "url": heard.url}, after=1)
        drained(house)
        assert told(heard) == ["S2", "S3", "S4"]


def test_who_is_switched_off_is_told_nothing_more(house: House) -> None:
    """SEC-AUTH-004: not at his own address, either."""
    with house.database.connection() as conn:
        row = conn.execute(
            "INSERT INTO users (username, kind, trust) VALUES ('carol', 'human', 3) RETURNING id"
        ).fetchone()
    assert row is not None
    task = a_task(house, row[0])
    with heard_at() as heard:
        house.push.create(task, row[0], {"url": heard.url})
        happens(house, task, 1)
        with house.database.connection() as conn:
            conn.execute("UPDATE users SET is_active = false WHERE id = %s", (row[0],))
        assert drained(house) == 0
        happens(house, task, 2)
        assert (told(heard), rows(house, "SELECT * FROM push_outbox")) == ([], [])


def test_a_config_that_is_deleted_is_told_nothing_more(house: House) -> None:
    task = a_task(house)
    with heard_at() as heard:
        house.push.create(task, ALICE, {"id": "one", "url": heard.url})
        happens(house, task, 1)
        house.push.delete(task, ALICE, "one")
        assert drained(house) == 0
    assert heard.requests == []


def test_the_servers_thread_tells_at_once_and_a_receiver_that_hangs_holds_up_nobody(house: House) -> None:
    """D5."""
    slow, quick = a_task(house), a_task(house)
    with heard_at() as hanging, heard_at() as heard:
        hanging.hold = threading.Event()
        house.push.create(slow, ALICE, {"url": hanging.url})
        house.push.create(quick, BOB, {"url": heard.url})
        with PushPostman(house.push_delivery, house.signal, interval=0.1):
            happens(house, slow, 1)
            assert hanging.came.wait(20)
            happens(house, quick, 1, 2)
            until(lambda: told(heard) == ["S1", "S2"])


@pytest.mark.parametrize("owners", [1, 20])
def test_however_many_receivers_of_one_owner_or_host_hang_the_others_are_told(house: House, owners: int) -> None:
    """What hangs takes its share of the tellers, and no more."""
    quick = a_task(house)
    with heard_at() as hanging, heard_at() as heard:
        hanging.hold = threading.Event()
        for place in range(20):
            slow = a_task(house)
            house.push.create(slow, ALICE + 100 * (place % owners), {"url": hanging.url})
            happens(house, slow, 1, 2)
        house.push.create(quick, BOB, {"url": heard.url})
        with PushPostman(house.push_delivery, house.signal, interval=0.05):
            assert hanging.came.wait(20)
            happens(house, quick, *range(1, 6))
            until(lambda: told(heard) == ["S1", "S2", "S3", "S4", "S5"])
            assert len(hanging.requests) <= 3
            hanging.hold.set()
            until(lambda: len(hanging.requests) == 40)
    assert sorted(told(hanging)) == ["S1"] * 20 + ["S2"] * 20


class AwayAtFirst:
    """The store, whose board is away for the first looks."""

    def __init__(self, store: Any, looks: int) -> None:
        self._store = store
        self._looks = looks
        self.back = threading.Event()

    def due(self, limit: int, telling: Sequence[PushConfig] = (), share: int | None = None) -> list[Delivery]:
        self._looks -= 1
        if self._looks >= 0:
            raise Unavailable("the board is away", sent=False)
        self.back.set()
        return list(self._store.due(limit, telling, share))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_while_the_board_is_away_no_teller_is_lost(house: House) -> None:
    """G14"""
    task = a_task(house)
    away = AwayAtFirst(house.push_delivery.store, looks=3)
    delivery = replace(house.push_delivery, store=cast(PushStore, away))
    with heard_at() as heard:
        house.push.create(task, ALICE, {"url": heard.url})
        happens(house, task, 1)
        with PushPostman(delivery, house.signal, interval=0.05):
            until(lambda: told(heard) == ["S1"])
    assert away.back.is_set()


# ---------------------------------------------------------------- the vault


def test_a_secret_opens_only_for_what_it_belongs_to_and_under_its_own_key(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "key")
    sealed = vault.seal(b"word", "alice")
    assert Vault(tmp_path / "key").open(sealed, "alice") == b"word"
    assert vault.open(sealed, "bob") is None
    assert Vault(tmp_path / "other").open(sealed, "alice") is None
    assert vault.open(b"short", "alice") is None
    assert vault.seal(b"word", "alice") != sealed


def test_a_broken_key_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"short")
    with pytest.raises(Unavailable, match="no key"):
        Vault(tmp_path / "key").seal(b"word", "alice")


def test_secrets_under_a_lost_key_are_not_sent_as_nothing(house: House, tmp_path: Path) -> None:
    task = a_task(house)
    with heard_at() as heard:
        config = PushConfig(id="one", a2a_id=task, owner_id=ALICE, url=heard.url, has_token=True)
        house.push_delivery.store.put(config, Secrets(token="t0k"), 10)
        (tmp_path / "push.key").write_bytes(os.urandom(32))
        fresh = type(house.push_delivery.store)(house.database, Vault(tmp_path / "push.key"))  # type: ignore[call-arg]
        happens(house, task, 1)
        (one,) = fresh.due(5)
        assert one.secrets is None
        assert house.push_delivery.tell(one) is False
    assert heard.requests == []
