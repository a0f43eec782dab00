"""A worker with its server: what it does with tasks, and how it comes and goes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from taskfabric.domain.errors import Refused
from taskfabric.domain.status import Status
from taskfabric.domain.task import Task
from taskfabric.services import verbs
from taskfabric.testing import TestDatabase
from tests.integration.hiring import ROOT, employ, hired, until
from tests.integration.serving import Served, serving


@pytest.fixture
def served(database: TestDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'lib'}:{ROOT}")
    with serving(database.dsn, tmp_path) as made:
        yield made


def submit(served: Served, title: str, to: str, **more: object) -> int:
    with served.fabric("alice") as alice:
        return alice.call(verbs.Submit(title=title, to=to, **more)).task.id  # type: ignore[arg-type]


def task(served: Served, number: int) -> Task:
    return served.house.board.get(number, None)


def ended(served: Served, number: int, *statuses: Status) -> Task:
    wanted = statuses or (Status.DONE,)
    until(lambda: task(served, number).status in wanted, what=f"#{number} is {wanted}, not {task(served, number)}")
    return task(served, number)


def comments(served: Served, number: int) -> str:
    with served.fabric("alice") as alice:
        return "\n".join(entry.text for entry in alice.call(verbs.Show(task=number)).entries)


# ---------------------------------------------------------------- the way of a task


def test_a_task_is_claimed_run_and_done_with_what_its_refs_brought(served: Served, tmp_path: Path) -> None:
    employ(served, tmp_path, "ada")
    (tmp_path / "notes.txt").write_text("buy milk")
    other = submit(served, "an earlier task", "alice", description="of long ago")
    number = submit(served, "read", "ada", refs=("file:notes.txt", f"task:{other}", "file:/etc/hostname"))
    with served.fabric("alice") as alice:
        alice.call(verbs.Comment(task=number, text="mind the gap"))
    with hired(served, "ada", tmp_path):
        done = ended(served, number)
    assert done.note is not None
    assert "file:notes.txt: buy milk" in done.note
    assert "an earlier task" not in done.note or "of long ago" in done.note
    assert "there is no such file below" in done.note
    assert "alice: mind the gap" in done.note
    assert (done.producer, done.attempts, done.verdict) == ("ada", 1, "pass")


def test_a_pool_task_is_taken_as_well(served: Served, tmp_path: Path) -> None:
    employ(served, tmp_path, "ada")
    number = submit(served, "for anybody", "pool")
    with hired(served, "ada", tmp_path):
        assert ended(served, number).producer == "ada"


def test_every_way_to_end_becomes_its_status(served: Served, tmp_path: Path) -> None:
    """Outcomes are values."""
    wanted = {
        "fail": (Status.READY, "the agent failed; it is incident"),
        "die": (Status.READY, "died of signal 9"),
        "nothing": (Status.READY, "an entry point returns"),
        "ask": (Status.WAITING, "Which of the two?"),
        "attach": (Status.DONE, "see the report"),
    }
    number = 0
    for entry, (status, said) in wanted.items():
        employ(served, tmp_path, f"a-{entry}", entry)
        number = submit(served, entry, f"a-{entry}")
        with hired(served, f"a-{entry}", tmp_path, once=True) as one:
            one.thread.join(20)
        assert task(served, number).status is status, entry
        assert said in comments(served, number), entry
        assert "Traceback" not in comments(served, number)
    with served.fabric("alice") as alice:
        (attached,) = alice.call(verbs.Show(task=number)).attachments
    assert (attached.name, attached.size) == ("report.txt", 9)


def test_the_words_of_an_exception_are_in_the_log_only_under_the_number_that_the_card_names(
    served: Served, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """D4: whoever reads the card is not whoever may read a password in a traceback."""
    employ(served, tmp_path, "ada", "fail")
    number = submit(served, "fail", "ada")
    with hired(served, "ada", tmp_path, once=True) as one:
        one.thread.join(20)
    with served.fabric("alice") as alice:
        chunks = alice.call(verbs.ReadChunks(task=number))["chunks"]
    assert chunks == []
    said = comments(served, number)
    assert "no such branch" not in said
    named = said.partition("incident ")[2][:8]
    assert any("Traceback" in line and "and a second line" in line for line in caplog.messages if named in line)


def test_a_flood_of_output_is_kept_up_to_a_cap(served: Served, tmp_path: Path) -> None:
    employ(served, tmp_path, "ada", "chatty")
    number = submit(served, "talk", "ada", description="20000")  # 20 MB
    with hired(served, "ada", tmp_path):
        ended(served, number)
    kept, after, last = 0, -1, ""
    with served.fabric("alice") as alice:
        while chunks := alice.call(verbs.ReadChunks(task=number, after=after))["chunks"]:
            kept += sum(len(c["text"]) for c in chunks)
            after, last = chunks[-1]["n"], chunks[-1]["text"]
    assert kept < 1_100_000
    assert "more output than is kept" in last


def test_a_parent_waits_without_a_worker_and_gets_its_childrens_results(served: Served, tmp_path: Path) -> None:
    """One worker with one slot does it all: waiting on children holds none."""
    employ(served, tmp_path, "ada", "family", tools=["submit"])
    number = submit(served, "the parent", "ada")
    with hired(served, "ada", tmp_path):
        done = ended(served, number)
    assert done.children == 2
    assert done.note is not None
    assert "left" in done.note
    assert "right" in done.note
    assert done.attempts == 1


def test_without_the_tool_a_run_submits_nothing(served: Served, tmp_path: Path) -> None:
    employ(served, tmp_path, "ada", "family")
    number = submit(served, "the parent", "ada")
    with hired(served, "ada", tmp_path, once=True) as one:
        one.thread.join(20)
    assert task(served, number).children == 0
    assert "not granted" in comments(served, number)


# ---------------------------------------------------------------- how many, and whether at all


def test_so_many_run_at_once_as_the_card_says_over_all_its_workers(served: Served, tmp_path: Path) -> None:
    employ(served, tmp_path, "ada", "hold", concurrency=2)
    gate = tmp_path / "gate"
    numbers = [submit(served, f"task {n}", "ada", description=str(gate)) for n in range(5)]
    with hired(served, "ada", tmp_path / "one"), hired(served, "ada", tmp_path / "two"):
        until(lambda: sum(task(served, n).status is Status.WORKING for n in numbers) == 2, what="two run")
        assert sum(task(served, n).status is Status.WORKING for n in numbers) == 2
        gate.touch()
        for number in numbers:
            ended(served, number)


def test_a_paused_agent_starts_nothing_until_it_is_resumed(served: Served, tmp_path: Path) -> None:
    employ(served, tmp_path, "ada")
    with served.fabric("alice") as alice, hired(served, "ada", tmp_path, poll=0.2):
        alice.call(verbs.Pause(name="ada"))
        asked_since(served, "ada")  # from now on it knows
        number = submit(served, "later", "ada")
        asked_since(served, "ada")
        assert task(served, number).status is Status.READY
        assert roster(served, "ada")["open"] is False
        alice.call(verbs.Resume(name="ada"))
        ended(served, number)


def asked_since(served: Served, name: str) -> None:
    """The worker has asked for its a(t) after this moment."""
    now = served.house.board.now()

    def seen() -> bool:
        workers: list[dict[str, str]] = roster(served, name)["workers"]  # type: ignore[assignment]
        return any(datetime.fromisoformat(worker["seen"]) > now for worker in workers)

    until(seen, what="it asks")


def roster(served: Served, name: str) -> dict[str, object]:
    with served.fabric("alice") as alice:
        return next(one for one in alice.call(verbs.Agents()) if one["name"] == name)


def test_a_changed_card_counts_for_the_next_run_and_disturbs_none(served: Served, tmp_path: Path) -> None:
    employ(served, tmp_path, "ada", "hold")
    gate = tmp_path / "gate"
    first = submit(served, "first", "ada", description=str(gate))
    with hired(served, "ada", tmp_path, poll=0.3) as one:
        until(lambda: task(served, first).status is Status.WORKING, what="it runs")
        employ(served, tmp_path, "ada", "echo")
        until(lambda: one.worker.card.entry.endswith(":echo"), what="the card is read anew")
        assert task(served, first).status is Status.WORKING
        gate.touch()
        assert ended(served, first).note == "let go"
        second = submit(served, "second", "ada")
        assert ended(served, second).note == "second"


def test_a_token_of_another_is_refused_at_the_start(served: Served, tmp_path: Path) -> None:
    employ(served, tmp_path, "ada")
    served.tokens["ada"] = served.tokens["kimi"]
    with pytest.raises(Refused, match="kimi's"), hired(served, "ada", tmp_path):
        pass


def test_a_card_that_cannot_be_served_is_a_closed_agent_that_says_why(served: Served, tmp_path: Path) -> None:
    employ(served, tmp_path, "far", kind="remote", url="https://somebody@agent.example")
    with hired(served, "far", tmp_path, patient=True, poll=0.3):
        until(lambda: "not the address of an agent" in str(roster(served, "far")["why"]), what="the roster says why")


# ---------------------------------------------------------------- how a run is ended


def test_a_run_without_a_sign_of_progress_is_ended(served: Served, tmp_path: Path) -> None:
    employ(served, tmp_path, "ada", "silent", watchdog="1s")
    number = submit(served, "silence", "ada")
    with hired(served, "ada", tmp_path):
        until(lambda: "no sign of progress" in comments(served, number), what="the watchdog")
    assert task(served, number).attempts == 1


def test_a_run_that_takes_too_long_is_ended(served: Served, tmp_path: Path) -> None:
    employ(served, tmp_path, "ada", "hold", max_runtime="1s", watchdog="1s")
    number = submit(served, "for ever", "ada", description=str(tmp_path / "never"))
    with hired(served, "ada", tmp_path):
        until(lambda: "ran longer than" in comments(served, number), what="the end")


def test_a_cancelled_task_ends_its_run(served: Served, tmp_path: Path) -> None:
    """G8: the loss of the lease is told to the run, which stops."""
    employ(served, tmp_path, "ada", "hold", lease="5s")
    number = submit(served, "unwanted", "ada", description=str(tmp_path / "never"))
    with served.fabric("alice") as alice, hired(served, "ada", tmp_path):
        until(lambda: task(served, number).status is Status.WORKING, what="it runs")
        alice.call(verbs.Cancel(task=number, note="no longer"))
        until(lambda: roster(served, "ada")["workers"][0]["running"] == 0, what="the run has ended")  # type: ignore[index]
    assert task(served, number).status is Status.CANCELLED


def test_a_drained_worker_lets_its_run_end(served: Served, tmp_path: Path) -> None:
    employ(served, tmp_path, "ada", "hold")
    gate = tmp_path / "gate"
    number = submit(served, "the last", "ada", description=str(gate))
    other = submit(served, "another", "ada", description=str(gate))
    with hired(served, "ada", tmp_path) as one:
        until(lambda: task(served, number).status is Status.WORKING, what="it runs")
        one.worker.drain()
        until(lambda: roster(served, "ada")["workers"][0]["state"] == "draining", what="it drains")  # type: ignore[index]
        gate.touch()
        one.thread.join(20)
        assert not one.thread.is_alive()
    assert task(served, number).status is Status.DONE
    assert task(served, other).status is Status.READY


def test_a_second_call_gives_back_at_once_what_runs_and_costs_no_attempt(served: Served, tmp_path: Path) -> None:
    """G9."""
    employ(served, tmp_path, "ada", "hold")
    number = submit(served, "the last", "ada", description=str(tmp_path / "never"))
    with hired(served, "ada", tmp_path) as one:
        until(lambda: task(served, number).status is Status.WORKING, what="it runs")
        one.worker.drain()
        one.worker.drain()
        one.thread.join(20)
        assert not one.thread.is_alive()
    assert (task(served, number).status, task(served, number).attempts) == (Status.READY, 0)


def test_once_does_what_there_is_and_ends(served: Served, tmp_path: Path) -> None:
    employ(served, tmp_path, "ada")
    numbers = [submit(served, f"task {n}", "ada") for n in range(3)]
    with hired(served, "ada", tmp_path, once=True) as one:
        one.thread.join(20)
        assert not one.thread.is_alive()
        assert one.worker.claimed == 3
    assert {task(served, n).status for n in numbers} == {Status.DONE}


def test_no_thread_of_a_worker_is_left(served: Served, tmp_path: Path) -> None:
    employ(served, tmp_path, "ada")
    submit(served, "a task", "ada")
    with hired(served, "ada", tmp_path, once=True) as one:
        one.thread.join(20)
    until(
        lambda: not [t for t in threading.enumerate() if t.name.startswith(("errand", "run-", "heartbeat", "ear"))],
        what="the threads have ended",
    )
