"""Processes and their logs, as the supervisor handles them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

from taskfabric.surfaces.cli import process
from taskfabric.surfaces.cli.children import rotate
from taskfabric.surfaces.cli.start import user_name

_STUBBORN = (
    "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
    "print(child.pid, flush=True); time.sleep(600)"
)


def test_a_reused_number_is_another_process() -> None:
    since = process.started(os.getpid())
    assert process.is_running(os.getpid(), since)
    assert not process.is_running(os.getpid(), "another boot, another time")
    assert not process.is_running("12", since)
    assert not process.is_running(None, None)
    assert not process.is_running(-1, since)


def test_a_process_that_ended_does_not_run_though_nobody_asked_for_its_code() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    since = process.started(child.pid)
    assert process.is_running(child.pid, since)
    child.kill()
    while process.is_running(child.pid, since):
        pass
    child.communicate()


def test_whoever_does_not_end_when_asked_is_ended_with_all_that_it_started() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", _STUBBORN], stdout=subprocess.PIPE, start_new_session=True, text=True
    )
    assert child.stdout is not None
    grandchild = int(child.stdout.readline())
    born = process.started(grandchild)
    since = process.started(child.pid)
    assert since is not None
    process.end([(child.pid, since)], patience=0.05)
    assert child.wait() == -9
    child.stdout.close()
    while process.is_running(grandchild, born):
        pass


def test_a_log_that_has_grown_is_put_aside_and_only_so_many_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with log.open("a") as writer:
        for number in range(5):
            writer.write(f"{number}" * 100)
            writer.flush()
            assert rotate(log, limit=50, keep=2)
        writer.write("after")
    assert log.read_text() == "after"
    assert (tmp_path / "server.log.1").read_text() == "4" * 100
    assert (tmp_path / "server.log.2").read_text() == "3" * 100
    assert not (tmp_path / "server.log.3").exists()
    assert stat.S_IMODE((tmp_path / "server.log.1").stat().st_mode) == 0o600


def test_a_small_log_and_one_that_is_not_there_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("x")
    assert not rotate(tmp_path / "a.log", limit=50, keep=2)
    assert not rotate(tmp_path / "b.log", limit=50, keep=2)


def test_the_first_humans_name_is_one_that_the_fabric_takes() -> None:
    assert user_name({"USER": "Alice Cooper"}) == "alice-cooper"
    assert user_name({"USER": "root", "SUDO_USER": "bob"}) == "bob"
    assert user_name({"USER": "Ünïcödé"}) == "n-c-d"
    assert user_name({"USER": "pool"}) == "owner"
    assert user_name({"USER": "...."}) == "owner"
