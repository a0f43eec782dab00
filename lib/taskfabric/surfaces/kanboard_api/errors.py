"""What a call of Kanboard's API answers when it fails as a call; a ``false`` that means "no" is a result."""

from __future__ import annotations

from typing import Final

UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403


class Forbidden(Exception):
    """The caller's role does not reach, or the thing is not there: the same answer, so that nobody learns which."""


class WrongParams(Exception):
    """The arguments do not fit the procedure; ``data`` says which and why."""

    def __init__(self, data: str) -> None:
        super().__init__(data)
        self.data = data


def failure(id: object, code: int, message: str, data: object = None) -> dict[str, object]:
    """A JSON-RPC error as Kanboard writes it."""
    error: dict[str, object] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "error": error, "id": id}


def unauthorized() -> dict[str, object]:
    """The answer to a body as a whole whose credential is none."""
    return failure(None, UNAUTHORIZED, "Unauthorized")
