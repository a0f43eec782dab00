"""The keeper's decisions, without a board: what is due, what was said, what must wait."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta

import pytest
import yaml

from fabric_keeper import dead_letters, deadlines, digest, inbox, waits, zabbix
from fabric_keeper.leases import quiet_until
from fabric_keeper.metrics import Metrics, items
from fabric_keeper.reconcile import Reconcile
from fabric_keeper.rounds import Report
from taskfabric import assets
from taskfabric.domain.watch import Concern, Matter, Reader, Turn
from taskfabric.ports.fabric import R, Verb
from taskfabric.services import metrics

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def turn(gap: timedelta | None, now: datetime = NOON) -> Turn:
    return Turn(mine=True, now=now, gap=gap, lease=10 * MINUTE, renew_every=3 * MINUTE)


def concern(matter: Matter, *, since: datetime, due: datetime | None = None, told: tuple[int, ...] = ()) -> Concern:
    return Concern(matter=matter, task_id=1, occasion="1", since=since, due=due, told=frozenset(told))


def test_a_gap_longer_than_a_lease_begins_a_wait_of_one_renewal_period() -> None:
    assert quiet_until(turn(11 * MINUTE), None) == NOON + 3 * MINUTE
    assert quiet_until(turn(10 * MINUTE), None) is None
    assert quiet_until(turn(None), None) == NOON + 3 * MINUTE


def test_the_wait_ends_by_the_boards_clock() -> None:
    assert quiet_until(turn(MINUTE), NOON + MINUTE) == NOON + MINUTE
    assert quiet_until(turn(MINUTE), NOON) is None


def test_the_net_below_waits_is_drawn_once_a_minute() -> None:
    assert waits.is_due(None, NOON)
    assert not waits.is_due(NOON, NOON + MINUTE / 2)
    assert waits.is_due(NOON, NOON + MINUTE)


def overdue(told: tuple[int, ...], ago: timedelta) -> list[int]:
    found = deadlines.decide([concern(Matter.OVERDUE, since=NOON - ago, due=NOON - ago, told=told)], NOON, 24 * HOUR)
    return [word.level for word in found]


def test_a_deadline_is_told_then_escalated_each_once() -> None:
    assert overdue((), HOUR) == [deadlines.TOLD]
    assert overdue((0,), HOUR) == []
    assert overdue((), 48 * HOUR) == [deadlines.TOLD], "the second word comes after the first"
    assert overdue((0,), 48 * HOUR) == [deadlines.ESCALATED]
    assert overdue((0, 1), 480 * HOUR) == []


def test_a_death_is_told_once() -> None:
    assert len(dead_letters.decide([concern(Matter.DEAD, since=NOON)])) == 1
    assert dead_letters.decide([concern(Matter.DEAD, since=NOON, told=(0,))]) == []


@pytest.mark.parametrize(
    ("passed", "told", "level"),
    [
        (1, (), None),
        (2.5, (), 25),
        (4, (25,), None),
        (5, (25,), 50),
        (9, (25, 50), 90),
        (9, (), 90),
        (500, (90,), None),
    ],
)
def test_reminders_of_a_question(passed: float, told: tuple[int, ...], level: int | None) -> None:
    asked = concern(Matter.QUESTION, since=NOON - passed * HOUR, told=told)
    words = inbox.decide([asked], NOON, 10 * HOUR)
    assert [word.level for word in words] == ([] if level is None else [level])


def test_a_due_date_sets_the_pace_of_reminders_unless_it_was_past_already() -> None:
    near = concern(Matter.QUESTION, since=NOON - HOUR, due=NOON + HOUR)
    assert [word.level for word in inbox.decide([near], NOON, 100 * HOUR)] == [50]
    past = concern(Matter.QUESTION, since=NOON - HOUR, due=NOON - 2 * HOUR)
    assert inbox.decide([past], NOON, 100 * HOUR) == []


@pytest.mark.parametrize(
    ("zone", "hour", "last", "day"),
    [
        ("UTC", 7, None, date(2026, 11, 30)),
        ("UTC", 7, "2026-11-29", date(2026, 11, 30)),
        ("UTC", 7, "2026-11-30", None),
        ("UTC", 13, "2026-11-29", None),
        ("Asia/Tokyo", 21, "2026-11-29", date(2026, 11, 30)),
        ("Pacific/Auckland", 0, "2026-11-30", date(2026, 12, 1)),
        ("America/Los_Angeles", 7, "2026-11-29", None),
    ],
)
def test_a_digest_is_due_by_its_readers_own_calendar(zone: str, hour: int, last: str | None, day: date | None) -> None:
    found = digest.decide([Reader(name="a", zone=zone, hour=hour, last=last)], NOON)
    assert found == ([] if day is None else [("a", day)])


# -- numbers -------------------------------------------------------------------------------------------------

FIGURES = {"tasks": {"ready": 2.0, "done": 1.0}, "oldest_ready_seconds": {"": 12.5}}


def test_metrics_are_prometheus_text() -> None:
    text = metrics.text(FIGURES)
    assert [line for line in text.splitlines() if not line.endswith(" 0")] == [
        "# HELP fabric_tasks Tasks by status.",
        "# TYPE fabric_tasks gauge",
        'fabric_tasks{status="done"} 1',
        'fabric_tasks{status="ready"} 2',
        "# HELP fabric_oldest_ready_seconds How long the oldest claimable task has waited.",
        "# TYPE fabric_oldest_ready_seconds gauge",
        "fabric_oldest_ready_seconds 12.5",
    ]


def test_zabbix_items_are_the_same_numbers() -> None:
    expected = {"fabric.tasks[done]": 1, "fabric.tasks[ready]": 2, "fabric.oldest_ready_seconds": 12.5}
    found = items(metrics.text(FIGURES))
    assert {key: value for key, value in found.items() if value} == expected
    assert found["fabric.tasks[dead]"] == 0


def test_the_template_knows_every_item() -> None:
    shape = yaml.safe_load(assets.read_text("config/zabbix_template.yaml"))
    keys = {item["key"] for item in shape["zabbix_export"]["templates"][0]["items"]}
    rounds = {"": 1.0}
    named = {"keeper": 1.0, "cron": 1.0}
    every = {"tasks": {}, "leases": {}, "schedule_slots": {}, "outbox": {}, "last_round_seconds": named}
    assert set(items(metrics.text({**every, "oldest_ready_seconds": rounds}))) == keys


class Board:
    """Answers with numbers."""

    def call(self, verb: Verb[R]) -> R:
        answer: R = metrics.text(FIGURES)  # type: ignore[assignment]
        return answer


class Counts:
    """Answers with what was put in line, and remembers how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def call(self, verb: Verb[R]) -> R:
        self.asked += 1
        answer: R = {"aligned": 2}  # type: ignore[assignment]
        return answer


