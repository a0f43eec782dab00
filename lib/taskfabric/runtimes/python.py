"""The Python runtime: an entry point in a child process, which is kept for the next job and killed when it must end.

The child has an interpreter of its own, so a run that never lets go of it costs the worker nothing: not its heartbeat,
and not its power to end the run.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from taskfabric.domain.errors import BadInput, FabricError, Refused
from taskfabric.domain.outcome import Failed
from taskfabric.domain.outcome_shape import outcome_of
from taskfabric.ports.runtime import Job, Progress, Result
from taskfabric.runtimes.incidents import incident

_LOOK: Final = 0.25  # seconds between two looks whether the run must end
_PATIENCE: Final = 2.0  # seconds that the child has to end when it is asked to
_JOBS: Final = 500  # after so many a child is replaced, whatever it has gathered
_MESSAGE: Final = 16 << 20  # bytes of one message
_GRANTED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV")


class PythonRuntime:
    """Runs the jobs of one card, one after another."""

    def __init__(self, entry: str, *, env: Mapping[str, str] | None = None) -> None:
        self._entry = entry
        given = os.environ if env is None else env
        self._env = {name: given[name] for name in _GRANTED if name in given}
        self._child: _Child | None = None

    def run(self, job: Job, progress: Progress, stopped: Callable[[], str | None]) -> Result:
        """The result; Failed when the entry point raised, or when its process ended."""
        child = self._child
        if child is None or child.spent:
            self.close()
            child = self._child = _Child(self._entry, self._env)
        result = child.carry_out(job, progress, stopped)
        if child.gone:
            self.close()
        return result

    def close(self) -> None:
        """Its process and all that it started have ended."""
        if self._child is not None:
            self._child.end()
            self._child = None


class _Child:
    """One process that takes job after job."""

    def __init__(self, entry: str, env: Mapping[str, str]) -> None:
        reading, writing = os.pipe()
        leash, self._leash = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "taskfabric.runtimes.python_child", entry, str(writing), str(leash)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(writing, leash),
                env=dict(env),
                start_new_session=True,
            )
        except OSError:
            os.close(reading)
            os.close(self._leash)
            raise
        finally:
            os.close(writing)
            os.close(leash)
        self._messages = reading
        self._partial = b""
        self._jobs = 0
        self.gone = False

    @property
    def spent(self) -> bool:
        """Whether another one should take the next job."""
        return self.gone or self._jobs >= _JOBS or self._process.poll() is not None

    def carry_out(self, job: Job, progress: Progress, stopped: Callable[[], str | None]) -> Result:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._jobs += 1
        try:
            self._hand(replace(job, submit=None, run_token=""))  # what acts for the run stays on this side
        except OSError:
            return self._ended()
        result: Result | None = None
        with selectors.DefaultSelector() as pipes:
            pipes.register(self._messages, selectors.EVENT_READ, "messages")
            pipes.register(process.stdout, selectors.EVENT_READ, "out")
            pipes.register(process.stderr, selectors.EVENT_READ, "err")
            while True:
                reason = stopped()
                if reason is not None:
                    self.end()
                    return result or Result(outcome=Failed(error=f"stopped: {reason}"))
                for key, _ in pipes.select(_LOOK):
                    data = os.read(key.fd, 65_536)
                    if key.data != "messages":
                        if data:
                            progress.chunk(data.decode("utf-8", "replace"), stream=key.data)
                        else:
                            pipes.unregister(key.fileobj)
                        continue
                    if not data:
                        return result or self._ended()
                    for message in self._parsed(data):
                        if "ended" in message:
                            self._rest_of_output(progress)
                            return result or Result(outcome=Failed(error="it brought no result"))
                        if "submit" in message:
                            with contextlib.suppress(OSError):
                                self._hand(_submitted(job, message["submit"]))
                        result = _heard(message, job, progress) or result

    def _hand(self, what: object) -> None:
        assert self._process.stdin is not None
        pickle.dump(what, self._process.stdin)
        self._process.stdin.flush()

    def end(self) -> None:
        """It and its group have ended: asked first, killed then."""
        self.gone = True
        with contextlib.suppress(OSError):
            os.close(self._leash)
        self._leash = -1
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        if self._messages >= 0:
            os.close(self._messages)
            self._messages = -1

    def _rest_of_output(self, progress: Progress) -> None:
        """What it printed before it said that it had ended is in the pipes by now."""
        for stream, pipe in (("out", self._process.stdout), ("err", self._process.stderr)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            with contextlib.suppress(BlockingIOError):
                while data := os.read(pipe.fileno(), 65_536):
                    progress.chunk(data.decode("utf-8", "replace"), stream=stream)
            os.set_blocking(pipe.fileno(), True)

    def _ended(self) -> Result:
        """Its process ended before it had brought a result."""
        deadline = time.monotonic() + _PATIENCE
        while self._process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.1)
        self.gone = True
        code = self._process.poll()
        how = "went silent" if code is None else f"ended with code {code}" if code >= 0 else f"died of signal {-code}"
        return Result(outcome=Failed(error=f"its process {how}"))

    def _parsed(self, data: bytes) -> list[dict[str, Any]]:
        *lines, self._partial = (self._partial + data).split(b"\n")
        if len(self._partial) > _MESSAGE:
            self._partial = b""
        found = []
        for line in lines:
            with contextlib.suppress(ValueError):
                shape = json.loads(line)
                if isinstance(shape, dict):
                    found.append(shape)
        return found


def _heard(message: Mapping[str, Any], job: Job, progress: Progress) -> Result | None:
    """What a message says: something to pass on, or the result."""
    if "say" in message:
        progress.chunk(str(message["say"]))
    elif "touch" in message:
        progress.touch()
    elif "failed" in message:
        return Result(outcome=Failed(error=str(message["failed"])))
    elif "raised" in message:
        said = str(message["raised"])
        return Result(outcome=Failed(error=incident("the agent failed", job.fence, said=said)))
    elif "result" in message:
        return _result(message["result"], job)
    return None


def _submitted(job: Job, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The child that was made, or why there is none."""
    try:
        if job.submit is None:
            raise Refused("this agent is not granted `submit`", next="add it to the tools of its card", rule="tools")
        return {"child": dict(job.submit(fields))}
    except FabricError as error:
        return {"error": error.to_json()}


def _result(shape: Mapping[str, Any], job: Job) -> Result:
    try:
        return Result(
            outcome=outcome_of(shape["outcome"]),
            attachments=tuple(Path(path) for path in shape["attachments"]),
            usage={str(name): int(value) for name, value in shape["usage"].items()},
        )
    except (BadInput, KeyError, TypeError, ValueError, AttributeError) as error:
        return Result(outcome=Failed(error=incident("it brought a result that cannot be read", job.fence, error=error)))
