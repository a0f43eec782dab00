"""A database that cannot be started, and a running fabric that does not answer: tried with rests, and told."""

from __future__ import annotations

import io
import socket
from pathlib import Path

import pytest

from taskfabric.domain.errors import Unavailable
from taskfabric.surfaces.cli import up
from taskfabric.surfaces.cli.command import Context
from taskfabric.surfaces.cli.keeping import KeptDatabase
from taskfabric.surfaces.cli.output import Out
from taskfabric.wiring import cluster_at


def test_a_database_that_does_not_start_is_tried_again_after_longer_and_longer_rests(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no folder can be made below a file")
    database = KeptDatabase(cluster_at(tmp_path / "home", tmp_path / "file" / "pg"))

    def tried() -> int:
        return caplog.text.count("database not started")

    assert (database.look(), tried()) == (False, 1)
    assert 0 < database.due <= 0.5
    assert (database.look(), tried()) == (False, 1)  # it rests
    database._next = 0.0  # the rest is over
    assert (database.look(), tried()) == (False, 2)
    assert 0.5 < database.due <= 1.0
    assert database.show() == {
        "kind": "embedded",
        "pid": None,
        "place": str(tmp_path / "file" / "pg"),
        "restarts": 0,
    }


def test_a_running_fabric_whose_board_stays_away_is_never_called_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G14: exit code 6, with what to look at."""
    monkeypatch.setattr(up, "_RECOVERY", 0.0)
    out = Out(as_json=False, env={}, stdout=io.StringIO(), stderr=io.StringIO())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        port = taken.getsockname()[1]
        found = {"host": "127.0.0.1", "port": port, "url": f"http://127.0.0.1:{port}", "pid": 1, "database": None}
        with pytest.raises(Unavailable, match="does not answer") as told:
            up._await_answer(Context(out=out, env={}, cwd=tmp_path), tmp_path, found)
    assert (told.value.code, "fabric logs" in told.value.next) == (6, True)
