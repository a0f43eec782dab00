"""Failures that are told by a number: the words of an exception may hold a secret, and a card has many readers."""

from __future__ import annotations

import logging
import secrets

log = logging.getLogger(__name__)


def incident(what: str, task: object, *, error: BaseException | None = None, said: str = "") -> str:
    """``what`` and a number, for the card; under that number all of it is in this program's log, and nowhere else."""
    number = secrets.token_hex(4)
    log.error("%s task=%s incident=%s said=%s", what, task, number, said, exc_info=error)
    return f"{what}; it is incident {number}"
