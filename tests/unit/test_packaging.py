"""Packaging: the lock pins everything and names no place, and the programs in bin/ say what they miss."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import taskfabric
from taskfabric.settings import VARIABLES

ROOT = Path(__file__).resolve().parents[2]
LOCK = (ROOT / "bin/requirements.lock").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PROGRAMS = ("fabric", "kb-claim", "lock", "test", "up")
COMPOSE = yaml.safe_load((ROOT / "compose.yml").read_text())


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def asked_for() -> list[Requirement]:
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *extras["embedded"], *extras["dev"]]  # the others are not in the lock
    return [Requirement(line) for line in lines]


def locked() -> dict[str, Requirement]:
    """The lock's entries by name; a hash is not part of them."""
    entries = [
        Requirement(line.removesuffix("\\").strip()) for line in LOCK.splitlines() if re.match(r"[a-z0-9]", line)
    ]
    return {canonical(entry.name): entry for entry in entries}


def test_the_version_is_the_same_everywhere() -> None:
    assert taskfabric.__version__ == PROJECT["version"]


@pytest.mark.parametrize("requirement", asked_for(), ids=str)
def test_every_dependency_has_a_floor_and_a_ceiling(requirement: Requirement) -> None:
    operators = {specifier.operator for specifier in requirement.specifier}
    assert operators == {"=="} or operators >= {">=", "<"}


@pytest.mark.parametrize("requirement", asked_for(), ids=str)
def test_every_dependency_is_in_the_lock_at_a_version_it_allows(requirement: Requirement) -> None:
    entry = locked()[canonical(requirement.name)]
    (pin,) = entry.specifier
    assert pin.operator == "=="
    assert requirement.specifier.contains(pin.version)


def test_the_lock_names_no_place() -> None:
    assert "://" not in LOCK
    assert not re.search(r"^\s*-(?!-hash=sha256:[0-9a-f]{64}( \\)?$)", LOCK, re.MULTILINE)
    assert " @ " not in LOCK


def test_every_entry_of_the_lock_is_pinned_and_hashed() -> None:
    for entry in re.split(r"\n(?=[a-z0-9])", LOCK)[1:]:
        assert re.match(r"[a-z0-9-]+(\[[a-z,]+\])?==\S+( ;[^\\]+)? \\\n", entry), entry[:80]
        assert "--hash=sha256:" in entry


def test_the_build_does_not_ignore_the_library() -> None:
    """The build obeys .gitignore; a line that matches lib/ would make an empty wheel without a word."""
    lines = (ROOT / ".gitignore").read_text().splitlines()
    assert not {line.strip("/") for line in lines if not line.startswith("#")} & {
        "lib",
        "lib*",
        "bin",
        "config",
        "cards",
    }


@pytest.mark.parametrize("program", [*(f"bin/{name}" for name in PROGRAMS), ".ci/run"])
def test_the_programs_can_be_executed_and_parsed(program: str) -> None:
    file = ROOT / program
    assert file.stat().st_mode & 0o111 == 0o111
    shell = "bash" if "bash" in file.read_text().splitlines()[0] else "sh"
    assert subprocess.run([shell, "-n", file], check=False).returncode == 0


def start_with_python(tmp_path: Path, answer: str | None) -> subprocess.CompletedProcess[str]:
    """Starts a copy of bin/fabric where the only Python, if any, describes itself so."""
    shutil.copytree(ROOT / "bin", tmp_path / "copy/bin")
    shutil.copy(ROOT / "pyproject.toml", tmp_path / "copy")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "dirname", "readlink", "cmp"):
        (tools / name).symlink_to(shutil.which(name) or pytest.fail(f"{name} is missing here"))
    if answer is not None:
        (tools / "python3").write_text(f"#!/bin/sh\necho {answer}\n")
        (tools / "python3").chmod(0o755)
    return subprocess.run(
        [tmp_path / "copy/bin/fabric", "list"], env={"PATH": str(tools)}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (None, "needs Python 3.11 or newer."),
        ("old 3.9", "needs Python 3.11 or newer; the python3 here is 3.9."),
        ("bare 3.12", "apt-get install python3.12-venv"),
    ],
)
def test_a_machine_without_what_is_needed_is_told_what_is_missing(
    tmp_path: Path, answer: str | None, sentence: str
) -> None:
    done = start_with_python(tmp_path, answer)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "copy/.venv").exists()


