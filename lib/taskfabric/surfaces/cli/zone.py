"""The time zone of the person at this terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import UTC, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from taskfabric.domain.errors import BadInput
from taskfabric.domain.times import zone_of


def local_zone(env: Mapping[str, str]) -> tzinfo:
    """``FABRIC_ZONE``, else ``TZ``, else the machine's zone, else UTC. Raises BadInput for a wrong FABRIC_ZONE."""
    if named := env.get("FABRIC_ZONE"):
        return zone_of(named)
    if named := env.get("TZ", "").lstrip(":"):
        with contextlib.suppress(BadInput):  # a POSIX rule such as CET-1CEST: the machine's zone is nearer than nothing
            return zone_of(named)
    with contextlib.suppress(OSError, ValueError), Path("/etc/localtime").open("rb") as file:
        return ZoneInfo.from_file(file, key=_name())
    return UTC


def _name() -> str | None:
    """The IANA name of /etc/localtime, where it is a link that tells it."""
    target = str(Path("/etc/localtime").resolve())
    return target.partition("/zoneinfo/")[2] or None
