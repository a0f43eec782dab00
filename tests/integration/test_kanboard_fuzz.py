"""Bad input to Kanboard's API: whatever is sent, the answer is an answer, and nothing is half-written."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskfabric.surfaces.kanboard_api.dispatch import Procedure
from taskfabric.surfaces.kanboard_api.table import procedures
from taskfabric.testing import TestServer
from tests.integration.board_api import BoardApi, board_api
from tests.integration.test_fuzz_rpc import anything, huge, long, texts, usual, whole

CALLERS: Final = ("alice", "bob", "kimi", "jsonrpc")
ids = st.one_of(st.integers(0, 40), st.integers(0, 40).map(str))
words = st.sampled_from(
    [
        *("yellow", "project-member", "project-viewer", "app-user", "related", "weblink", "attachment", "red"),
        *("aGVsbG8=", "2026-12-01", "2026-12-01 10:00", "https://example.org/a", "status:open", "assignee:me #3"),
        *("tag:a tag:b due:<today", "column:Ready", "fabric.status", "relates to", "blocked", "needs-input"),
        *("task.move.column", "\\Kanboard\\Action\\TaskClose", "\\Kanboard\\Action\\TaskAssignColorUser", "jsonrpc"),
    ]
)


def value(name: str) -> st.SearchStrategy[object]:
    """Mostly what a parameter of this name takes, now and then garbage."""
    if name in ("tags",):
        usual_one: st.SearchStrategy[object] = st.lists(st.one_of(words, texts), max_size=4)
    elif name in ("values", "params"):
        usual_one = st.dictionaries(st.one_of(words, texts), st.one_of(ids, words, texts), max_size=3)
    elif name in ("project_ids",):
        usual_one = st.lists(ids, max_size=3)
    elif name == "id" or name.endswith("_id") or name in ("position", "score", "priority", "status", "task_limit"):
        usual_one = ids
    else:
        usual_one = st.one_of(words, texts)
    return st.one_of(usual_one, usual_one, usual_one, usual_one, usual_one, anything, huge)


def arguments(found: Procedure) -> st.SearchStrategy[object]:
    """By name or by place; some are left out, some are too many."""
    needed = {p.name: value(p.name) for p in found.params if p.required}
    rest = {p.name: value(p.name) for p in found.params if not p.required}
    named: st.SearchStrategy[object] = st.fixed_dictionaries(needed, optional=rest)
    placed: st.SearchStrategy[object] = st.tuples(*(value(p.name) for p in found.params)).map(list)
    return st.one_of(named, named, named, placed, anything)


class Fuzzed:
    """A served board with something on it, and one connection that is kept."""

    def __init__(self, api: BoardApi) -> None:
        self.api = api
        self.table = procedures(api.served.house.hallway)
        self.names = sorted(self.table)
        self.conn = http.client.HTTPConnection("127.0.0.1", api.served.port, timeout=60)

    def close(self) -> None:
        self.conn.close()

    def send(self, body: object, name: str) -> None:
        raw = json.dumps(body).encode()  # in ASCII, so that a lone surrogate travels as its escape
        self.conn.request("POST", "/jsonrpc.php", raw, self.api.basic(name))
        reply = self.conn.getresponse()
        got = reply.read()
        assert reply.status in (200, 401, 403, 413), (reply.status, raw[:500], got[:500])
        answer = orjson.loads(got) if got else None
        for one in answer if isinstance(answer, list) else [answer]:
            check(one, raw)


def check(answer: Any, raw: bytes) -> None:
    error = (answer or {}).get("error")
    if error is None:
        return
    assert error["code"] in (401, 403, -32600, -32601, -32602, -32700, -32007, -32002), (raw[:800], error)
    assert len(error["message"]) < 500
    for word in ("Traceback", "psycopg", "pydantic", "SQL", 'File "'):
        assert word not in str(error)


@pytest.fixture(scope="module")
def fuzzed(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    home = tmp_path_factory.mktemp("home")
    with server.database() as database, board_api(database.dsn, home) as api, closing(Fuzzed(api)) as made:
        furnish(api)
        yield made
        assert whole(api.served) == []


def furnish(api: BoardApi) -> None:
    """Two projects with a little of everything."""
    if "createTask" not in procedures(api.served.house.hallway):
        return
    for name in ("first", "second"):
        project = api.call("createProject", name)
        for who in ("bob", "kimi"):
            api.call("addProjectUser", project, api.user_id(who))
        api.call("createCategory", project, "bug")
        api.call("createProjectFile", project, "a.txt", "aGVsbG8=")
        tasks = [api.call("createTask", f"task {n}", project) for n in range(5)]
        api.call("createComment", tasks[0], api.user_id("alice"), "a comment")
        api.call("createTaskLink", tasks[0], tasks[1], 1)
        api.call("createSubtask", tasks[0], "a step")
        api.call("setTaskTags", project, tasks[0], ["a", "b"])
    api.call("createGroup", "a group")


def one_call(fuzzed: Fuzzed, data: st.DataObject, name: str) -> None:
    method = data.draw(st.sampled_from(fuzzed.names), label="method")
    params = data.draw(arguments(fuzzed.table[method]), label="params")
    fuzzed.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, name)


@usual
@given(data=st.data(), name=st.sampled_from(CALLERS))
def test_no_arguments_of_a_procedure_make_the_server_fail(fuzzed: Fuzzed, data: st.DataObject, name: str) -> None:
    one_call(fuzzed, data, name)


@usual
@given(body=anything, name=st.sampled_from(CALLERS))
def test_no_body_makes_the_server_fail(fuzzed: Fuzzed, body: object, name: str) -> None:
    fuzzed.send(body, name)


@pytest.mark.chaos
@long
@given(data=st.data(), name=st.sampled_from(CALLERS))
def test_no_arguments_of_a_procedure_make_the_server_fail_in_a_long_run(
    fuzzed: Fuzzed, data: st.DataObject, name: str
) -> None:
    one_call(fuzzed, data, name)