def fake_environment(tmp_path: Path) -> Path:
    """A copy of bin/ with an environment whose stamp fits and whose interpreter prints its arguments."""
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "bin", copy / "bin")
    shutil.copy(ROOT / "pyproject.toml", copy)
    stamp = copy / ".venv/taskfabric-stamp"
    stamp.mkdir(parents=True)
    shutil.copy(ROOT / "bin/requirements.lock", stamp)
    shutil.copy(ROOT / "pyproject.toml", stamp)
    (stamp / "root").write_text(f"{copy}\n")
    python = copy / ".venv/bin/python"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\npwd\nfor one in "$@"; do printf "%s\\n" "$one"; done\n')
    python.chmod(0o755)
    return copy


@pytest.mark.parametrize(
    ("program", "module"),
    [
        ("fabric", ["-m", "taskfabric.surfaces.cli.main"]),
        ("up", ["-m", "taskfabric.surfaces.cli.main", "up"]),
        ("kb-claim", ["-m", "taskfabric.surfaces.cli.kb_claim"]),
    ],
)
def test_a_program_runs_its_module_in_the_callers_folder_also_through_links(
    tmp_path: Path, program: str, module: list[str]
) -> None:
    copy = fake_environment(tmp_path)
    (tmp_path / "one").symlink_to(copy / "bin" / program)
    (tmp_path / "links").mkdir()
    (tmp_path / "links/two").symlink_to("../one")
    here = tmp_path / "some where"
    here.mkdir()
    for start in (copy / "bin" / program, tmp_path / "one", tmp_path / "links/two"):
        done = subprocess.run(
            [start, "a b", "", "*"],
            cwd=here,
            env={"PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == ""
        assert done.stdout.splitlines() == [str(here), "-P", *module, "a b", "", "*"]


@pytest.mark.parametrize("stale", ["bin/requirements.lock", "pyproject.toml", "the root"])
def test_a_changed_lock_project_or_place_makes_the_environment_anew(tmp_path: Path, stale: str) -> None:
    copy = fake_environment(tmp_path)
    if stale == "the root":
        copy = copy.rename(tmp_path / "moved")
    else:
        with (copy / stale).open("a") as file:
            file.write("# another line\n")
    # No Python can be found on this path, so getting as far as looking for one is the proof.
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "cmp").symlink_to(shutil.which("cmp") or pytest.fail("cmp is missing here"))
    done = subprocess.run([copy / "bin/fabric"], env={"PATH": str(tools)}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "needs Python" in done.stderr


def test_an_environment_may_live_elsewhere(tmp_path: Path) -> None:
    copy = fake_environment(tmp_path)
    (copy / ".venv").rename(tmp_path / "elsewhere")
    for name in (str(tmp_path / "elsewhere"), "elsewhere"):
        done = subprocess.run(
            [copy / "bin/fabric"],
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", "FABRIC_VENV": name},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.splitlines()[1:] == ["-P", "-m", "taskfabric.surfaces.cli.main"]


def run_bin_test(copy: Path, *arguments: str, mypy: int = 0) -> subprocess.CompletedProcess[str]:
    """Starts bin/test of the copy, where each check only prints its name; mypy ends with the given code."""
    for name, code in (("ruff", 0), ("lint-imports", 0), ("mypy", mypy)):
        program = copy / ".venv/bin" / name
        program.write_text(f"#!/bin/sh\necho {name} $*\nexit {code}\n")
        program.chmod(0o755)
    return subprocess.run(
        [copy / "bin/test", *arguments], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False
    )


CHECKS = ["ruff format --check .", "ruff check .", "lint-imports --no-logo", "mypy"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ["-n", "2"]),
        (["tests/unit", "-k", "chaos or bench"], ["-n", "2", "tests/unit", "-k", "chaos or bench"]),
        (["-m", "not chaos"], ["-n", "2", "-m", "not chaos"]),
        (["-m", "chaos"], ["-m", "chaos"]),
        (["-mchaos"], ["-mchaos"]),
        (["-m", "bench and not chaos"], ["-m", "bench and not chaos"]),
        (["-n", "4"], ["-n", "4"]),
        (["-n0"], ["-n0"]),
        (["-x", "--pdb"], ["-x", "--pdb"]),
    ],
)
def test_the_tests_run_in_two_processes_unless_the_arguments_want_one(
    tmp_path: Path, arguments: list[str], expected: list[str]
) -> None:
    copy = fake_environment(tmp_path)
    done = run_bin_test(copy, *arguments)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [*CHECKS, str(copy), "-P", "-m", "pytest", *expected]


def test_only_the_static_checks_run_when_only_they_are_wanted(tmp_path: Path) -> None:
    done = run_bin_test(fake_environment(tmp_path), "--static")
    assert (done.returncode, done.stdout.splitlines()) == (0, CHECKS)


def test_a_failed_check_is_named_after_all_of_them_ran_and_no_test_starts(tmp_path: Path) -> None:
    done = run_bin_test(fake_environment(tmp_path), mypy=1)
    assert (done.returncode, done.stdout.splitlines()) == (1, CHECKS)
    assert done.stderr.splitlines()[-1] == "static checks failed: mypy"


def test_compose_publishes_nothing_beyond_this_machine() -> None:
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_every_service_of_compose_has_a_health_check_and_keeps_its_data_in_a_named_volume() -> None:
    for name, service in COMPOSE["services"].items():
        assert service["healthcheck"]["test"][0] == "CMD", name
        assert {volume.split(":")[0] for volume in service["volumes"]} <= set(COMPOSE["volumes"]), name
        assert {name for name in service["networks"]} <= set(COMPOSE["networks"])


def test_our_own_services_of_compose_run_without_root_and_can_write_only_their_volume() -> None:
    for name in ("server", "worker"):
        service = COMPOSE["services"][name]
        assert service["user"].split(":")[0] not in ("", "0", "root")
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
    assert COMPOSE["services"]["postgres"]["user"].split(":")[0] not in ("", "0", "root")


def test_a_worker_in_compose_has_no_way_to_the_database() -> None:
    worker = COMPOSE["services"]["worker"]
    assert "database" not in worker["networks"]
    assert worker["env_file"] == []
    assert "PASSWORD" not in str(worker["environment"])


def test_compose_up_starts_only_the_database_and_the_server() -> None:
    assert {name for name, one in COMPOSE["services"].items() if "profiles" not in one} == {"postgres", "server"}


def test_what_compose_sets_are_settings_and_its_env_file_explains_the_rest() -> None:
    example = (ROOT / "config/env.example").read_text()
    written = (ROOT / "compose.yml").read_text()
    for name in re.findall(r"(?<!\$)\$\{([A-Z_]+)", written):
        assert re.search(rf"^{name}=$", example, re.MULTILINE), name
    clients = {"FABRIC_HOME", "FABRIC_URL", "FABRIC_TOKEN", "FABRIC_DB_PASSWORD"}
    for service in ("server", "worker"):
        names = {name for name in COMPOSE["services"][service]["environment"] if name.startswith("FABRIC_")}
        assert names <= set(VARIABLES) | clients
    for name in re.findall(r"^# (FABRIC_[A-Z_]+)=", example, re.MULTILINE):
        assert name in VARIABLES
