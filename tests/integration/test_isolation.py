"""What a program that the fabric starts can reach of its owner's: it tries."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from taskfabric.domain.card import CommandSpec
from taskfabric.domain.errors import BadInput
from taskfabric.domain.outcome import Done
from taskfabric.runtimes.command import CommandRuntime
from taskfabric.runtimes.isolation import Cell, Grant, find
from tests.integration.running import Told, make_card, make_job, never

SECRET = "the-owners-own-token"
LIB = Path(__file__).parents[2] / "lib"
SYSTEM_PYTHON = Path("/usr/bin/python3")

# It looks for whatever could make it the human: his token, the fabric's files, the database's socket, other processes'
# environments; it tries to lift the masks, also from namespaces of its own; and it says all that it found.
ATTACK = r"""
look() { cat "$HOME"/.ssh/* "$OWNER_HOME"/.ssh/* "$FABRIC"/credentials "$FABRIC"/runtime.json 2>/dev/null; }
look
[ -e "$FABRIC"/run/.s.PGSQL.5432 ] && echo "found the database"
umount "$FABRIC" 2>/dev/null && look
umount -l "$OWNER_HOME" 2>/dev/null && look
unshare -Urm sh -c 'umount "$FABRIC"; umount "$OWNER_HOME"; cat "$FABRIC"/credentials "$OWNER_HOME"/.ssh/*' 2>/dev/null
cat /proc/[0-9]*/environ /proc/[0-9]*/root"$FABRIC"/credentials 2>/dev/null | tr '\0' '\n' | grep -v '^FABRIC_RUN_MARK'
kill -9 "$WORKER" 2>/dev/null && echo "killed the worker"
find "$FABRIC"/.. -name credentials 2>/dev/null
curl -s -m 2 -H "Authorization: Bearer $(cat "$FABRIC"/credentials 2>/dev/null)" "$FABRIC_URL" >/dev/null 2>&1
echo the end
"""


@pytest.fixture
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home with a key in it, a fabric with the owner's credentials, and its database's socket."""
    home = tmp_path / "home"
    fabric = tmp_path / "fabric-home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id").write_text(SECRET)
    (fabric / "run").mkdir(parents=True)
    (fabric / "credentials").write_text(SECRET)
    (fabric / "runtime.json").write_text(f'{{"token": "{SECRET}"}}')
    # All of it readable by anybody: only the confinement is in the way, and not a file's mode.
    for path in (tmp_path, home, home / ".ssh", fabric, fabric / "run"):
        path.chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("FABRIC_HOME", str(fabric))
    monkeypatch.setenv("FABRIC_TOKEN", SECRET)
    with ExitStack() as held:
        held.callback(os.chdir, Path.cwd())
        os.chdir(fabric / "run")  # a socket's path may not be long
        held.enter_context(listener := socket.socket(socket.AF_UNIX))
        listener.bind(".s.PGSQL.5432")
        listener.listen()
        yield home


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    return folder


def test_a_program_that_looks_for_its_owners_things_finds_none(owner: Path, workspace: Path) -> None:
    """The machine's owner is not every process: neither his credentials nor the database are within reach."""
    if not find().works:
        pytest.skip(f"nothing isolates here: {find().reason}")
    card = make_card(command=CommandSpec(argv=("/bin/sh", "-c", attack(owner))))
    told = Told()
    job = make_job(card, workspace, url="http://127.0.0.1:1", run_token="of the run")
    result = CommandRuntime(card).run(job, told, never)
    assert isinstance(result.outcome, Done), result
    assert result.outcome.note.endswith("the end")
    for forbidden in (SECRET, "found the database", "killed the worker", "fabric-home/credentials"):
        assert forbidden not in result.outcome.note


def attack(owner: Path) -> str:
    fabric = os.environ["FABRIC_HOME"]
    return f"OWNER_HOME={owner}; FABRIC={fabric}; WORKER={os.getpid()}; export OWNER_HOME FABRIC\n{ATTACK}"


