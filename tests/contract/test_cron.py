"""Schedules over the board (G12): each slot at most one task; what comes too late is written down, and never runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from fabric_keeper.cron import Ticker
from taskfabric.domain.principal import Kind, Trust
from taskfabric.domain.status import Status
from taskfabric.ports.credentials import NewPrincipal
from taskfabric.ports.fabric import Fabric
from taskfabric.services import verbs
from taskfabric.services.upkeep import CRON
from taskfabric.wiring import SYSTEM
from tests.contract.acts import NOON, finish, refused, submit
from tests.contract.household import Household

HOURLY = '[hourly]\ncron = "0 * * * *"\ntitle = "look around"\nto = "pool"\n'


@pytest.fixture
def cron(noon: Household) -> Fabric:
    """Access as the submitter of schedules."""
    noon.credentials.add_principal(NewPrincipal(name=CRON, kind=Kind.SERVICE, trust=Trust.TRUSTED), SYSTEM)
    return noon.fabric_as(CRON)


@pytest.fixture
def written(noon: Household) -> Iterator[Callable[[str], None]]:
    """Writes the household's schedules.toml."""
    file = noon.ground.home / "schedules.toml"

    def write(text: str) -> None:
        file.write_text(text, encoding="utf-8")

    yield write
    file.unlink(missing_ok=True)


def tick(fabric: Fabric) -> dict[str, int]:
    """What became of the slots of one look."""
    found = Ticker(fabric, every=10).run_once()
    assert found["problems"] == []
    return {state: found[state] for state in ("made", "missed", "skipped", "waiting") if found[state]}


def rows(home: Household) -> list[tuple[str, str]]:
    """(hour and minute in UTC, state) of every slot."""
    found = home.ground.rows("SELECT slot, state FROM schedule_slots ORDER BY slot")
    return [(slot.astimezone(UTC).strftime("%H:%M"), state) for slot, state in found]


def test_a_slot_becomes_one_task_however_often_it_is_looked_at(
    noon: Household, alice: Fabric, cron: Fabric, written: Callable[[str], None]
) -> None:
    """G12"""
    written(HOURLY)
    assert tick(cron) == {}, "a new schedule begins now, not in the past"
    noon.later(minutes=59)
    assert tick(cron) == {}
    noon.later(minutes=2)
    assert [tick(cron) for _ in range(4)] == [{"made": 1}, {}, {}, {}]
    assert noon.tasks() == 1
    assert noon.ground.rows("SELECT u.username FROM tasks t JOIN users u ON u.id = t.creator_id") == [(CRON,)]


def test_what_comes_too_late_is_recorded_and_never_run(
    noon: Household, cron: Fabric, written: Callable[[str], None]
) -> None:
    """G12: the fabric was off for five hours."""
    written(HOURLY)
    tick(cron)
    noon.later(hours=5, minutes=30)
    assert tick(cron) == {"missed": 5}
    assert noon.tasks() == 0
    assert rows(noon) == [(f"{hour}:00", "missed") for hour in range(13, 18)]
    reasons = noon.ground.rows("SELECT reason FROM schedule_slots ORDER BY slot DESC LIMIT 1")
    assert reasons == [("30 min late, the grace is 10 min",)]


def test_latest_once_runs_the_latest_missed_slot_once(
    noon: Household, cron: Fabric, written: Callable[[str], None]
) -> None:
    """G12"""
    written(HOURLY + 'missed = "latest-once"\n')
    tick(cron)
    noon.later(hours=5, minutes=30)
    assert tick(cron) == {"missed": 4, "made": 1}
    assert tick(cron) == {}
    assert rows(noon)[-1] == ("17:00", "made")
    assert noon.tasks() == 1


def test_a_slot_is_skipped_while_the_task_of_the_last_one_is_open(
    noon: Household, kimi: Fabric, cron: Fabric, written: Callable[[str], None]
) -> None:
    written(HOURLY)
    tick(cron)
    noon.later(hours=1)
    assert tick(cron) == {"made": 1}
    noon.later(hours=1)
    assert tick(cron) == {"skipped": 1}
    (got,) = kimi.call(verbs.Claim())
    finish(kimi, got)
    noon.later(hours=1)
    assert tick(cron) == {"made": 1}


def test_queue_one_lets_one_slot_wait_for_the_end_of_the_last(
    noon: Household, kimi: Fabric, cron: Fabric, written: Callable[[str], None]
) -> None:
    written(HOURLY + 'overlap = "queue-one"\n')
    tick(cron)
    noon.later(hours=1)
    tick(cron)
    noon.later(hours=1)
    assert tick(cron) == {"waiting": 1}
    noon.later(hours=1)
    assert tick(cron)["skipped"] == 1
    (got,) = kimi.call(verbs.Claim())
    finish(kimi, got)
    assert tick(cron) == {"made": 1}
    assert rows(noon) == [("13:00", "made"), ("14:00", "made"), ("15:00", "skipped")]


def test_parallel_makes_each(noon: Household, cron: Fabric, written: Callable[[str], None]) -> None:
    written(HOURLY + 'overlap = "parallel"\n')
    tick(cron)
    for _ in range(3):
        noon.later(hours=1)
        assert tick(cron) == {"made": 1}
    assert noon.tasks() == 3


def test_a_crash_between_slot_and_task_doubles_nothing(
    noon: Household, cron: Fabric, written: Callable[[str], None]
) -> None:
    """G11, G12: the task was made, and the ticker died before it wrote that down."""
    written(HOURLY)
    tick(cron)
    noon.later(hours=1)
    tick(cron)
    noon.ground.rows("UPDATE schedule_slots SET state = 'due', task_id = NULL RETURNING slot")
    assert tick(cron) == {"made": 1}
    assert noon.tasks() == 1


