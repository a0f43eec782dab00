"""Who is who elsewhere: ``identities.toml`` in the fabric's home says which account a foreign subject is here.

    [jwt]
    "auth0|5f7c8e" = "alice"           # the subject of the identity provider's tokens

    [mtls]
    "CN=kimi,O=House" = "kimi"         # as the TLS terminator writes the certificate's subject

The file is read again when it changes; a broken one leaves the last good one in force.
"""

from __future__ import annotations

import logging
import threading
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from taskfabric.domain.errors import BadInput

log = logging.getLogger(__name__)

SECTIONS: Final = ("jwt", "mtls")


class IdentityFile:
    """The names of foreign subjects. ``file`` need not exist."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._seen: tuple[int, int] | None = None
        self._names: Mapping[tuple[str, str], str] = {}

    def name_of(self, section: str, subject: str) -> str | None:
        """The account of this subject; None for one that nobody has named."""
        with self._lock:
            self._look()
            return self._names.get((section, subject))

    def _look(self) -> None:
        try:
            stat = self._file.stat()
            seen = (stat.st_mtime_ns, stat.st_size)
        except OSError:
            seen = None
        if seen == self._seen:
            return
        self._seen = seen
        if seen is None:
            self._names = {}
            return
        try:
            self._names = read(self._file.read_text(encoding="utf-8"), self._file.name)
        except BadInput as error:
            log.warning("identities not read reason=%r next=%r", error.message, error.next)
        except (OSError, UnicodeDecodeError) as error:
            log.warning("identities not read reason=%s", type(error).__name__)


def read(text: str, source: str) -> dict[tuple[str, str], str]:
    """(section, subject) to name. Raises BadInput for what it does not know."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as cause:
        raise BadInput(f"{source} is not valid TOML: {cause}") from cause
    found: dict[tuple[str, str], str] = {}
    for section, table in tree.items():
        if section not in SECTIONS:
            near = get_close_matches(section, SECTIONS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(SECTIONS)}"
            raise BadInput(f"{source} has no section {section[:40]!r}", next=hint)
        if not isinstance(table, dict):
            raise BadInput(f"{source}: {section} is a section", next=f"write [{section}] and the subjects below it")
        for subject, name in table.items():
            if not isinstance(name, str) or not name or not subject:
                raise BadInput(f'{source}: [{section}] is written "SUBJECT" = "NAME"')
            found[section, subject] = name
    return found
