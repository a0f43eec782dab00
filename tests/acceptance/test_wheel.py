"""The wheel, installed alone into a fresh environment: its programs start, and what it carries can be read."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = sorted(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"])


def run(command: list[str | Path], *, cwd: Path) -> str:
    """What the command prints; the test fails with its complaint when it fails."""
    # Nothing of this process may help it to find the checkout.
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "FABRIC_", "PIP_"))}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-P", "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel and, for its dependencies, a path to those installed here."""
    place = tmp_path_factory.mktemp("fresh") / "venv"
    cwd = place.parent
    run([sys.executable, "-I", "-m", "venv", "--without-pip", place], cwd=cwd)
    python = place / "bin/python"
    pip: list[str | Path] = [sys.executable, "-I", "-m", "pip", "-q", "--disable-pip-version-check"]
    run([*pip, "--python", python, "install", "--no-index", "--no-deps", "--no-compile", wheel], cwd=cwd)
    (packages,) = place.glob("lib/python*/site-packages")
    # A folder that a .pth file adds has its own .pth files ignored, so our editable install stays out of it.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return place


def python(environment: Path, script: str) -> str:
    return run([environment / "bin/python", "-I", "-c", script], cwd=environment.parent)


def test_the_wheel_holds_all_of_the_library_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    carried = {
        str(file.relative_to(ROOT / "lib"))
        for file in (ROOT / "lib/taskfabric").rglob("*")
        if file.is_file() and file.suffix in (".py", ".sql", ".typed")
    }
    assert carried <= names
    assert "taskfabric/py.typed" in names
    assert {name.split("/")[0] for name in names} <= {"taskfabric", "workers", "fabric_keeper"}
    assert not [name for name in names if name.endswith((".pyc", ".env"))]


def test_the_installed_library_is_the_wheels(environment: Path) -> None:
    assert python(environment, "import taskfabric; print(taskfabric.__file__)").startswith(str(environment))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_the_wheel_shows_its_help(environment: Path, program: str) -> None:
    assert f"usage: {program}" in run([environment / "bin" / program, "--help"], cwd=environment.parent)


def test_the_wheel_carries_the_settings(environment: Path) -> None:
    script = (
        "from pathlib import Path; from taskfabric import assets, settings; assert assets.checkout() is None;"
        "print(settings.load(env={}, home=Path('/nonexistent')).server.port, assets.path('config/default.toml'))"
    )
    port, file = python(environment, script).split()
    assert port == "8420"
    assert file.startswith(str(environment))


def test_the_wheel_carries_every_card_of_the_checkout(environment: Path) -> None:
    cards = sorted(f"cards/{file.name}" for file in (ROOT / "cards").glob("*.toml"))
    script = (
        "from taskfabric import assets; print(*[n for n in assets.names('cards', '*.toml') if assets.read_text(n)])"
    )
    assert python(environment, script).split() == cards


def test_the_wheel_carries_the_migrations(environment: Path) -> None:
    script = (
        "import importlib.resources as r; f = r.files('taskfabric.db') / 'migrations';"
        "print(*sorted(m.name for m in f.iterdir() if m.name.endswith('.sql') and m.read_text(encoding='utf-8')))"
    )
    found = python(environment, script).split()
    assert found == sorted(file.name for file in (ROOT / "lib/taskfabric/db/migrations").glob("*.sql"))
    assert found
