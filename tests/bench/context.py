"""What every measure is given: the server, the size of the run, and the systems, each set up once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.hosted import Hosted, MissingPeer

log = logging.getLogger("bench")


@dataclass(kw_only=True)
class Bench:
    """One run of the bench."""

    admin: str
    peers: Path  # the virtual environment with the peers' libraries
    rounds: int
    secs: float  # of a window
    full: bool  # the sizes of the table; else smaller ones that end within minutes
    workers: int = 4
    missing: dict[str, str] = field(default_factory=dict)
    _hosts: dict[tuple[str, bool], Hosted] = field(default_factory=dict)

    def host(self, name: str, *, relaxed: bool = False) -> Hosted | None:
        """The system, set up; None (and noted) if its library is not there."""
        key = (name, relaxed)
        if key not in self._hosts:
            if name in self.missing:
                return None
            try:
                made = Hosted(name, self.admin, peers=self.peers, relaxed=relaxed)
            except MissingPeer as why:
                self.missing[name] = str(why)
                log.warning("peer missing name=%s reason=%r", name, str(why))
                return None
            made.setup()
            self._hosts[key] = made
        return self._hosts[key]

    def hosts(self, names: Sequence[str], *, relaxed: bool = False) -> list[Hosted]:
        """Those of them that are there."""
        return [made for name in names if (made := self.host(name, relaxed=relaxed)) is not None]

    def interleaved(self, hosts: Sequence[Hosted], visit: Callable[[Hosted], None]) -> None:
        """Every round visits all systems, each time in another order: a noisy minute hits everybody."""
        for number in range(self.rounds):
            turn = number % len(hosts) if hosts else 0
            for host in [*hosts[turn:], *hosts[:turn]]:
                log.info("round=%d system=%s", number + 1, host.name)
                visit(host)

    def close(self) -> None:
        for host in self._hosts.values():
            host.close()
        self._hosts.clear()
