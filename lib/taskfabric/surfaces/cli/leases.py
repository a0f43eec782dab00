"""The lease folder: the fences that this caller holds, so that ``done 12`` need not repeat a secret.

One file for a lease, named ``12@3``, readable by its owner only, written whole or not at all. ``FABRIC_LEASES`` names
the folder, else it is ``taskfabric/leases`` under the client's state directory; inside, each token of each server has
its own, so that of two agents on one machine none uses or forgets what the other holds.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from taskfabric.domain.errors import BadInput, FabricError, LeaseLost, NoFence
from taskfabric.domain.lease import Fence, TaskRef

_KEPT: Final = 30 * 86400  # seconds; a lease that old has ended, whoever forgot it


class Leases:
    """The fences stored for one caller of one server."""

    def __init__(self, env: Mapping[str, str], url: str, token: str) -> None:
        self._folder = folder(env) / hashlib.sha256(f"{url}\0{token}".encode()).hexdigest()[:16]

    def store(self, fence: Mapping[str, Any], until: str | None) -> str:
        """Keep a granted fence; its ref (``12@3``). Raises FabricError when the folder cannot be written."""
        ref = f"{int(fence['task'])}@{int(fence['epoch'])}"
        shape = {"task": fence["task"], "epoch": fence["epoch"], "token": fence["token"], "until": until}
        draft = self._folder / f".{ref}.{os.getpid()}"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                json.dump(shape, file)
            draft.replace(self._folder / ref)
        except OSError as error:
            raise FabricError(
                f"#{fence['task']} is claimed as {ref}, but {self._folder} cannot keep its fence: {error.strerror}",
                next="make that folder writable, or name another one with FABRIC_LEASES; the lease ends by itself",
                task=int(fence["task"]),
            ) from error
        self._forget_the_old()
        return ref

    def find(self, ref: TaskRef) -> Fence | None:
        """The fence of exactly this epoch, or for a bare number the newest; None when none is stored."""
        epochs = [ref.epoch] if ref.epoch is not None else sorted(self._epochs(ref.id), reverse=True)
        for epoch in epochs:
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError, BadInput):
                shape = json.loads((self._folder / f"{ref.id}@{epoch}").read_text())
                return Fence.parse(ref.id, epoch, shape["token"])
        return None

    def need(self, ref: TaskRef) -> Fence:
        """As ``find``. Raises NoFence where there is none."""
        fence = self.find(ref)
        if fence is None:
            what = f"the lease {ref}" if ref.epoch is not None else f"#{ref.id}"
            raise NoFence(f"no fence for {what} is kept here ({self._folder})", task=ref.id)
        return fence

    def drop(self, fence: Fence) -> None:
        """The lease has ended: forget its fence."""
        with contextlib.suppress(OSError):
            (self._folder / str(fence)).unlink(missing_ok=True)

    @contextlib.contextmanager
    def ending(self, fence: Fence | None) -> Any:
        """Forget the fence when the call inside ended the lease, or found that it had ended already.

        For ends only: a renewal that comes too late leaves the fence, with which the late result can still be offered.
        """
        try:
            yield
        except LeaseLost:
            if fence is not None:
                self.drop(fence)
            raise
        if fence is not None:
            self.drop(fence)

    def _epochs(self, task: int) -> list[int]:
        names = [path.name.partition("@") for path in self._folder.glob(f"{task}@*")]
        return [int(epoch) for _, _, epoch in names if epoch.isdigit()]

    def _forget_the_old(self) -> None:
        for path in self._folder.iterdir():
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < time.time() - _KEPT:
                    path.unlink()


def folder(env: Mapping[str, str]) -> Path:
    """Where leases are kept, for all servers."""
    if named := env.get("FABRIC_LEASES"):
        return Path(named).expanduser().absolute()
    return state_folder(env) / "leases"


def state_folder(env: Mapping[str, str]) -> Path:
    """The client's state directory, after the XDG rules."""
    named = env.get("XDG_STATE_HOME", "")
    base = Path(named) if named.startswith("/") else Path(env.get("HOME") or "~").expanduser() / ".local" / "state"
    return base / "taskfabric"
