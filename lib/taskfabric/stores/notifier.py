"""Notifications by apprise (Matrix, Telegram, mail, ntfy, …), as ``notify.toml`` in the fabric's home says.

    [alice]
    urls = ["ntfy://ntfy.example/alice"]
    quiet = "22:00-07:00"      # her own zone
    digest = 7                 # the local hour
    ping = true                # urgent and gate tasks at once, not only in the digest

The file is read again when it changes. It holds secrets, so nothing of an address is ever logged or shown.

Besides, a person may have channels of his own. What whoever keeps the server has written may lead anywhere; what a
person has named is sent by a process that reaches public places only (``letter_child``).
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import time
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Protocol

from taskfabric.domain.errors import BadInput
from taskfabric.domain.letter import Quiet
from taskfabric.ports.egress import Egress
from taskfabric.ports.notifier import Reach, Taken
from taskfabric.stores import channel_address

Own = Callable[[str], Sequence[str]]

_KEYS: Final = ("urls", "quiet", "digest", "ping")
_CHILDREN: Final = 2  # processes that send at once
_PATIENCE: Final = 30.0  # seconds for one letter to a person's own addresses
_MISSING: Final = "apprise is not installed: pip install 'apprise>=2.3,<3'"
_QUIET: Final = re.compile(r"(\d\d):(\d\d)-(\d\d):(\d\d)")


class _Apprise(Protocol):
    def add(self, servers: str) -> bool: ...
    def notify(self, body: str, title: str = "") -> bool | None: ...


class AppriseNotifier:
    """Implements ``ports.notifier.Notifier``. ``file`` need not exist; ``own`` gives a person's own addresses,
    which ``egress`` judges; its exempt hosts are ``allow_hosts``."""

    def __init__(self, file: Path, own: Own, egress: Egress, *, allow_hosts: Sequence[str] = ()) -> None:
        self._file = file
        self._own_of = own
        self._egress = egress
        self._allow = list(allow_hosts)
        self._sending = threading.Semaphore(_CHILDREN)
        self._seen: tuple[int, int] | None = None
        self._reach: dict[str, Reach] = {}
        self._problem = ""

    def reach(self, name: str) -> Reach:
        return replace(self.habits(name), own=tuple(self._own_of(name)))

    def habits(self, name: str) -> Reach:
        self._look()
        return self._reach.get(name, Reach())

    def problem(self) -> str:
        self._look()
        return self._problem

    def shown(self, url: str) -> str:
        shown, place = channel_address.read(url)
        if place:
            self._egress.check(place)
        return shown

    def send(
        self, reach: Reach, subject: str, body: str, *, letter: int = 0, had: frozenset[str] = frozenset()
    ) -> Taken:
        marks = {_mark(letter, url): url for url in (*reach.urls, *reach.own)}
        left = {mark: url for mark, url in marks.items() if mark not in had}
        own = [url for url in left.values() if url in reach.own and url not in reach.urls]
        ends = dict(zip(own, self._own(own, subject, body), strict=True)) if own else {}
        ends |= {url: _end(url, subject, body) for url in left.values() if url not in ends}
        problems = [
            f"address {number} of {len(marks)} {ends[url]}"
            for number, (mark, url) in enumerate(marks.items(), 1)
            if mark in left and ends[url]
        ]
        taken = {mark for mark, url in left.items() if not ends[url]}
        return Taken(by=(had & marks.keys()) | taken, problem="; ".join(problems))

    def _own(self, urls: Sequence[str], subject: str, body: str) -> list[str]:
        """For each address of a person's own why it did not take it; "" = it did."""
        job = json.dumps({"urls": urls, "subject": subject, "body": body, "allow": self._allow})
        if not self._sending.acquire(timeout=_PATIENCE):
            return ["has to wait: other letters are being sent"] * len(urls)
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-m", "taskfabric.stores.letter_child"],
                input=job.encode(),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=_PATIENCE,
                # Neither a proxy nor a netrc of the server's: who answers is nobody that it knows.
                env={"HOME": os.devnull, "NETRC": os.devnull, "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
                check=True,
            )
            found = json.loads(done.stdout)
        except subprocess.TimeoutExpired:
            return ["did not take it in time"] * len(urls)
        except (OSError, subprocess.CalledProcessError, ValueError) as error:
            return [f"failed: {type(error).__name__}"] * len(urls)
        finally:
            self._sending.release()
        return [f"waits: {_MISSING}"] * len(urls) if "missing" in found else list(found["ends"])

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


def _mark(letter: int, url: str) -> str:
    return hashlib.sha256(f"{letter}:{url}".encode()).hexdigest()[:32]


def _end(url: str, subject: str, body: str) -> str:
    """Why this address of notify.toml did not take it; "" = it did."""
    try:
        module = importlib.import_module("apprise")
    except ImportError:
        return f"waits: {_MISSING}"
    channel: _Apprise = module.Apprise()
    if not channel.add(url):
        return "is none that apprise knows"
    try:
        return "" if channel.notify(body=body or subject, title=subject) else "did not take it"
    except Exception as cause:  # a plug-in's fault is a failed delivery
        return f"failed: {type(cause).__name__}"


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
