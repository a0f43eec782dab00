"""Makes the environment of a checkout: ``bootstrap.py ROOT VENV``, called by bootstrap.sh when its stamp does not fit.

Standard library only. Afterwards VENV holds what bin/requirements.lock names, checked by hash, the checkout itself as
an editable install, byte code for all of it, and the stamp. Two starts at once: the second waits, then finds it done.
An interrupted one is begun again from nothing. Speaks on stderr only; stdout belongs to the program.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NoReturn

# Where packages come from is the owner's business and stays; what would send them elsewhere, or other ones, does not.
DROPPED: Final = (
    "PIP_BUILD_CONSTRAINT",
    "PIP_CONSTRAINT",
    "PIP_NO_COMPILE",
    "PIP_PREFIX",
    "PIP_REQUIRE_HASHES",
    "PIP_ROOT",
    "PIP_TARGET",
    "PIP_USER",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONPYCACHEPREFIX",
)
STAMPED: Final = ("bin/requirements.lock", "pyproject.toml")


def say(text: str) -> None:
    print(f"taskfabric: {text}", file=sys.stderr, flush=True)


def stop(text: str) -> NoReturn:
    say(text)
    sys.exit(1)


def is_ready(root: Path, venv: Path) -> bool:
    """True when the stamp says what bootstrap.sh also checks."""
    stamp = venv / "taskfabric-stamp"
    try:
        return (
            (venv / "bin/python").exists()
            and (stamp / "root").read_text() == f"{root}\n"
            and all((root / name).read_bytes() == (stamp / Path(name).name).read_bytes() for name in STAMPED)
        )
    except OSError:
        return False


def run(command: list[str | Path], root: Path, lock: int, *, what: str) -> None:
    """Runs one step; its output is shown only when it fails, and then everything stops."""
    env = {name: value for name, value in os.environ.items() if name not in DROPPED}
    # The child keeps the lock: when this process is killed, nobody starts over while pip still writes.
    done = subprocess.run(
        command,
        cwd=root,
        env=env,
        pass_fds=[lock],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.stderr.write(done.stdout[-4000:] + done.stderr[-4000:])
        stop(f"{what} failed (exit code {done.returncode}); the reason is above. Start again when it is mended.")


def works(venv: Path) -> bool:
    """True when the environment has an interpreter that starts and has pip."""
    try:
        tried = subprocess.run([venv / "bin/python", "-I", "-c", "import pip"], capture_output=True, check=False)
    except OSError:
        return False
    return tried.returncode == 0


def make(root: Path, venv: Path, lock: int) -> None:
    unfinished = venv / "taskfabric-unfinished"
    if unfinished.exists() or not works(venv):
        if venv.exists() and any(venv.iterdir()) and not (unfinished.exists() or (venv / "pyvenv.cfg").exists()):
            stop(f"{venv} is not an environment and not empty; nothing was touched. Name another place by FABRIC_VENV.")
        say(f"making {venv} (once, about half a minute)")
        shutil.rmtree(venv, ignore_errors=True)
        venv.mkdir(parents=True)
        unfinished.touch()
        # The interpreter under an activated environment, which might be the very one that was just removed.
        base = getattr(sys, "_base_executable", None) or sys.executable
        run([base, "-I", "-m", "venv", venv], root, lock, what="making the environment")
    else:
        say(f"bringing {venv} up to date")
        unfinished.touch()
    shutil.rmtree(venv / "taskfabric-stamp", ignore_errors=True)

    python = venv / "bin/python"
    pip: list[str | Path] = [python, "-I", "-m", "pip", "--disable-pip-version-check", "--no-input", "-q", "install"]
    # Read before, so that a file changed meanwhile is seen by the next start.
    seen = {Path(name).name: (root / name).read_bytes() for name in STAMPED}
    run(
        [*pip, "--compile", "--require-hashes", "--no-deps", "-r", root / "bin/requirements.lock"],
        root,
        lock,
        what="installing the locked packages",
    )
    run([*pip, "--no-build-isolation", "--no-deps", "-e", root], root, lock, what="installing taskfabric itself")
    compile_all(root, venv, lock)

    with tempfile.TemporaryDirectory(dir=venv) as scratch:
        fresh = Path(scratch) / "stamp"
        fresh.mkdir()
        for name, content in seen.items():
            (fresh / name).write_bytes(content)
        (fresh / "root").write_text(f"{root}\n")
        unfinished.unlink()
        fresh.rename(venv / "taskfabric-stamp")


def compile_all(root: Path, venv: Path, lock: int) -> None:
    """Byte code halves the time of a start; pip makes it for what it installs, so this is for our own and the rest."""
    own = [root / name for name in ("lib/taskfabric", "workers", "fabric_keeper") if (root / name).is_dir()]
    folders: list[str | Path] = [*own, *venv.glob("lib/python*/site-packages")]
    # A package may ship a file of another Python's syntax, and a checkout may be read-only: neither matters here.
    script = "import compileall, sys; [compileall.compile_dir(d, quiet=2) for d in sys.argv[1:]]"
    run([venv / "bin/python", "-I", "-c", script, *folders], root, lock, what="compiling")


def main(root: Path, venv: Path) -> None:
    try:
        venv.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(venv.with_name(venv.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        stop(f"cannot write to {venv.parent} ({error.strerror}); name a folder of yours by FABRIC_VENV.")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("another start is making the environment; waiting for it")
        fcntl.flock(lock, fcntl.LOCK_EX)
    if not is_ready(root, venv):
        try:
            make(root, venv, lock)
        except OSError as error:
            stop(f"the environment could not be made: {error}")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    except KeyboardInterrupt:
        say("interrupted; the next start begins again")
        sys.exit(130)