@pytest.mark.skipif(os.geteuid() != 0 or not SYSTEM_PYTHON.exists(), reason="needs root to become a plain user")
def test_a_plain_users_namespaces_hide_his_things_as_well(owner: Path, workspace: Path) -> None:
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("no setpriv")
    fabric = Path(os.environ["FABRIC_HOME"])
    for path in (owner / ".ssh" / "id", fabric / "credentials", fabric / "run", fabric / "run" / ".s.PGSQL.5432"):
        os.chown(path, 65534, 65534)
    os.chown(workspace, 65534, 65534)
    program = f"""
import os, subprocess, sys
from pathlib import Path
from taskfabric.runtimes.isolation import Cell, find, masks
if not find().works:
    sys.exit(find().reason)
assert find().word == "namespaces", find()
hidden = (Path({str(fabric)!r}), Path({str(owner)!r}))
cell = Cell(isolation=find(), workspace=Path({str(workspace)!r}), masks=hidden)
run = cell.start(["/bin/sh", "-c", {attack(owner)!r}], {{"PATH": "/usr/bin:/bin", "HOME": {str(owner)!r}}},
                 stdin=subprocess.DEVNULL)
run.process.wait(60)
sys.exit(run.end())
"""
    # A Python that a plain user may start, with its own packages: the module needs none of ours.
    done = subprocess.run(
        [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", str(SYSTEM_PYTHON), "-B", "-c", program],
        env={"PYTHONPATH": str(reachable_lib(workspace.parent)), "PATH": "/usr/bin:/bin", "SECRET": "x"},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0 and "Operation not permitted" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("the end\n")
    for forbidden in (SECRET, "found the database", "killed the worker", "fabric-home/credentials"):
        assert forbidden not in done.stdout


def reachable_lib(where: Path) -> Path:
    """A copy of what is needed of the library, in a place that everybody may enter."""
    target = where / "lib"
    shutil.copytree(LIB / "taskfabric" / "domain", target / "taskfabric" / "domain")
    shutil.copytree(LIB / "taskfabric" / "runtimes", target / "taskfabric" / "runtimes")
    for name in ("__init__.py", "home.py", "assets.py"):
        shutil.copy(LIB / "taskfabric" / name, target / "taskfabric" / name)
    for path in (target, *target.rglob("*"), *where.parents):
        if path.is_relative_to("/tmp") and path != Path("/tmp"):
            path.chmod(path.stat().st_mode | 0o055)
    shutil.copytree(LIB / "taskfabric" / "ports", target / "taskfabric" / "ports")
    return target


def test_a_granted_folder_of_the_home_is_seen_and_the_rest_is_not(owner: Path, workspace: Path) -> None:
    if not find().namespaces:
        pytest.skip("no namespaces here")
    (owner / "notes").mkdir(mode=0o755)
    (owner / "notes" / "today.md").write_text("buy milk")
    cell = Cell(
        isolation=find(),
        workspace=workspace,
        masks=(owner,),
        grants=(Grant.parse("~/notes", owner), Grant.parse("~/absent", owner)),
    )
    said = output_of(cell, f"cd {owner}; cat notes/today.md; ls -A; touch notes/x || echo read-only")
    assert said == "buy milknotes\nread-only\n"


def test_what_a_run_writes_outside_its_workspace_is_gone_with_it(owner: Path, workspace: Path) -> None:
    if not find().namespaces:
        pytest.skip("no namespaces here")
    cell = Cell(isolation=find(), workspace=workspace, masks=(owner,))
    output_of(cell, f"echo x > {owner}/left; echo y > {workspace}/kept")
    assert not (owner / "left").exists()
    assert (workspace / "kept").read_text() == "y\n"


def test_a_run_sees_only_its_own_processes(workspace: Path) -> None:
    if not find().namespaces:
        pytest.skip("no namespaces here")
    said = output_of(
        Cell(isolation=find(), workspace=workspace, masks=(Path("/tmp"),)), f"kill -0 {os.getpid()} || echo alone"
    )
    assert said == "alone\n"


def output_of(cell: Cell, script: str) -> str:
    cell.own_workspace()
    run = cell.start(
        ["/bin/sh", "-c", script],
        {"PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    pipe = run.process.stdout
    assert pipe is not None
    with pipe:
        said = pipe.read().decode()
    run.end()
    return said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has another account")
def test_another_account_alone_works_in_a_place_that_it_can_enter(workspace: Path) -> None:
    """Where a container allows no namespaces: the workspace lies below folders that only root may enter."""
    alone = replace(find(), word="account", namespaces=False)
    script = 'id -un; cat /proc/$PPID/environ 2>/dev/null | tr "\\0" "\\n" | grep ^HOME; echo x > kept; echo end'
    said = '{"outcome": "done", "note": "see it", "attachments": ["kept"]}'
    card = make_card(command=CommandSpec(argv=("/bin/sh", "-c", f"{script}; echo '{said}' > {{result}}")))
    runtime = CommandRuntime(card, isolation=alone)
    told = Told()
    workspace.parent.chmod(0o700)
    result = runtime.run(make_job(card, workspace), told, never)
    assert result.outcome == Done(note="see it")
    assert told.text() == "taskfabric-run\nend\n"
    [kept] = result.attachments
    assert kept.read_text() == "x\n"
    assert kept.is_relative_to(workspace)
    assert not list(Path("/var/tmp").glob("fabric-run-*"))


def test_a_grant_needs_a_whole_path() -> None:
    with pytest.raises(BadInput, match="no path from the root"):
        Grant.parse("notes", Path("/home/ada"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="made for Linux")
def test_the_roster_can_say_how_programs_are_isolated_here() -> None:
    found = find()
    assert found.works or found.reason
