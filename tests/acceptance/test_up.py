"""``fabric up`` with real processes: it starts, survives, is found again and leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from taskfabric.surfaces.cli import process
from taskfabric.testing import new_folder

ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 120.0  # seconds; generous, for a busy machine


class Home:
    """A fabric's home of the test's own, and the command line for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "home"
        ours = {key: value for key, value in os.environ.items() if not key.startswith(("FABRIC_", "DATABASE_URL"))}
        self.env = {
            **ours,
            "PYTHONPATH": f"{ROOT / 'lib'}",
            "FABRIC_HOME": str(self.data),
            "FABRIC_PG_DATA": str(folder / "pg"),
            "FABRIC_LEASES": str(folder / "leases"),
            "USER": "alice",
        }

    def start(self, *argv: str, **how: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-P", "-m", "taskfabric.surfaces.cli.main", *argv]
        return subprocess.Popen(
            command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder, **how
        )

    def run(self, *argv: str, code: int = 0) -> str:
        """One command that must end with this code; its stdout."""
        done = self.start(*argv)
        out, err = answer(done)
        assert done.returncode == code, (argv, out, err)
        assert "Traceback" not in err
        return out

    def json(self, *argv: str) -> Any:
        return json.loads(self.run(*argv, "--json"))

    @property
    def runtime(self) -> dict[str, Any]:
        shape: dict[str, Any] = json.loads((self.data / "runtime.json").read_text())
        return shape

    def processes(self) -> list[tuple[int, str]]:
        """The supervisor and its children, as they are now."""
        known = [self.runtime, *self.runtime["children"]]
        return [(one["pid"], one["started_ticks"]) for one in known]

    def remove(self) -> None:
        with contextlib.suppress(AssertionError):
            self.run("down")
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """One that runs, detached."""
    made = Home(new_folder())
    made.run("up", "--detach", "--port", "0")
    yield made
    made.remove()


@pytest.fixture
def fresh() -> Iterator[Callable[[], Home]]:
    """Makes homes where nothing has run yet."""
    made: list[Home] = []

    def make() -> Home:
        made.append(Home(new_folder()))
        return made[-1]

    yield make
    for one in made:
        one.remove()


def answer(command: subprocess.Popen[str]) -> tuple[str, str]:
    """Both streams of a command when it has ended; one that does not end is killed."""
    try:
        return command.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        command.kill()
        raise AssertionError(f"{command.args!r} did not end: {command.communicate()}") from None


def eventually(what: Callable[[], Any]) -> Any:
    """The first true answer; fails when there is none in time."""
    deadline = time.monotonic() + _PATIENCE
    while not (found := what()):
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)  # another process' progress is waited for
    return found


def test_a_second_start_prints_where_it_runs_as_one_line_for_programs(home: Home) -> None:
    out = home.run("up", "--detach", "--json")
    assert len(out.splitlines()) == 1
    shape = json.loads(out)
    assert set(shape) == {"url", "user", "token", "data"}
    assert shape["url"].startswith("http://127.0.0.1:")
    assert not shape["url"].endswith("/")
    assert (shape["user"], shape["data"]) == ("alice", str(home.data))
    assert "it runs already" in home.run("up")


def test_a_fresh_board_has_three_queues_with_a_task_each_and_one_for_each_enabled_card(home: Home) -> None:
    enabled = [agent["name"] for agent in home.json("agents") if agent["enabled"]]
    assert {(q["name"], q["kind"]) for q in home.json("queue", "list")} == {
        ("alice", "inbox"),
        ("helper", "agent"),
        ("pool", "pool"),
        *((name, "agent") for name in enabled),
    }
    assert {task["queue"] for task in home.json("list")} >= {"alice", "helper", "pool"}


def test_a_second_terminal_submits_claims_finishes_and_another_verifies(home: Home) -> None:
    home.env["FABRIC_TOKEN"] = home.json("token", "create", "helper")["token"]
    try:
        ref = home.json("claim")["ref"]
        home.run("done", ref, "--note", "hello")
    finally:
        del home.env["FABRIC_TOKEN"]
    home.run("verify", ref.partition("@")[0])
    log = home.run("log", ref)
    assert log.index("claimed by `helper`") < log.index("hello") < log.index("verified by `alice`")


def test_what_only_the_owner_may_read_only_the_owner_can_read(home: Home) -> None:
    for name in ("credentials", "services.json", "runtime.json", "logs/server.log", "logs/supervisor.log"):
        assert stat.S_IMODE((home.data / name).stat().st_mode) == 0o600, name
    assert stat.S_IMODE(home.data.stat().st_mode) == 0o700


def test_status_logs_and_doctor_tell_what_runs(home: Home) -> None:
    status = home.json("status")
    assert (status["running"], status["answers"], status["url"]) == (True, True, home.runtime["url"])
    assert "serving" in home.run("logs", "server")
    home.run("logs", "nothing", code=3)
    assert all(check["state"] != "fail" for check in home.json("doctor"))


def test_the_credentials_are_not_handed_to_the_children(home: Home) -> None:
    token = home.json("up")["token"].encode()
    for child in home.runtime["children"]:
        environ = Path(f"/proc/{child['pid']}/environ")
        if environ.exists():
            assert token not in environ.read_bytes()


