"""Notifications by apprise (Matrix, Telegram, mail, ntfy, …), as ``notify.toml`` in the fabric's home says.

    [alice]
    urls = ["ntfy://ntfy.example/alice"]
    quiet = "22:00-07:00"      # her own zone
    digest = 7                 # the local hour
    ping = true                # urgent and gate tasks at once, not only in the digest

The file is read again when it changes. It holds secrets, so nothing of an address is ever logged or shown.
"""

from __future__ import annotations

import importlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import time
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Protocol

from taskfabric.domain.errors import BadInput, Unavailable
from taskfabric.domain.letter import Quiet
from taskfabric.ports.notifier import Reach

_KEYS: Final = ("urls", "quiet", "digest", "ping")
_QUIET: Final = re.compile(r"(\d\d):(\d\d)-(\d\d):(\d\d)")


class _Apprise(Protocol):
    def add(self, servers: str) -> bool: ...
    def notify(self, body: str, title: str = "") -> bool | None: ...


class AppriseNotifier:
    """Implements ``ports.notifier.Notifier``. ``file`` need not exist."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seen: tuple[int, int] | None = None
        self._reach: dict[str, Reach] = {}
        self._problem = ""

    def reach(self, name: str) -> Reach:
        self._look()
        return self._reach.get(name, Reach())

    def problem(self) -> str:
        self._look()
        return self._problem

    def send(self, urls: Sequence[str], subject: str, body: str) -> None:
        try:
            module = importlib.import_module("apprise")
        except ImportError as cause:
            raise Unavailable(
                "apprise is not installed, so nothing can be sent", next="pip install 'apprise>=2.3,<3'"
            ) from cause
        for number, url in enumerate(urls, 1):
            channel: _Apprise = module.Apprise()
            if not channel.add(url):
                raise BadInput(f"address {number} of {len(urls)} is none that apprise knows")
            try:
                accepted = channel.notify(body=body or subject, title=subject)
            except Exception as cause:  # a plug-in's fault is a failed delivery
                raise Unavailable(f"address {number} of {len(urls)} failed: {type(cause).__name__}") from cause
            if not accepted:
                raise Unavailable(f"address {number} of {len(urls)} did not take it")

    def _look(self) -> None:
        """The file as it now is; a broken one leaves the last good one in force."""
        try:
            stat = self._file.stat()
            seen = (stat.st_mtime_ns, stat.st_size)
        except OSError:
            seen = None
        if seen == self._seen:
            return
        self._seen = seen
        if seen is None:
            self._reach, self._problem = {}, ""
            return
        try:
            self._reach, self._problem = read(self._file.read_text(encoding="utf-8"), self._file.name), ""
        except BadInput as error:
            self._problem = f"{error.message}; {error.next}" if error.next else error.message
        except (OSError, ValueError) as error:
            self._problem = f"{self._file.name} cannot be read: {type(error).__name__}"


def read(text: str, source: str) -> dict[str, Reach]:
    """How each person is reached. Raises BadInput for what it does not know; no address is in its words."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as cause:
        raise BadInput(f"{source} is not valid TOML") from cause
    return {name: _reach(f"{source}: [{name[:40]}]", table) for name, table in tree.items()}


def _reach(where: str, table: Any) -> Reach:
    if not isinstance(table, Mapping):
        raise BadInput(f"{where} is not a table", next="write [NAME] and its keys below it")
    for key in table:
        if key not in _KEYS:
            near = get_close_matches(key, _KEYS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(_KEYS)}"
            raise BadInput(f"{where} has no key {key[:40]!r}", next=hint)
    urls, digest, ping = table.get("urls", []), table.get("digest", 7), table.get("ping", True)
    if not isinstance(urls, list) or not all(isinstance(url, str) and "://" in url for url in urls):
        raise BadInput(f"{where}: urls is a list of addresses such as ntfy://host/topic")
    if type(digest) is not int or not 0 <= digest <= 23:
        raise BadInput(f"{where}: digest is a local hour, 0 to 23")
    if not isinstance(ping, bool):
        raise BadInput(f"{where}: ping is true or false")
    return Reach(urls=tuple(urls), quiet=_quiet(where, table.get("quiet")), digest=digest, ping=ping)


def _quiet(where: str, text: Any) -> Quiet | None:
    if text is None:
        return None
    match = _QUIET.fullmatch(text) if isinstance(text, str) else None
    try:
        if match is not None:
            a, b, c, d = (int(part) for part in match.groups())
            return Quiet(begin=time(a, b), end=time(c, d))
    except ValueError:
        pass
    raise BadInput(f"{where}: quiet is written 22:00-07:00")
