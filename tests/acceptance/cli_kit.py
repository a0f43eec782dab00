"""The command line in this process, over a real server: what somebody types, and what comes back."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from taskfabric.surfaces.cli import kb_claim, main


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a command did: its exit code and its two streams."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout."""
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        """The error document."""
        shape: dict[str, Any] = self.json["error"]
        return shape


class Shell:
    """Somebody's terminal: an environment with his token and a lease folder of his own."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.env = {
            "HOME": str(folder),
            "FABRIC_HOME": str(folder / "no-home"),
            "FABRIC_LEASES": str(folder / "leases"),
            "FABRIC_ZONE": "Europe/Berlin",
            "FABRIC_DEBUG": "1",  # what is not expected fails the test with its traceback
            **env,
        }

    def __call__(self, *argv: str, stdin: bytes = b"", program: str = "fabric", **env: str) -> Said:
        """One command line."""
        out, err = io.StringIO(), io.StringIO()
        given = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
        with (
            mock.patch.dict(os.environ, {**self.env, **env}, clear=True),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            _stdin(given),
        ):
            run = main.run if program == "fabric" else kb_claim.run
            code = run(argv)
        return Said(code=code, out=out.getvalue(), err=err.getvalue())

    def json(self, *argv: str, stdin: bytes = b"") -> Any:
        """One command line that must succeed; its document."""
        said = self(*argv, "--json", stdin=stdin)
        assert said.code == 0, said
        assert said.err == ""
        return said.json

    def kb(self, *argv: str) -> Said:
        """One command line of the older program."""
        return self(*argv, program="kb-claim")


@contextlib.contextmanager
def _stdin(stream: io.TextIOWrapper) -> Iterator[None]:
    before, sys.stdin = sys.stdin, stream
    try:
        yield
    finally:
        sys.stdin = before
