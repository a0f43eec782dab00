"""The same random calls to a real Kanboard and to our board, and the same answers, but for what DESIGN.md says differs.

``KANBOARD_URL`` is the real one's ``…/jsonrpc.php``, ``KANBOARD_TOKEN`` its app token. With ``KANBOARD_DIFFERENCES``
the differences are written into that file, and none fails.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from taskfabric.domain.principal import Via
from taskfabric.testing import TestServer
from taskfabric.wiring import SYSTEM
from tests.acceptance.kanboard_vocabulary import (
    AUTHOR,
    CALLS,
    HOURS,
    INSTANTS,
    NOWHERE,
    VOLATILE,
    Argument,
    Sort,
    differs_on_purpose,
)
from tests.integration.board_api import APP_TOKEN, board_api

EXAMPLES: Final = int(os.environ.get("KANBOARD_EXAMPLES", "60"))

_PASSWORD: Final = "long enough"

Pair = tuple[int, int]  # a thing's number here and there


class Line:
    """One side's endpoint, on a connection that is kept."""

    def __init__(self, url: str, token: str, user: str = "jsonrpc") -> None:
        parts = urlsplit(url)
        self._conn = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        self._path = parts.path
        self._headers = {"Authorization": "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()}

    def call(self, method: str, params: object) -> Any:
        """The result, or the error in words. A fault of the server is none of ours."""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        self._conn.request("POST", self._path, body, self._headers)
        reply = self._conn.getresponse()
        raw = reply.read()
        if reply.status == 500:
            return "error 500"
        answer = json.loads(raw)
        if "result" in answer:
            return answer["result"]
        error = answer["error"]
        assert error["code"] != -32603, (method, params, error)
        return f"error {error['code']} {error['message']} {error.get('data', '')}"

    def close(self) -> None:
        self._conn.close()


@dataclass
class Sides:
    """Our board and the real one, and what they have in common."""

    ours: Line
    theirs: Line
    member: tuple[Line, Line]  # as the first of the users
    app_id: int  # the app token's account here
    users: list[Pair] = field(default_factory=list)
    differences: dict[str, str] = field(default_factory=dict)
    compared: Counter[str] = field(default_factory=Counter)  # answers, by procedure


@pytest.fixture(scope="module")
def sides(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    url = os.environ.get("KANBOARD_URL", "")
    if not url:
        pytest.skip("KANBOARD_URL names no Kanboard")
    with server.database() as database, board_api(database.dsn, tmp_path_factory.mktemp("home")) as api:
        place = f"{api.served.url}/jsonrpc.php"
        ours, theirs = Line(place, APP_TOKEN), Line(url, os.environ.get("KANBOARD_TOKEN", ""))
        users = []
        for name in ("diff-anna", "diff-ben"):
            known = theirs.call("getUserByName", {"username": name})
            there = known["id"] if known else theirs.call("createUser", {"username": name, "password": _PASSWORD})
            users.append((ours.call("createUser", {"username": name, "password": _PASSWORD}), there))
        token, _ = api.served.house.credentials.create_token(users[0][0], name="diff", via=Via.TOKEN, stamp=SYSTEM)
        member = Line(place, token, "diff-anna"), Line(url, _PASSWORD, "diff-anna")
        made = Sides(ours=ours, theirs=theirs, member=member, app_id=api.user_id("jsonrpc"), users=users)
        yield made
        for line in (ours, theirs, *member):
            line.close()
        wanted = os.environ.get("KANBOARD_DIFFERENCES")
        if wanted:
            often = ", ".join(f"{name} {number}" for name, number in sorted(made.compared.items()))
            found = "\n".join(sorted(made.differences.values()))
            Path(wanted).write_text(f"{made.compared.total()} answers: {often}\n\n{found}", encoding="utf-8")


def machine(sides: Sides) -> type[RuleBasedStateMachine]:
    """Random calls on a project of their own, made on both sides alike."""
    collecting = bool(os.environ.get("KANBOARD_DIFFERENCES"))

    class Both(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.things: dict[Sort, list[Pair]] = {sort: [] for sort in Sort}
            self.things[Sort.USER] = list(sides.users)
            self.gone: set[tuple[Sort, Pair]] = set()
            self.parted = False  # the two boards are no longer alike
            self.log: list[str] = []

        @initialize()
        def begin(self) -> None:
            self.project("diff project")
            ours, theirs = self.things[Sort.PROJECT][0]
            first: list[tuple[Sort, str, dict[str, object]]] = [
                (Sort.TASK, "createTask", {"title": "one", "tags": ["a"]}),
                (Sort.TASK, "createTask", {"title": "two"}),
                (Sort.TASK, "createTask", {"title": "Three", "tags": ["a", "b"]}),
                (Sort.CATEGORY, "createCategory", {"name": "one"}),
                (Sort.SWIMLANE, "addSwimlane", {"name": "two"}),
            ]
            for makes, method, more in first:
                here = sides.ours.call(method, {**more, "project_id": ours})
                there = sides.theirs.call(method, {**more, "project_id": theirs})
                self.parted = self.parted or not (_is_id(here) and _is_id(there))
                self.things[makes].append((here, there))

        def project(self, name: str) -> None:
            """One more, with its columns and its swimlane."""
            pair = (sides.ours.call("createProject", [name]), sides.theirs.call("createProject", [name]))
            self.things[Sort.PROJECT].append(pair)
            for here, there in zip(*self._rows("getColumns", pair), strict=True):
                self.things[Sort.COLUMN].append((here["id"], there["id"]))
            for here, there in zip(*self._rows("getAllSwimlanes", pair), strict=True):
                self.things[Sort.SWIMLANE].append((here["id"], there["id"]))
            for user in self.things[Sort.USER]:
                sides.ours.call("addProjectUser", [pair[0], user[0]])
                sides.theirs.call("addProjectUser", [pair[1], user[1]])

        def _rows(self, method: str, pair: Pair) -> tuple[list[Any], list[Any]]:
            return sides.ours.call(method, [pair[0]]), sides.theirs.call(method, [pair[1]])

        @rule(data=st.data())
        def call(self, data: st.DataObject) -> None:
            if self.parted:
                return
            # One number a step, mixed with the step: small numbers come often, and must not mean one procedure.
            choose = Random(f"{data.draw(st.integers(0, 2**32 - 1))} {len(self.log)}")
            method = choose.choice(sorted(CALLS))
            spec = CALLS[method]
            ours: dict[str, object] = {}
            theirs: dict[str, object] = {}
            named: list[tuple[Sort, Pair]] = []
            for name, sort in spec.arguments.items():
                left_out, number = choose.randrange(3) == 0, choose.randrange(10_000)
                if name in spec.optional and (left_out or (isinstance(sort, Sort) and not self._alive(sort))):
                    continue
                here, there = self._value(number, sort)
                ours[name], theirs[name] = here, there
                if isinstance(sort, Sort):
                    named.append((sort, (here, there)))
            # A real one takes its time over each password.
            both = sides.member if choose.randrange(6) == 0 else (sides.ours, sides.theirs)
            alike = self._compare(method, both, ours, theirs)
            if method in ("moveTaskPosition", "closeTask") and alike:
                self._learn(ours["task_id"], theirs["task_id"])
            if method.startswith("remove") and "User" not in method and alike and named:
                self.gone.add(named[-1])

        def _learn(self, here: object, there: object) -> None:
            """A card that has come again is known from now on."""
            rows = sides.ours.call("getTask", [here]), sides.theirs.call("getTask", [there])
            kin = [row["recurrence_child"] for row in rows if isinstance(row, dict) and _is_id(row["recurrence_child"])]
            if len(kin) == 2 and (kin[0], kin[1]) not in self.things[Sort.TASK]:
                self.things[Sort.TASK].append((kin[0], kin[1]))

        def _value(self, number: int, sort: Argument) -> tuple[Any, Any]:
            if not isinstance(sort, Sort):
                value = sort[number % len(sort)]
                return value, value
            there_are = self._alive(sort)
            if not there_are or number % 50 == 0:
                return NOWHERE, NOWHERE
            return there_are[number % len(there_are)]

        def _alive(self, sort: Sort) -> list[Pair]:
            return [pair for pair in self.things[sort] if (sort, pair) not in self.gone]

        def _compare(
            self, method: str, both: tuple[Line, Line], ours: dict[str, object], theirs: dict[str, object]
        ) -> bool:
            """True if the answers were the same. Fails, unless they differ on purpose."""
            here, there = both[0].call(method, ours), both[1].call(method, theirs)
            self.log.append(f"{'as a member ' if both is sides.member else ''}{method} {ours} -> {here!r:.200}")
            # It was busy, and nobody knows whether it was done.
            if isinstance(there, str) and there.startswith(("error 0", "error 500")):
                self.parted = True
                return False
            sides.compared[method] += 1
            makes = CALLS[method].makes
            if makes is not None and _is_id(here) and _is_id(there):
                self.things[makes].append((here, there))
                return True
            mine = self._plain(method, here, 0)
            real = self._plain(method, there, 1)
            if mine == real:
                # There the new tags of a task that does not exist are made all the same.
                self.parted = method == "setTaskTags" and NOWHERE in ours.values()
                return True
            if differs_on_purpose(method, ours, mine, real):
                self.parted = not CALLS[method].reads
                return False
            if not collecting:
                raise AssertionError(
                    f"{method} {ours}\n  ours   {mine!r:.1500}\n  theirs {real!r:.1500}\n" + "\n".join(self.log[-12:])
                )
            key = f"{method} {_kind(mine)} {_kind(real)} {_where(mine, real)}"
            sides.differences.setdefault(
                key,
                f"{method} {ours}\n   ours   {mine!r:.700}\n   theirs {real!r:.700}\n   {_where(mine, real)}\n"
                + "".join(f"   before {line}\n" for line in self.log[:-1]),
            )
            self.parted = not CALLS[method].reads
            return False

        def _plain(self, method: str, value: Any, side: int) -> Any:
            """Numbers of things as their place in what both have, and nothing that two clocks would disagree about."""
            makes = CALLS[method].makes
            if makes is not None and _is_id(value):
                return f"a new {makes.value}"
            named = self._named(value, side, CALLS[method].of)
            if method == "searchTasks" and isinstance(named, list):
                named.sort(key=lambda row: str(row["id"]))  # no order is promised, and on PostgreSQL there is none
            return named

        def _named(self, value: Any, side: int, of: Sort | None) -> Any:
            if isinstance(value, list):
                return [self._named(item, side, of) for item in value]
            if isinstance(value, dict):
                if value and all(key.isdigit() for key in value) and of is not None:
                    return {
                        str(self._place(of, int(key), side)): self._named(item, side, None)
                        for key, item in sorted(value.items(), key=lambda pair: int(pair[0]))
                    }
                return {key: self._field(key, item, side, of) for key, item in value.items() if key not in VOLATILE}
            return value

        def _field(self, key: str, item: Any, side: int, of: Sort | None) -> Any:
            if (of is Sort.TASK and key == "position") or item == "jsonrpc":
                return None  # ours are counted, theirs have gaps; and there the app token has no name
            if of is Sort.COMMENT and key in AUTHOR:
                return None  # theirs is whom the app token named, ours is who called
            if key == "creator_name":
                return item or None  # of the app token, who is somebody here
            if key in INSTANTS:
                return bool(item)
            if key in HOURS and isinstance(item, str):
                return float(item)  # on PostgreSQL theirs are texts
            sort = of if key == "id" else Sort.of_field(key)
            if sort is Sort.USER and side == 0 and item == sides.app_id:
                return 0  # to Kanboard the app token is nobody
            if sort is not None and isinstance(item, int) and item:
                return self._place(sort, item, side)
            inner = {"columns": Sort.COLUMN, "tasks": Sort.TASK, "tags": Sort.TAG}.get(key, of)
            return self._named(item, side, inner)

        def _place(self, sort: Sort, id: int, side: int) -> str:
            # The newest first: SQLite gives the number of a removed row to the next one.
            for number, pair in reversed(list(enumerate(self.things[sort]))):
                if pair[side] == id:
                    return f"{sort.value} {number}"
            return f"some {sort.value}"

        def teardown(self) -> None:
            for here, there in self.things[Sort.PROJECT]:
                sides.ours.call("removeProject", [here])
                sides.theirs.call("removeProject", [there])

    return Both


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _kind(value: object) -> str:
    return type(value).__name__ if isinstance(value, dict | list) else repr(value)


def _where(mine: Any, real: Any, path: str = "") -> str:
    """Where two values part first."""
    if isinstance(mine, Mapping) and isinstance(real, Mapping):
        if set(mine) != set(real):
            return (
                f"{path} keys: only ours {sorted(set(mine) - set(real))}, only theirs {sorted(set(real) - set(mine))}"
            )
        for key in mine:
            if mine[key] != real[key]:
                return _where(mine[key], real[key], f"{path}.{key}")
    if isinstance(mine, list) and isinstance(real, list):
        if len(mine) != len(real):
            return f"{path} {len(mine)} and {len(real)} entries"
        for one, other in zip(mine, real, strict=True):
            if one != other:
                return _where(one, other, f"{path}[]")
    return f"{path} {mine!r:.100} and {real!r:.100}"


def test_the_same_calls_have_the_same_answers(sides: Sides) -> None:
    run_state_machine_as_test(
        machine(sides),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=40,
            deadline=None,
            derandomize=False,
            print_blob=True,
            phases=(Phase.explicit, Phase.reuse, Phase.generate),  # a shrunk one takes minutes; the log says all
            suppress_health_check=list(HealthCheck),
        ),
    )
