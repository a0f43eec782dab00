"""The node a worker's jobs run on, and the room its model takes, by a clock that the test sets."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from taskfabric.domain.card import AgentCard, CardKind, ModelSpec
from workers.availability import Node, Room


def card(name: str = "local", **fields: Any) -> AgentCard:
    return AgentCard(name=name, kind=CardKind.MODEL, model=ModelSpec(model="openai/x"), **fields)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_card_without_a_probe_is_open() -> None:
    assert Node(card()).part(work=True).open


def test_a_node_that_does_not_answer_is_closed_and_asked_later_and_later(tmp_path: Path) -> None:
    clock, gate = Clock(), tmp_path / "up"
    node = Node(card(probe=f"test -e {gate}"), now=clock)
    part = node.part(work=True)
    assert not part.open
    assert "does not answer" in part.reason
    gate.touch()
    assert not node.part(work=True).open  # it is not asked at every turn
    first = node.seconds_to_next
    clock.now += first
    assert node.part(work=True).open
    gate.unlink()
    assert node.part(work=True).open
    clock.now += node.seconds_to_next
    assert not node.part(work=True).open


@pytest.mark.parametrize("probe", ["http://127.0.0.1:9/", "/no/such/program", "'", "http://[", "false"])
def test_whatever_a_probe_is_it_answers_or_it_does_not(probe: str) -> None:
    assert not Node(card(probe=probe)).part(work=True).open


def test_a_sleeping_node_is_open_and_woken_only_when_there_is_work(tmp_path: Path) -> None:
    gate = tmp_path / "up"
    clock = Clock()
    node = Node(
        card(
            probe=f"test -e {gate}",
            wake=("touch", str(gate)),
            sleep=("rm", str(gate)),
            idle_stop=timedelta(minutes=5),
        ),
        now=clock,
    )
    assert node.part(work=False).open
    assert not gate.exists()
    assert node.part(work=True).open
    assert gate.exists()
    clock.now += 299
    assert not node.rest()
    node.used()
    clock.now += 299
    assert not node.rest()
    clock.now += 2
    assert node.rest()
    assert not gate.exists()
    assert node.asleep


def test_two_models_that_may_not_stand_together_take_turns(tmp_path: Path) -> None:
    one, two = Room(card("one", gpu_mb=10), tmp_path), Room(card("two", gpu_mb=10), tmp_path)
    assert one.part(work=False).open
    assert two.part(work=True).open
    assert (one.is_loaded, two.is_loaded) == (False, True)
    waits = one.part(work=True)
    assert not waits.open
    assert "two" in waits.reason
    assert two.is_wanted
    two.leave()
    assert one.part(work=True).open
    assert (one.is_loaded, two.is_loaded) == (True, False)
    one.leave()


def test_what_stays_loaded_is_not_asked_to_leave(tmp_path: Path) -> None:
    one, two = Room(card("one", gpu_mb=10, keep_loaded=True), tmp_path), Room(card("two", gpu_mb=10), tmp_path)
    assert one.part(work=True).open
    refused = two.part(work=True)
    assert not refused.open
    assert "stays loaded" in refused.reason
    assert not one.is_wanted
    one.leave()


def test_models_that_may_stand_together_do(tmp_path: Path) -> None:
    one, two = Room(card("one", gpu_mb=10, beside=("two",)), tmp_path), Room(card("two", gpu_mb=10), tmp_path)
    assert one.part(work=True).open
    assert two.part(work=True).open
    one.leave()
    two.leave()


def test_the_mark_of_a_dead_worker_counts_for_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from taskfabric.domain.card import AgentCard, CardKind, ModelSpec;"
        " from workers.availability import Room;"
        " card = AgentCard(name='dead', kind=CardKind.MODEL, model=ModelSpec(model='openai/x'), gpu_mb=10);"
        " room = Room(card, Path(sys.argv[1]));"
        " assert room.part(work=True).open; import os; os.kill(os.getpid(), 9)"
    )
    root = Path(__file__).resolve().parents[2]
    env = {**os.environ, "PYTHONPATH": f"{root / 'lib'}{os.pathsep}{root}"}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=env, check=False)
    assert list(tmp_path.glob("dead.*.json"))
    room = Room(card("alive", gpu_mb=10), tmp_path)
    assert room.part(work=True).open
    room.leave()
