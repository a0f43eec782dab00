"""What a page is: the template that shows it, and the values that the template gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page before it is HTML."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
