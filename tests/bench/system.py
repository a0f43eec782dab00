"""What a measured system must be able to do."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from typing import NoReturn

import psycopg

from tests.bench import databases
from tests.bench.ruler import Slot


class System(ABC):
    """One product, or one way of using it. ``setup`` comes first; workers connect inside ``work``."""

    name = "?"
    first_wait = 30.0  # seconds that the first task may take to be picked up
    admin = ""  # the superuser's connection string
    relaxed = False  # commits do not wait for the disk
    dsn = ""

    # -- what each system says for itself ------------------------------------------------------------

    @abstractmethod
    def setup(self) -> None:
        """The empty schema."""

    @abstractmethod
    def clear(self) -> None:
        """No task is left."""

    @abstractmethod
    def fill(self, n: int) -> None:
        """``n`` more tasks are ready, made in the fastest way there is."""

    @abstractmethod
    def work(self, slot: Slot) -> None:
        """A worker: takes, does nothing, finishes, until told to stop."""

    def open_client(self) -> None:  # noqa: B027 (most have nothing to do)
        """A submitter is connected."""

    def close_client(self) -> None:  # noqa: B027 (most have nothing to do)
        """It is gone."""

    def submit(self, submitted: float) -> None:
        """One task; ``submitted`` travels with it, so that a worker can tell how long it took."""
        self._unmeasured()

    def submit_many(self, n: int) -> None:
        """``n`` tasks in one call."""
        self._unmeasured()

    def daemon(self) -> contextlib.AbstractContextManager[int]:
        """A worker as a process of its own, by its number, until the context ends."""
        self._unmeasured()

    def finished(self) -> int | None:
        """How many tasks the database records as finished; None where the worker itself knows."""
        return None

    def beside(self) -> float:
        """CPU seconds of the product's own server process, if it has one."""
        return 0.0

    def close(self) -> None:  # noqa: B027 (most have nothing to do)
        """Whatever runs beside the workers has ended."""

    # -- what they share -----------------------------------------------------------------------------

    @property
    def database(self) -> str:
        return f"bench_{self.name}_relaxed" if self.relaxed else f"bench_{self.name}"

    def fresh(self) -> None:
        """An empty database of this system's own."""
        self.dsn = databases.fresh(self.admin, self.database, relaxed=self.relaxed)

    def drop(self) -> None:
        """Its database is gone."""
        databases.drop(self.admin, self.database)

    def run(self, statement: str) -> None:
        """Run statements on its database."""
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            conn.execute(statement.encode())

    def ask(self, query: str) -> int:
        """A number from its database."""
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            row = conn.execute(query.encode()).fetchone()
        assert row is not None
        return int(row[0])

    def settle_down(self) -> None:
        """Statistics and visibility map are up to date, so that nobody's vacuum falls into another's window."""
        self.run("VACUUM ANALYZE")

    def _unmeasured(self) -> NoReturn:
        raise TypeError(f"{self.name} has no part in this measure")
