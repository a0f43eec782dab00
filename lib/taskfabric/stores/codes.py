"""Codes as files of the home, which only the server's account reads."""

from __future__ import annotations

import os
from pathlib import Path

from taskfabric.domain.errors import Unavailable


class CodeFiles:
    """``ports.codes.Codes`` in this folder, which is made when the first code is kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, name: str, code: str) -> str:
        file = self._folder / f"{name}.txt"
        draft = file.with_name(f".{file.name}.{os.getpid()}")
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
                out.write(f"{code}\n")
            draft.replace(file)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise Unavailable(
                f"the code cannot be kept in {file.name}: {reason}", next="make room for the server's home"
            ) from error
        return f"{self._folder.name}/{file.name} in the home of the server"

    def drop(self, name: str) -> None:
        (self._folder / f"{name}.txt").unlink(missing_ok=True)