def test_cards_are_put_in_line_once_a_minute() -> None:
    chore, board = Reconcile(), Counts()
    reports = [chore.run_once(board, turn(MINUTE, NOON + timedelta(seconds=seconds))) for seconds in (0, 30, 59, 60)]
    assert board.asked == 2
    assert [report.is_quiet for report in reports] == [False, True, True, False]


def test_numbers_are_pushed_once_a_minute() -> None:
    pushed: list[int] = []

    def push(values: Mapping[str, float]) -> int:
        pushed.append(len(values))
        return 0

    chore = Metrics(push)
    for seconds in (0, 15, 30, 45, 60, 75):
        chore.run_once(Board(), turn(MINUTE, NOON + timedelta(seconds=seconds)))
    assert len(pushed) == 2


def test_a_zabbix_that_is_away_is_a_note_and_no_failure() -> None:
    def away(values: object) -> int:
        raise ConnectionRefusedError("refused")

    assert "refused" in Metrics(away).run_once(Board(), turn(MINUTE)).note


def answering(reply: bytes) -> tuple[str, list[bytes], threading.Thread]:
    """A trapper that takes one connection and says this."""
    sock = socket.create_server(("127.0.0.1", 0))
    got: list[bytes] = []

    def serve() -> None:
        with sock, sock.accept()[0] as conn:
            head = conn.recv(13, socket.MSG_WAITALL)
            got.append(conn.recv(struct.unpack("<I", head[5:9])[0], socket.MSG_WAITALL))
            conn.sendall(reply)

    thread = threading.Thread(target=serve)
    thread.start()
    return f"127.0.0.1:{sock.getsockname()[1]}", got, thread


def framed(text: bytes) -> bytes:
    return b"ZBXD\x01" + struct.pack("<II", len(text), 0) + text


def test_the_sender_speaks_zabbix_and_tells_how_many_were_refused() -> None:
    info = b'{"response":"success","info":"processed: 1; failed: 1; total: 2; seconds spent: 0.0"}'
    server, got, thread = answering(framed(info))
    assert zabbix.send(server, "home", {"fabric.tasks[ready]": 2.0, "x": 0.5}) == 1
    thread.join(10)
    assert json.loads(got[0])["data"][0] == {"host": "home", "key": "fabric.tasks[ready]", "value": "2"}


@pytest.mark.parametrize("reply", [b"", b"HTTP/1.1 400 Bad", framed(b"no json"), b"ZBXD\x01\xff\xff\xff\xff\0\0\0\0"])
def test_what_is_no_zabbix_is_an_error_of_the_line(reply: bytes) -> None:
    server, _, thread = answering(reply)
    with pytest.raises(OSError, match=r"hung up|Zabbix|too long|JSON"):
        zabbix.send(server, "home", {"x": 1.0})
    thread.join(10)


def test_a_report_says_what_was_done_and_is_quiet_otherwise() -> None:
    assert Report(chore="leases", counts={"ready": 0}).is_quiet
    assert str(Report(chore="leases", counts={"ready": 2}, note="x")) == "chore=leases ready=2 note='x'"


@pytest.mark.parametrize("gap", [None, MINUTE])
def test_a_turn_travels_as_it_is(gap: timedelta | None) -> None:
    assert Turn.from_json(turn(gap).to_json()) == turn(gap)
