"""The server as a process: it starts on an empty database, ends when it is told to, and says why it cannot start."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest
from psycopg.conninfo import conninfo_to_dict

from taskfabric.domain.errors import BadInput, Unavailable
from taskfabric.remote import RemoteFabric
from taskfabric.services import verbs
from taskfabric.settings import load
from taskfabric.wiring import build, first_administrator, first_human, open_cluster

ROOT = Path(__file__).parents[2]


@pytest.fixture
def url(empty_database: str) -> str:
    """The empty database as settings name one."""
    parts = conninfo_to_dict(empty_database)
    query = urlencode({"host": parts["host"], "port": parts["port"]})
    return f"postgresql://{parts['user']}:{parts['password']}@/{parts['dbname']}?{query}"


def free_port() -> int:
    with closing(socket.socket()) as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextmanager
def process(dsn: str, home: Path, port: int, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    env = {**os.environ, "DATABASE_URL": dsn, "FABRIC_HOME": str(home), "FABRIC_SERVER_PORT": str(port)}
    env["PYTHONPATH"] = str(ROOT / "lib")
    command = [sys.executable, "-m", "taskfabric.surfaces.app", *arguments]
    with subprocess.Popen(command, env=env, cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        try:
            yield running
        finally:
            running.kill()


def answering(fabric: RemoteFabric) -> verbs.Greeting:
    """Hello, as soon as the server answers."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return fabric.call(verbs.Hello())
        except Unavailable:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def alice(dsn: str, home: Path) -> str:
    settings = load(env={"DATABASE_URL": dsn}, home=home)
    ground = open_cluster(home, settings)
    with closing(build(settings, ground.dsn, home=home)) as house:
        token = first_human(house, "alice")
        assert token is not None
        return token


def test_the_first_human_is_made_once(url: str, tmp_path: Path) -> None:
    settings = load(env={"DATABASE_URL": url}, home=tmp_path)
    ground = open_cluster(tmp_path, settings)
    assert ground.cluster is None
    assert ground.applied
    assert open_cluster(tmp_path, settings).applied == ()
    with closing(build(settings, ground.dsn, home=tmp_path)) as house:
        assert first_administrator(house) is None
        assert first_human(house, "alice") is not None
        assert first_human(house, "bob") is None
        assert first_administrator(house) == "alice"
        assert {queue.name for queue in house.projects.queues()} == {"alice", "pool"}


def test_a_kanboard_without_its_token_is_refused_before_anything_is_opened(url: str, tmp_path: Path) -> None:
    settings = load(env={"FABRIC_BOARD": "http://127.0.0.1:9/", "DATABASE_URL": url}, home=tmp_path)
    with pytest.raises(BadInput) as caught:
        build(settings, url, home=tmp_path)
    assert "KANBOARD_TOKEN" in caught.value.next


def test_a_signal_ends_the_server_although_streams_are_open(url: str, tmp_path: Path) -> None:
    port = free_port()
    token = alice(url, tmp_path)
    with process(url, tmp_path, port) as running, RemoteFabric(f"http://127.0.0.1:{port}", token) as fabric:
        assert answering(fabric).name == "alice"
        stream = fabric.events("", follow=True)
        next(stream)
        begun = time.monotonic()
        running.send_signal(signal.SIGTERM)
        assert running.wait(10) == 0
        assert time.monotonic() - begun < 5
        stream.close()


def test_the_server_ends_with_its_supervisor(url: str, tmp_path: Path) -> None:
    port = free_port()
    token = alice(url, tmp_path)
    with (
        process(url, tmp_path, port, "--leash") as running,
        RemoteFabric(f"http://127.0.0.1:{port}", token) as fabric,
    ):
        answering(fabric)
        assert running.stdin is not None
        running.stdin.close()
        assert running.wait(10) == 0


def test_a_taken_port_is_said_and_the_exit_code_is_that_of_unavailable(url: str, tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        with process(url, tmp_path, port) as running:
            assert running.wait(30) == 6
            assert running.stderr is not None
            said = running.stderr.read().decode()
    assert f"port {port}" in said
    assert "Traceback" not in said


def test_a_database_that_is_away_is_said_and_the_exit_code_is_that_of_unavailable(tmp_path: Path) -> None:
    away = f"postgresql://fabric@127.0.0.1:{free_port()}/fabric"
    with process(away, tmp_path, free_port()) as running:
        assert running.wait(30) == 6
        assert running.stderr is not None
        assert "Traceback" not in running.stderr.read().decode()
