"""Agents with cards and workers for tests: a card in the server's home, a token, and a worker in this process."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from taskfabric.domain.errors import FabricError
from taskfabric.domain.principal import Via
from taskfabric.remote import RemoteFabric
from taskfabric.wiring import SYSTEM, sync_cards
from tests.integration.serving import Served
from workers.loop import Options, Worker

ROOT: Final = Path(__file__).resolve().parents[2]
_MOMENT: Final = threading.Event()  # never set


def until(condition: Callable[[], Any], *, within: float = 20.0, what: str = "it") -> Any:
    """The first true answer; fails when there is none within so many seconds."""
    deadline = time.monotonic() + within
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {within:g} s"
        _MOMENT.wait(0.02)
    return found


def employ(served: Served, home: Path, name: str, entry: str = "echo", **more: object) -> str:
    """An agent of kind python has a card, a principal and a token; the token."""
    folder = home / "cards"
    folder.mkdir(exist_ok=True)
    values = {"kind": "python", "entry": f"tests.integration.jobs:{entry}", "queues": ["pool"], "lease": "20s", **more}
    if values["kind"] != "python":
        del values["entry"]
    tables = {
        key: value for key, value in values.items() if isinstance(value, list) and value and isinstance(value[0], dict)
    }
    sections = {key: value for key, value in values.items() if isinstance(value, dict)}
    lines = [f"{key} = {_toml(value)}" for key, value in values.items() if key not in {*tables, *sections}]
    for key, section in sections.items():
        lines += [f"[{key}]", *(f"{k} = {_toml(v)}" for k, v in section.items())]
    for key, rows in tables.items():
        for row in rows:
            lines += [f"[[{key}]]", *(f"{k} = {_toml(v)}" for k, v in row.items())]
    draft = folder / f".{name}"
    draft.write_text("\n".join(lines) + "\n")
    draft.replace(folder / f"{name}.toml")
    problems = until(lambda: _manned(served, name), what=f"{name} is manned")
    assert problems is True
    agent = served.house.credentials.principal(name)
    assert agent is not None
    if name not in served.tokens:
        served.tokens[name], _ = served.house.credentials.create_token(
            agent.id, name="test", via=Via.TOKEN, stamp=SYSTEM
        )
    return served.tokens[name]


def _manned(served: Served, name: str) -> bool:
    problems = sync_cards(served.house)
    assert name not in problems, problems
    return served.house.credentials.principal(name) is not None


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return str(value) if isinstance(value, int | float) else f'"{value}"'


class Hired:
    """A worker in a thread of this process."""

    def __init__(self, worker: Worker, folder: Path) -> None:
        self.worker = worker
        self.folder = folder
        self.failure: FabricError | None = None
        self.thread = threading.Thread(target=self._work, name="hired")

    def _work(self) -> None:
        try:
            self.worker.work()
        except FabricError as error:
            self.failure = error

    @property
    def spooled(self) -> list[Path]:
        return sorted((self.folder / "spool").glob("*.json"))


@contextlib.contextmanager
def hired(served: Served, name: str, folder: Path, *, url: str = "", **options: Any) -> Iterator[Hired]:
    """A worker for this agent, until the block ends; then it is released and must be gone soon."""
    given = {"poll": 1.0, "grace": 20.0, "roots": (folder,), **options}
    where = url or served.url
    with contextlib.ExitStack() as lines:

        def connect(patience: float) -> RemoteFabric:
            return lines.enter_context(
                RemoteFabric(where, served.tokens[name], timeout=patience, instance=f"{name}@test")
            )

        place = folder / "workers" / name
        worker = Worker(connect(5.0), connect, name, Options(url=where, instance=f"{name}@test", folder=place, **given))
        one = Hired(worker, place)
        one.thread.start()
        try:
            yield one
        finally:
            worker.release()
            one.thread.join(40)
            assert not one.thread.is_alive()


def surroundings(served: Served, name: str, folder: Path) -> dict[str, str]:
    """The environment of a worker process for this agent."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith("FABRIC_")}
    return {
        **ours,
        "PYTHONPATH": f"{ROOT / 'lib'}{os.pathsep}{ROOT}",
        "FABRIC_URL": served.url,
        "FABRIC_TOKEN": served.tokens[name],
        "FABRIC_WORKERS": str(folder / "workers"),
        "FABRIC_ROOTS": str(folder),
    }