def test_a_server_that_is_killed_is_started_again_and_nothing_is_lost(home: Home) -> None:
    """G5."""
    number = home.json("submit", "survive")["id"]
    child = home.runtime["children"][0]
    assert child["name"] == "server"
    os.kill(child["pid"], signal.SIGKILL)
    eventually(lambda: home.runtime["children"][0]["pid"] not in (None, child["pid"]))
    eventually(lambda: home.json("status")["answers"])
    assert home.json("show", str(number))["title"] == "survive"
    assert home.runtime["children"][0]["restarts"] >= 1


def test_the_database_is_not_stopped_under_a_running_fabric(home: Home, tmp_path: Path) -> None:
    home.run("db", "stop", code=1)
    assert home.json("db", "status")["running"] is True
    assert home.json("db", "backup", str(tmp_path / "dump"))["size"] > 0


def postmaster(home: Home) -> Any:
    """The number of the database's first process, once it accepts connections."""
    return eventually(lambda: (status := home.json("db", "status"))["ready"] and status["pid"])


def test_a_database_that_is_killed_is_started_again_and_nothing_is_lost(home: Home) -> None:
    """G5, G14."""
    number = home.json("submit", "survive that too")["id"]
    killed = postmaster(home)
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: home.runtime["database"]["pid"] not in (None, killed))
    eventually(lambda: home.json("status")["answers"])
    assert home.runtime["database"]["restarts"] >= 1
    assert home.json("show", str(number))["title"] == "survive that too"


def test_a_database_stopped_on_purpose_stays_stopped_until_a_start_wants_it(home: Home) -> None:
    home.run("db", "stop", "--force")
    eventually(lambda: home.runtime["database"]["pid"] is None)  # it was looked at, and left
    eventually(lambda: home.json("status")["answers"] is False)  # the server asks its database once a second
    assert home.json("db", "status")["stopped"] is True
    assert home.json("up", "--detach")["url"] == home.runtime["url"]
    assert home.json("status")["answers"] is True


def test_a_second_start_makes_another_token_where_the_local_one_was_revoked(home: Home) -> None:
    before = home.json("up")
    for one in home.json("token", "list"):
        if one["principal"] == "alice":
            home.run("token", "revoke", str(one["id"]))
    home.run("list", code=5)
    after = home.json("up")
    assert (after["user"], after["url"]) == ("alice", before["url"])
    assert after["token"] != before["token"]
    home.run("list")


def test_the_local_user_resets_himself_and_stays_inside(home: Home) -> None:
    before = home.json("up")["token"]
    home.run("user", "reset", "alice")
    assert home.json("up")["token"] != before
    home.run("list")


def test_a_second_home_on_the_same_database_is_refused_and_harms_nothing(home: Home, fresh: Callable[[], Home]) -> None:
    other = fresh()
    other.env["FABRIC_PG_DATA"] = home.env["FABRIC_PG_DATA"]
    up = other.start("up", "--detach", "--port", "0")
    _, err = answer(up)
    assert (up.returncode, str(home.data) in err, "FABRIC_PG_DATA" in err) == (2, True, True)
    other.run("down")
    other.run("db", "stop", code=2)
    assert home.json("status")["answers"] is True
    home.run("list")


def test_a_killed_supervisor_takes_its_children_along_and_the_next_start_goes_on(fresh: Callable[[], Home]) -> None:
    home = fresh()
    first = home.json("up", "--detach", "--port", "0")
    number = home.json("submit", "still here")["id"]
    before = home.processes()
    os.kill(before[0][0], signal.SIGKILL)
    eventually(lambda: not any(process.is_running(*one) for one in before))
    home.run("list", code=6)
    second = home.json("up", "--detach")
    assert (second["token"], second["url"]) == (first["token"], first["url"])
    assert home.json("show", str(number))["title"] == "still here"
    home.run("down")
    assert home.json("db", "status")["running"] is False
    assert not (home.data / "runtime.json").exists()
    assert "nothing runs here" in home.run("down")


def test_in_the_foreground_it_says_what_to_try_and_a_signal_stops_all_of_it(fresh: Callable[[], Home]) -> None:
    home = fresh()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        up = home.start("up", "--port", "0", start_new_session=True)
        assert up.stdout is not None
        said = list(iter(up.stdout.readline, "Ctrl-C stops it.\n"))
        assert any("fabric claim" in line for line in said)
        running = home.processes()
        os.kill(up.pid, number)
        _, err = answer(up)
        assert (up.returncode, "stopped" in err) == (0, True)
        assert not any(process.is_running(*one) for one in running)
        assert home.json("db", "status")["running"] is False


def test_a_port_that_was_asked_for_and_is_taken_is_an_error_that_names_the_way_out(fresh: Callable[[], Home]) -> None:
    home = fresh()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        up = home.start("up", "--detach", "--port", port)
        _, err = answer(up)
    assert up.returncode == 1
    assert f"port {port}" in err
    assert "--port" in err
    assert not (home.data / "runtime.json").exists()


def test_two_fabrics_do_not_disturb_each_other_and_two_starts_make_one(fresh: Callable[[], Home]) -> None:
    one, two = fresh(), fresh()
    starts = [one.start("up", "--detach", "--json"), one.start("up", "--detach", "--json")]
    starts.append(two.start("up", "--detach", "--json"))
    shapes = []
    for start in starts:
        out, err = answer(start)
        assert start.returncode == 0, err
        shapes.append(json.loads(out))
    assert shapes[0] == shapes[1]
    assert shapes[2]["url"] != shapes[0]["url"]
    one.run("down")
    assert two.json("status")["answers"] is True
