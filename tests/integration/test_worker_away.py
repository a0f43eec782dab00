"""A worker whose server is away: it parks, recovers, and loses no result. G14."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from taskfabric.domain.status import Status
from taskfabric.services import verbs
from taskfabric.testing import TestDatabase
from taskfabric.testing.relay import Relay
from tests.integration.hiring import ROOT, employ, hired, until
from tests.integration.serving import Served, serving
from tests.integration.test_worker import submit, task


@pytest.fixture
def served(database: TestDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'lib'}:{ROOT}")
    with serving(database.dsn, tmp_path) as made:
        yield made


def said(served: Served, number: int) -> str:
    """What its run has said so far."""
    with served.fabric("alice") as alice:
        return "".join(chunk["text"] for chunk in alice.call(verbs.ReadChunks(task=number))["chunks"])


def test_a_result_finished_while_the_server_is_away_waits_and_is_offered(served: Served, tmp_path: Path) -> None:
    """G14: finished results wait in a spool; when the server is back they catch up."""
    employ(served, tmp_path, "ada", "hold", lease="10m")
    gate = tmp_path / "gate"
    number = submit(served, "work", "ada", description=str(gate))
    with Relay(("127.0.0.1", served.port)) as relay:
        url = f"http://{relay.host}:{relay.port}"
        with hired(served, "ada", tmp_path, url=url, poll=0.5) as one:
            until(lambda: said(served, number), what="it runs")
            relay.stall()
            relay.cut()
            gate.touch()
            until(lambda: one.spooled, within=40, what="the result waits on the disk")
            assert task(served, number).status is Status.WORKING
            relay.forward()
            until(lambda: task(served, number).status is Status.DONE, within=40, what="it is offered")
            until(lambda: not one.spooled, what="the spool is empty")
            later = submit(served, "more", "ada", description=str(gate))
            until(lambda: task(served, later).status is Status.DONE, within=40, what="it works on")
    assert task(served, number).note == "let go"
    assert task(served, number).attempts == 1


def test_a_result_that_waited_too_long_is_refused_kept_and_leaves_the_spool(
    served: Served, database: TestDatabase, tmp_path: Path
) -> None:
    """Situation 6, with the worker itself. G3."""
    employ(served, tmp_path, "ada", "hold", lease="10m")
    gate = tmp_path / "gate"
    number = submit(served, "work", "pool", description=str(gate))
    with (
        Relay(("127.0.0.1", served.port)) as relay,
        hired(served, "ada", tmp_path, url=f"http://{relay.host}:{relay.port}", poll=0.5) as one,
    ):
        until(lambda: said(served, number), what="it runs")
        relay.stall()
        relay.cut()
        gate.touch()
        until(lambda: one.spooled, within=40, what="the result waits on the disk")
        # By the board's clock the lease is over, and somebody else takes the task.
        database.clock.advance(timedelta(minutes=11))
        employ(served, tmp_path, "eve", "echo")
        with hired(served, "eve", tmp_path, once=True) as other:
            other.thread.join(20)
        assert task(served, number).producer == "eve"
        relay.forward()
        until(lambda: not one.spooled, within=40, what="it was offered")
    assert task(served, number).note == "work"
    with served.fabric("alice") as alice:
        (late,) = alice.call(verbs.Show(task=number)).late_results
    assert (late.author, late.text) == ("ada", "let go")
