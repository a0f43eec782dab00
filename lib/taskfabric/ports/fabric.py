"""The fabric as its callers see it: one call, with a verb for its argument.

The hallway (``services.hallway``) answers in the server; ``remote.py`` answers the same calls over HTTP.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class Codec(Generic[R]):
    """How a verb's result travels as JSON, and how it is read back as the same value."""

    encode: Callable[[R], Any]
    decode: Callable[[Any], R]


class Verb(BaseModel, Generic[R]):
    """The arguments of one call; ``R`` is its result. Unknown arguments are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: ClassVar[str]
    result: ClassVar[Codec[Any]]


class Fabric(Protocol):
    """One authenticated caller's access to the fabric."""

    def call(self, verb: Verb[R]) -> R:
        """The verb's result. Raises the errors of ``domain.errors``."""
