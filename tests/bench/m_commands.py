"""Measure 13: CPU seconds of a command that reads or writes the board, start-up of the interpreter and all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.bench.context import Bench
from tests.bench.host import make
from tests.bench.report import Line, median, spread
from tests.bench.sys_house import ROOT, Http

_COMMANDS: Final[Mapping[str, Sequence[str]]] = {
    "fabric list": ("list",),
    "fabric submit": ("submit", "a task of the bench", "--to", "pool"),
    "fabric show": ("show", "1", "--json"),
    "fabric claim": ("claim", "--json"),
}


def measure(bench: Bench) -> list[Line]:
    """Each command several times in turn, against a server that runs; children's CPU by wait4."""
    system = make("http", bench.admin)
    assert isinstance(system, Http)
    system.name = "commands"
    system.setup()
    system.fill(200)
    got: dict[str, list[float]] = {name: [] for name in ("python -c pass", *_COMMANDS)}
    base = {name: value for name, value in os.environ.items() if not name.startswith(("FABRIC_", "PYTHON"))}
    base |= {"FABRIC_URL": system.url, "FABRIC_LEASES": str(Path(system.home.name, "leases"))}
    base |= {"PYTHONPATH": os.pathsep.join((str(ROOT / "lib"), str(ROOT)))}
    try:
        first = system.ask("SELECT min(id) FROM tasks")
        for _ in range(2 + 3 * bench.rounds):
            got["python -c pass"].append(_cpu([sys.executable, "-c", "pass"], base))
            for name, words in _COMMANDS.items():
                token = system.agent_token if "claim" in name else system.human_token
                words = [str(first) if word == "1" else word for word in words]
                argv = [sys.executable, "-P", "-m", "taskfabric.surfaces.cli.main", *words]
                got[name].append(_cpu(argv, {**base, "FABRIC_TOKEN": token}))
    finally:
        system.close()
        system.drop()
    lines = []
    for name, values in got.items():
        warm = values[2:]  # the first ones write byte code
        lines.append(
            Line(
                number="13" if name in _COMMANDS else "-",
                what=name if name in _COMMANDS else f"for comparison: {name}",
                ours=median(warm),
                unit="s CPU",
                value=median(warm),
                must=0.3 if name in _COMMANDS else None,
                aim=0.2 if name in _COMMANDS else None,
                better="less",
                note=f"min/median/max {spread(warm)}",
                samples={name: warm},
            )
        )
    return lines


def _cpu(argv: Sequence[str], env: Mapping[str, str]) -> float:
    """CPU seconds of one run. Raises RuntimeError if it failed."""
    process = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/")
    assert process.stderr is not None
    said = process.stderr.read()
    process.stderr.close()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{argv[2:]}: {said.decode()[-500:]}")
    return used.ru_utime + used.ru_stime
