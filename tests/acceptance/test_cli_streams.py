"""What a command does when its output goes nowhere: a full device, a closed stream, a reader that has left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = [["--help"], ["--version", "--json"], ["submit", "--help"], ["db", "--help"], ["completion", "bash"]]


def fabric(folder: Path, words: list[str], *, shell: str = "", **streams: Any) -> subprocess.CompletedProcess[str]:
    """The program; ``shell`` is what a shell does to its streams."""
    env = {"HOME": str(folder), "FABRIC_HOME": str(folder), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "lib")}
    command = [sys.executable, "-P", "-m", "taskfabric.surfaces.cli.main", *words]
    if shell:
        command = ["sh", "-c", f'exec "$@" {shell}', "sh", *command]
    return subprocess.run(command, env=env, cwd=folder, stderr=subprocess.PIPE, text=True, check=False, **streams)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_full_device_is_told_and_fails(tmp_path: Path, words: list[str]) -> None:
    said = fabric(tmp_path, words, shell=">/dev/full")
    assert said.returncode == 1
    assert said.stderr.startswith("fabric: the output cannot be written: No space left on device\n  next: ")
    assert "unexpected" not in said.stderr


def test_a_closed_stream_is_told_and_fails(tmp_path: Path) -> None:
    said = fabric(tmp_path, ["--help"], shell=">&-")
    assert (said.returncode, "cannot be written" in said.stderr, "Traceback" in said.stderr) == (1, True, False)


def test_an_error_that_nobody_can_be_told_still_has_its_exit_code(tmp_path: Path) -> None:
    for shell in ("2>&-", "2>/dev/full" if Path("/dev/full").exists() else "2>&-"):
        assert fabric(tmp_path, ["frobnicate"], shell=shell).returncode == 2


def test_a_reader_that_has_left_is_no_failure(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    said = fabric(tmp_path, ["completion", "bash"], stdout=writing)
    os.close(writing)
    assert (said.returncode, said.stderr) == (0, "")
