"""Letters: what is worth one, when it may come, how it is tried again; and what notify.toml may say."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from taskfabric.domain.errors import BadInput
from taskfabric.domain.letter import TRIES, Happening, Quiet, reason_of, rest, subject
from taskfabric.domain.status import Flag, Status
from taskfabric.domain.task import Task
from taskfabric.services import digest
from taskfabric.stores.egress import WebEgress
from taskfabric.stores.notifier import AppriseNotifier, read

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = Quiet(begin=time(22), end=time(7))
ALICE, BOB = 1, 2

EVENT = Happening(
    event_id=1,
    kind="submitted",
    actor_id=9,
    task_id=7,
    title="a title",
    priority=1,
    inbox_of=ALICE,
    is_open=True,
    gates=False,
    asked_id=None,
    behalf_id=BOB,
)


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ({}, {}),
        ({"priority": 3}, {ALICE: "urgent"}),
        ({"priority": 3, "inbox_of": None}, {}),
        ({"priority": 3, "actor_id": ALICE}, {}),
        ({"gates": True}, {ALICE: "gate"}),
        ({"gates": True, "is_open": False}, {}),
        ({"kind": "waiting", "gates": True}, {ALICE: "gate"}),
        ({"kind": "waiting", "priority": 3}, {}),
        ({"kind": "asked", "asked_id": ALICE}, {ALICE: "question"}),
        ({"kind": "asked"}, {BOB: "question"}),
        ({"kind": "held", "matter": "parks"}, {BOB: "held"}),
        ({"kind": "held", "matter": "score"}, {}),
        ({"kind": "told", "to": (ALICE, BOB), "matter": "overdue"}, {ALICE: "overdue", BOB: "overdue"}),
        ({"kind": "claimed", "priority": 3}, {}),
        ({"kind": "done", "notify": ALICE, "is_open": False}, {ALICE: "ended"}),
        ({"kind": "done", "is_open": False}, {}),
        ({"kind": "dead", "notify": BOB, "is_open": False}, {BOB: "ended"}),
        ({"kind": "rejected", "notify": BOB}, {}),
    ],
)
def test_what_is_worth_a_letter_and_to_whom(changes: dict[str, object], reasons: dict[int, str]) -> None:
    assert reason_of(replace(EVENT, **changes)) == reasons  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("local", "until"),
    [
        ("2026-11-30T21:59", "2026-11-30T21:59"),
        ("2026-11-30T22:00", "2026-12-01T07:00"),
        ("2026-12-01T06:59", "2026-12-01T07:00"),
        ("2026-12-01T07:00", "2026-12-01T07:00"),
        ("2026-10-24T23:00", "2026-10-25T07:00"),  # a night that is an hour longer
    ],
)
def test_quiet_hours_are_in_the_readers_zone(local: str, until: str) -> None:
    moment = datetime.fromisoformat(local).replace(tzinfo=BERLIN).astimezone(UTC)
    assert NIGHT.over(moment, BERLIN) == datetime.fromisoformat(until).replace(tzinfo=BERLIN)


def test_quiet_hours_within_a_day_end_that_day() -> None:
    siesta = Quiet(begin=time(12), end=time(14))
    assert siesta.over(NOON, ZoneInfo("UTC")) == NOON.replace(hour=14)
    assert siesta.over(NOON.replace(hour=14), ZoneInfo("UTC")) == NOON.replace(hour=14)


def test_rests_grow_to_an_hour_and_end() -> None:
    rests = [rest(attempt) for attempt in range(1, TRIES)]
    assert rests[:3] == [timedelta(minutes=1), timedelta(minutes=2), timedelta(minutes=4)]
    assert rests[-1] == timedelta(hours=1)
    assert rest(TRIES) is None


def test_a_subject_is_one_line_that_ends() -> None:
    assert subject("gate", 7, "sign it") == "others wait for #7 sign it"
    assert len(subject("urgent", 7, "x" * 2000)) == 200


# -- notify.toml ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('url = "ntfy://host/x"', "did you mean urls?"),
        ('urls = "ntfy://host/x"', "a list"),
        ('urls = ["secret-topic"]', "a list"),
        ('quiet = "22-7"', "22:00-07:00"),
        ('quiet = "25:00-07:00"', "22:00-07:00"),
        ("digest = 24", "0 to 23"),
        ("ping = 1", "true or false"),
    ],
)
def test_what_is_wrong_in_the_file_is_named_without_its_secrets(line: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        read(f"[alice]\n{line}\n", "notify.toml")
    words = f"{caught.value.message} {caught.value.next}"
    assert said in words
    assert "secret" not in words


def test_the_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "notify.toml"
    notifier = AppriseNotifier(file, lambda name: (), WebEgress())
    assert (notifier.reach("alice").urls, notifier.problem()) == ((), "")
    file.write_text('[alice]\nurls = ["ntfy://host/a"]\ndigest = 6\n')
    assert notifier.reach("alice").digest == 6
    file.write_text("[alice\n")
    assert "not valid TOML" in notifier.problem()
    assert notifier.reach("alice").urls == ("ntfy://host/a",)
    assert "ntfy" not in repr(notifier.reach("alice"))
    file.unlink()
    assert notifier.reach("alice").urls == ()


# -- the digest's page --------------------------------------------------------------------------------------


def task(number: int, title: str = "t", *, status: Status = Status.READY, **more: object) -> Task:
    base: dict[str, object] = {"queue": "alice", "project_id": 1, "created": NOON, "updated_at": NOON}
    return Task(id=number, title=title, status=status, **{**base, **more})  # type: ignore[arg-type]


def test_a_digest_puts_each_task_under_one_heading_hottest_and_oldest_first() -> None:
    asked = Flag.BLOCKED | Flag.NEEDS_INPUT
    tasks = [
        task(1, "old", created=NOON - timedelta(days=9)),
        task(2, "hot", priority=3),
        task(3, "late", due=NOON - timedelta(hours=1), project_id=2),
        task(4, status=Status.WAITING, flags=asked, project_id=2),
        task(5, status=Status.DONE, producer_id=BOB, project_id=2),
        task(6, status=Status.DONE, producer_id=ALICE),
        task(7, status=Status.DEAD, project_id=2),
        task(8, status=Status.HELD, project_id=2),
        task(9, status=Status.READY, project_id=2),
        task(10, reference=digest.REFERENCE),
        task(1, "old"),
    ]
    found = {section.title: [t.id for t in section.tasks] for section in digest.sections(ALICE, 1, tasks, NOON)}
    assert found == {
        "Questions for you": [4],
        "Dead letters": [7],
        "Overdue": [3],
        "Held until somebody looks": [8],
        "To verify": [5],
        "Your inbox": [2, 1],
    }


def test_a_title_cannot_become_markup() -> None:
    found = digest.sections(ALICE, 1, [task(1, "# [x](http://evil) <script>")], NOON)
    page = digest.page("alice", BERLIN, NOON, found)
    assert r"\# \[x\](http://evil) \<script\>" in page
    assert page.startswith("# alice: today 13:00 CET\n")


def test_a_long_section_is_counted_and_a_day_without_anything_says_so() -> None:
    found = digest.sections(ALICE, 1, [task(n) for n in range(1, 41)], NOON)
    assert "- and 10 more" in digest.page("alice", BERLIN, NOON, found)
    assert digest.subject(found) == "digest: 40 your inbox"
    assert "Nothing waits for you." in digest.page("alice", BERLIN, NOON, [])