def test_a_slot_whose_submission_fails_too_long_is_missed(
    noon: Household, alice: Fabric, cron: Fabric, written: Callable[[str], None]
) -> None:
    written(HOURLY.replace('"pool"', '"nobody"'))
    assert Ticker(cron, every=10).run_once()["problems"] == []
    noon.later(hours=1)
    assert "no such target" in Ticker(cron, every=10).run_once()["problems"][0]
    noon.later(minutes=11)
    assert tick(cron) == {"missed": 1}


def test_a_bad_schedule_is_told_and_stops_no_other(
    noon: Household, cron: Fabric, written: Callable[[str], None]
) -> None:
    bad = '[bad]\ncron = "61 * * * *"\ntitle = "x"\nto = "pool"\n[typo]\ncrom = "* * * * *"\n'
    written(HOURLY + bad)
    Ticker(cron, every=10).run_once()
    noon.later(hours=1)
    found = Ticker(cron, every=10).run_once()
    assert found["made"] == 1
    assert any("61" in problem for problem in found["problems"])
    assert any("did you mean cron" in problem for problem in found["problems"])


def test_a_file_that_is_no_toml_is_told(noon: Household, cron: Fabric, written: Callable[[str], None]) -> None:
    written("[hourly\n")
    assert "not valid TOML" in Ticker(cron, every=10).run_once()["problems"][0]


def test_looking_at_the_schedules_moves_none(
    noon: Household, alice: Fabric, bob: Fabric, cron: Fabric, written: Callable[[str], None]
) -> None:
    """G12: a read with a side effect has lost runs elsewhere."""
    written(HOURLY)
    tick(cron)
    noon.later(hours=1)
    before = noon.ground.rows("SELECT * FROM schedules")
    shown = alice.call(verbs.ListSlots())
    assert shown["schedules"][0]["next"] == "2026-11-30T14:00:00Z"
    assert noon.ground.rows("SELECT * FROM schedules") == before
    assert tick(cron) == {"made": 1}
    assert alice.call(verbs.ListSlots())["slots"][0]["state"] == "made"
    assert refused(bob, verbs.ListSlots()) == "admin"


def test_a_disabled_schedule_misses_nothing(noon: Household, cron: Fabric, written: Callable[[str], None]) -> None:
    written(HOURLY + "enabled = false\n")
    tick(cron)
    noon.later(hours=9)
    tick(cron)
    written(HOURLY)
    noon.later(hours=1)
    assert tick(cron) == {"made": 1}
    assert len(rows(noon)) == 1


def test_over_a_change_of_clocks_each_local_time_counts_once(
    noon: Household, cron: Fabric, written: Callable[[str], None]
) -> None:
    """G12: 25 October 2026 has 02:30 twice in Madrid; 28 March 2027 has none, and 03:00 is the next valid minute."""
    written('[night]\ncron = "30 2 * * *"\nzone = "Europe/Madrid"\ntitle = "x"\nto = "pool"\noverlap = "parallel"\n')
    noon.at(datetime(2026, 10, 24, 12, tzinfo=UTC))
    tick(cron)
    for _ in range(24 * 6):
        noon.later(minutes=10)
        tick(cron)
    assert rows(noon) == [("00:30", "made")]
    noon.ground.rows("DELETE FROM schedules RETURNING name")
    noon.ground.rows("DELETE FROM schedule_slots RETURNING schedule")
    noon.at(datetime(2027, 3, 27, 12, tzinfo=UTC))
    tick(cron)
    for _ in range(24 * 6):
        noon.later(minutes=10)
        tick(cron)
    assert rows(noon) == [("01:00", "made")]


def test_a_key_from_a_system_cron_makes_one_task(noon: Household, alice: Fabric) -> None:
    """G11: `fabric submit --key` works as well."""
    first = submit(alice, key="backup/2026-11-30")
    assert submit(alice, key="backup/2026-11-30").id == first.id


def test_a_scheduled_task_is_worked_like_any_other(
    noon: Household, kimi: Fabric, cron: Fabric, written: Callable[[str], None]
) -> None:
    written(HOURLY + 'description = "with care"\nneeds = []\npriority = 2\n')
    tick(cron)
    noon.at(NOON + timedelta(hours=1))
    tick(cron)
    (got,) = kimi.call(verbs.Claim())
    assert (got.task.title, got.task.description, got.task.priority) == ("look around", "with care", 2)
    assert finish(kimi, got).status is Status.DONE


def test_whom_a_schedule_is_for_sees_its_tasks_in_the_pool_and_nobody_else_does(
    noon: Household, alice: Fabric, bob: Fabric, cron: Fabric, written: Callable[[str], None]
) -> None:
    """G13"""
    written(HOURLY + 'for = "alice"\n')
    tick(cron)
    noon.later(minutes=61)
    assert tick(cron) == {"made": 1}
    (task,) = alice.call(verbs.List(queue="pool"))
    assert (task.title, task.on_behalf) == ("look around", "alice")
    assert [mine.id for mine in alice.call(verbs.List(mine=True))] == [task.id]
    assert bob.call(verbs.List(queue="pool")) == []


def test_a_schedule_for_somebody_who_is_not_there_says_so(
    noon: Household, cron: Fabric, written: Callable[[str], None]
) -> None:
    written(HOURLY + 'for = "nobody"\n')
    Ticker(cron, every=10).run_once()
    noon.later(minutes=61)
    assert "no person called 'nobody'" in Ticker(cron, every=10).run_once()["problems"][0]
