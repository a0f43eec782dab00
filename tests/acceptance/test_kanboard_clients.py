"""Public clients of Kanboard work against our board as they are: a library, a command line, a tool server for models.

The library is a development dependency. The other two want versions of packages that ours exclude, so they live in
environments of their own; ``KANBOARD_CLI`` and ``KANBOARD_MCP`` name their commands.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

import pytest

from taskfabric.testing import TestServer
from tests.integration.board_api import APP_TOKEN, BoardApi, board_api

_PATIENCE: Final = 60  # seconds


@pytest.fixture(scope="module")
def api(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoardApi]:
    with server.database() as database, board_api(database.dsn, tmp_path_factory.mktemp("home")) as made:
        yield made


def endpoint(api: BoardApi) -> str:
    return f"{api.served.url}/jsonrpc.php"


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """The library wants one for its coroutines, and leaves one of its own open."""
    made = asyncio.new_event_loop()
    yield made
    made.close()


# ---------------------------------------------------------------- the library


def test_the_python_client_runs_a_project_from_its_first_column_to_its_last(
    api: BoardApi, loop: asyncio.AbstractEventLoop
) -> None:
    kanboard = pytest.importorskip("kanboard", reason="the package kanboard is not installed")
    board = kanboard.Client(endpoint(api), "alice", api.served.tokens["alice"], loop=loop)
    project = board.create_project(name="by the client", description="words")
    assert board.get_project_by_id(project_id=project)["name"] == "by the client"
    columns = {column["title"]: column["id"] for column in board.get_columns(project_id=project)}
    task = board.create_task(title="first", project_id=project, tags=["a"], description="**bold**")
    assert board.get_task(task_id=task)["column_id"] == columns["Backlog"]
    comment = board.create_comment(task_id=task, user_id=api.user_id("alice"), content="seen")
    assert board.get_comment(comment_id=comment)["comment"] == "seen"
    lane = board.get_active_swimlanes(project_id=project)[0]["id"]
    assert board.move_task_position(
        project_id=project, task_id=task, column_id=columns["Done"], position=1, swimlane_id=lane
    )
    assert board.get_task_tags(task_id=task)
    file = board.create_task_file(
        project_id=project, task_id=task, filename="a.txt", blob=base64.b64encode(b"hello").decode()
    )
    assert base64.b64decode(board.download_task_file(file_id=file)) == b"hello"
    assert board.close_task(task_id=task)
    assert board.get_all_tasks(project_id=project, status_id=1) == []
    assert [row["id"] for row in board.search_tasks(project_id=project, query="status:closed first")] == [task]
    assert board.execute("getMe")["username"] == "alice"


def test_the_python_client_says_what_is_forbidden_and_gets_false_for_no(
    api: BoardApi, loop: asyncio.AbstractEventLoop
) -> None:
    kanboard = pytest.importorskip("kanboard", reason="the package kanboard is not installed")
    board = kanboard.Client(endpoint(api), "bob", api.served.tokens["bob"], loop=loop)
    with pytest.raises(kanboard.ClientError, match="403"):
        board.get_all_users()
    with pytest.raises(kanboard.ClientError, match="Invalid params"):
        board.get_columns()
    with pytest.raises(kanboard.ClientError, match="401"):
        kanboard.Client(endpoint(api), "bob", "wrong", loop=loop).get_version()
    app = kanboard.Client(endpoint(api), "jsonrpc", APP_TOKEN, loop=loop)
    assert app.get_project_by_name(name="there is none") is False
    assert app.get_task(task_id=999_999) is None


def test_the_python_clients_coroutines_work_side_by_side(api: BoardApi, loop: asyncio.AbstractEventLoop) -> None:
    kanboard = pytest.importorskip("kanboard", reason="the package kanboard is not installed")
    board = kanboard.Client(endpoint(api), "alice", api.served.tokens["alice"], loop=loop)
    project = api.call("createProject", "side by side")

    async def several() -> list[Any]:
        return await asyncio.gather(
            *(board.create_task_async(title=f"task {number}", project_id=project) for number in range(10))
        )

    made = loop.run_until_complete(several())
    loop.run_until_complete(loop.shutdown_default_executor())
    assert len(set(made)) == 10
    assert sorted(row["position"] for row in api.call("getAllTasks", project)) == list(range(1, 11))


# ---------------------------------------------------------------- the command line


@pytest.fixture
def cli() -> str:
    command = os.environ.get("KANBOARD_CLI", "")
    if not command:
        pytest.skip("KANBOARD_CLI names no command (the package kanboard-cli in an environment of its own)")
    return command


def test_the_command_line_client_manages_a_board(api: BoardApi, cli: str, tmp_path: Path) -> None:
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "KANBOARD_URL": endpoint(api),
        "KANBOARD_TOKEN": APP_TOKEN,
        "KANBOARD_USERNAME": "alice",
        "KANBOARD_PASSWORD": api.served.tokens["alice"],
    }

    def run(*words: str) -> Any:
        done = subprocess.run(
            [cli, "--output", "json", *words], env=env, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
        assert done.returncode == 0, (words, done.stdout[-500:], done.stderr[-500:])
        return json.loads(done.stdout) if done.stdout.strip() else None

    run("project", "create", "by the cli")
    project = next(row["id"] for row in run("project", "list") if row["name"] == "by the cli")
    run("column", "add", str(project), "Review")
    assert "Review" in [row["title"] for row in run("column", "list", str(project))]
    run("swimlane", "add", str(project), "Later")
    run("category", "create", str(project), "bug")
    run("task", "create", str(project), "from the cli", "--due", "2031-12-31")
    task = run("task", "list", str(project))[0]["id"]
    assert run("task", "get", str(task))["title"] == "from the cli"
    run("comment", "add", str(task), "a word", "--user-id", str(api.user_id("alice")))
    assert run("comment", "list", str(task))
    run("subtask", "create", str(task), "a step")
    assert run("subtask", "list", str(task))
    run("tag", "set", str(project), str(task), "red")
    run("task-meta", "set", str(task), "k", "v")
    run("project-meta", "set", str(project), "k", "v")
    assert run("board", "show", str(project))
    run("task", "close", str(task))
    assert run("task", "search", str(project), "status:closed")
    assert run("app", "version")
    assert run("--auth-mode", "user", "me")


# ---------------------------------------------------------------- the tool server


@pytest.fixture
def mcp() -> str:
    command = os.environ.get("KANBOARD_MCP", "")
    if not command:
        pytest.skip("KANBOARD_MCP names no command (the package kanboard-mcp in an environment of its own)")
    return command


class ToolServer:
    """A tool server over its standard input and output."""

    def __init__(self, command: str, env: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [command], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._number = 0
        hello = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        self.ask("initialize", hello)
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(_PATIENCE)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        self._number += 1
        self._write({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        answer = json.loads(self._pipe(self._process.stdout).readline())
        assert "error" not in answer, answer
        return answer["result"]

    def tool(self, name: str, **arguments: Any) -> Any:
        """What the tool answers. Fails when it failed."""
        got = self.ask("tools/call", {"name": name, "arguments": arguments})
        shape = json.loads(got["content"][0]["text"])
        assert shape["success"], (name, shape)
        return shape["data"]

    def _write(self, message: dict[str, Any]) -> None:
        pipe = self._pipe(self._process.stdin)
        pipe.write(json.dumps(message) + "\n")
        pipe.flush()

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe


def test_the_tool_server_works_on_our_board(api: BoardApi, mcp: str, tmp_path: Path) -> None:
    """With those of its tools that name their arguments; the others send none, to any Kanboard."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "KANBOARD_URL": endpoint(api),
        "KANBOARD_USERNAME": "alice",  # it asks who it is, which the app token is not
        "KANBOARD_API_TOKEN": api.served.tokens["alice"],
    }
    tools = ToolServer(mcp, env)
    try:
        names = {tool["name"] for tool in tools.ask("tools/list", {})["tools"]}
        assert {"createTask", "getBoard", "searchTasks"} <= names
        project = api.call("createProject", "for the tools")
        assert "for the tools" in str(tools.tool("getAllProjects"))
        tools.tool("createTask", title="from a tool", project_id=project)
        task = api.call("getAllTasks", project)[0]["id"]
        tools.tool("updateTask", task_id=task, description="changed by a tool")
        assert api.call("getTask", task)["description"] == "changed by a tool"
        assert "from a tool" in str(tools.tool("searchTasks", project_id=project, query="status:open tool"))
        tools.tool("createComment", task_id=task, content="a word", user_id=api.user_id("alice"))
        assert api.call("getAllComments", task)[0]["comment"] == "a word"
        assert "alice" in str(tools.tool("test_connection"))
    finally:
        tools.close()
