"""CPU of the server for each call of Kanboard's API: ours, and a real one beside it.

    python -m tests.bench.kanboard
    KANBOARD_URL=http://127.0.0.1:8471/jsonrpc.php KANBOARD_TOKEN=… KANBOARD_PIDS=123,456 python -m tests.bench.kanboard

``KANBOARD_PIDS`` are the masters of its web server, of PHP and (if it has one) of its database: what they and their
children used is what a call cost; for ours that is the server process and every process of its database. The two are
visited in turns. CPU and not time, because the machine has other work; one client on one connection, so a call costs
what it costs alone.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from taskfabric.testing import Ownership, TestServer, new_folder

_ROOT: Final = Path(__file__).parents[2]
_SECONDS: Final = float(os.environ.get("BENCH_SECONDS", "5"))
_TURNS: Final = 5
_CARDS: Final = 1000
_LONG: Final = 10_000
_TEXT: Final = "Some words about what is wanted, as long as such a text commonly is. " * 3


class Api:
    """One client on one connection."""

    def __init__(self, url: str, user: str, secret: str) -> None:
        parts = urlsplit(url)
        self._path = parts.path or "/jsonrpc.php"
        self._conn = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=120)
        token = base64.b64encode(f"{user}:{secret}".encode()).decode()
        self._headers = {"Authorization": f"Basic {token}", "Content-Type": "application/json"}

    def call(self, method: str, *params: Any) -> Any:
        [answer] = self._post([{"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}], single=True)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def many(self, calls: Sequence[tuple[str, dict[str, Any]]]) -> None:
        """All of them in batches of a hundred."""
        numbered = [{"jsonrpc": "2.0", "id": n, "method": m, "params": p} for n, (m, p) in enumerate(calls)]
        for start in range(0, len(numbered), 100):
            for answer in self._post(numbered[start : start + 100]):
                if "error" in answer:
                    raise RuntimeError(str(answer["error"]))

    def _post(self, shapes: list[dict[str, Any]], *, single: bool = False) -> list[dict[str, Any]]:
        self._conn.request("POST", self._path, json.dumps(shapes[0] if single else shapes), self._headers)
        got = json.loads(self._conn.getresponse().read())
        return [got] if isinstance(got, dict) else got


@dataclass(frozen=True, kw_only=True)
class Board:
    """A server under measurement, and the processes that it consists of."""

    name: str
    api: Api
    roots: tuple[int, ...]

    def cpu(self) -> float:
        """Seconds of processor time that its processes have used."""
        return sum(_used(pid) for root in self.roots for pid in _tree(root))


def _tree(root: int) -> list[int]:
    found = [root]
    for pid in found:
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += [int(child) for child in task.read_text().split()]
    return found


def _used(pid: int) -> float:
    total = 0
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            total += int(task.read_text().split()[0])
    return total / 1e9


Call = Callable[[int], object]


def _in_turns(calls: Sequence[tuple[Board, Call]]) -> list[float]:
    """Milliseconds of CPU for one call of each: the median of what the turns found, so that no board has the machine
    in a better hour than the other."""
    found: list[list[float]] = [[] for _ in calls]
    for _, call in calls:
        for n in range(20):
            call(-1 - n)
    for turn in range(_TURNS):
        for (board, call), costs in zip(calls, found, strict=True):
            before, count, end = board.cpu(), 0, time.monotonic() + _SECONDS / _TURNS
            while count < 3 or time.monotonic() < end:
                call(turn * 100_000 + count)
                count += 1
            costs.append((board.cpu() - before) * 1000 / count)
    return [statistics.median(costs) for costs in found]


def _calls(board: Board) -> dict[str, Call]:
    """What is measured of a board, over projects of its own."""
    api = board.api
    project = api.call("createProject", f"bench {time.time_ns()}")
    columns = [column["id"] for column in api.call("getColumns", project)]
    lane = api.call("getActiveSwimlanes", project)[0]["id"]
    card = api.call("createTask", "the card", project)
    sides = itertools.cycle(columns[1:3])
    large = api.call("createProject", f"bench large {time.time_ns()}")
    api.many([("createTask", {"title": f"card {n}", "project_id": large, "description": _TEXT}) for n in range(_CARDS)])
    return {
        "getVersion": lambda _: api.call("getVersion"),
        "getTask": lambda _: api.call("getTask", card),
        "createComment": lambda n: api.call("createComment", card, 1, f"a word {n}"),
        "createTask": lambda n: api.call("createTask", f"card {n}", project),
        "moveTaskPosition": lambda _: api.call("moveTaskPosition", project, card, next(sides), 1, lane),
        f"getAllTasks of {_CARDS}": lambda _: api.call("getAllTasks", large),
        f"getBoard of {_CARDS}": lambda _: api.call("getBoard", large),
        "searchTasks, one of 1000": lambda _: api.call("searchTasks", large, "card 777 status:open"),
    }


def _within(board: Board, cards: int) -> Call:
    """A move within a column that has so many cards: to its top, to its middle, to its end."""
    api = board.api
    project = api.call("createProject", f"bench column {cards} {time.time_ns()}")
    column = api.call("getColumns", project)[0]["id"]
    lane = api.call("getActiveSwimlanes", project)[0]["id"]
    api.many([("createTask", {"title": f"card {n}", "project_id": project}) for n in range(cards)])
    card = api.call("createTask", "the one", project)
    places = itertools.cycle((1, cards // 2, cards + 1))
    return lambda _: api.call("moveTaskPosition", project, card, column, next(places), lane)


@contextlib.contextmanager
def ours() -> Iterator[Board]:
    """Our server in a process of its own, over a database of its own."""
    owned = Ownership(new_folder())
    server = TestServer(owned.folder)
    server.start()
    try:
        with server.database() as database:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.bench.kanboard", "--serve", database.dsn],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=_ROOT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join((str(_ROOT / "lib"), str(_ROOT)))},
            )
            try:
                assert process.stdout is not None
                said = json.loads(process.stdout.readline())
                row = database.connect().execute("SELECT pg_backend_pid()").fetchone()
                assert row is not None
                master = int(Path(f"/proc/{row[0]}/stat").read_text().rpartition(")")[2].split()[1])
                api = Api(f"{said['url']}/jsonrpc.php", "jsonrpc", said["token"])
                yield Board(name="taskfabric", api=api, roots=(process.pid, master))
            finally:
                process.terminate()
                process.wait(20)
    finally:
        server.close()
        owned.end()


def _serve(dsn: str) -> None:
    from tests.integration.board_api import APP_TOKEN, board_api

    with tempfile.TemporaryDirectory() as home, board_api(dsn, Path(home)) as api:
        print(json.dumps({"url": api.served.url, "token": APP_TOKEN}), flush=True)
        threading.Event().wait()


def main() -> None:
    with ours() as board:
        boards = [board]
        if os.environ.get("KANBOARD_URL"):
            api = Api(os.environ["KANBOARD_URL"], "jsonrpc", os.environ["KANBOARD_TOKEN"])
            roots = tuple(int(pid) for pid in os.environ["KANBOARD_PIDS"].split(","))
            boards.append(Board(name="kanboard", api=api, roots=roots))
        each = [_calls(one) for one in boards]
        print(f"{'ms of CPU a call':28}{'ours':>10}{'Kanboard':>10}{'ratio':>8}", flush=True)
        for name in each[0]:
            cost, *others = _in_turns([(one, calls[name]) for one, calls in zip(boards, each, strict=True)])
            beside = "".join(f"{other:10.2f}{cost / other:8.2f}" for other in others)
            print(f"{name:28}{cost:10.2f}{beside}", flush=True)
        few, many = _in_turns([(board, _within(board, 10)), (board, _within(board, _LONG))])
    print(f"a move in a column of 10: {few:.2f} ms, of {_LONG}: {many:.2f} ms, ratio {many / few:.2f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        _serve(sys.argv[2])
    else:
        main()
