"""Cutting connections whose database accepts and never answers.

A blocking read in the client library has no time limit of its own, and TCP's limits do not help when something in
between keeps acknowledging. One thread looks at the connections that are in use, and shuts down the socket of each that
is past its time; the reader then gets an error at once.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from typing import Final

import psycopg

log = logging.getLogger(__name__)

_LOOK_EVERY: Final = 0.5  # seconds


class Ticket:
    """One use of a connection and when it must be over."""

    __slots__ = ("conn", "deadline", "fired")

    def __init__(self, conn: psycopg.Connection[tuple[object, ...]], deadline: float) -> None:
        self.conn = conn
        self.deadline = deadline
        self.fired = False


class Cutoff:
    """The thread that enforces the time limits of one pool. Arming costs about a microsecond."""

    def __init__(self, *, name: str) -> None:
        self._name = name
        self._tickets: dict[int, Ticket] = {}
        # A ticket is taken out under this lock before its connection goes back, and fired under it: so a connection
        # is never cut while its next user has it.
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def armed(self) -> int:
        """How many connections are in use."""
        return len(self._tickets)

    def arm(self, conn: psycopg.Connection[tuple[object, ...]], limit: float) -> Ticket:
        """Begin a use of at most ``limit`` seconds."""
        ticket = Ticket(conn, time.monotonic() + limit)
        self._tickets[id(ticket)] = ticket
        if self._thread is None:
            self._begin()
        return ticket

    def disarm(self, ticket: Ticket) -> None:
        """End the use."""
        with self._lock:
            self._tickets.pop(id(ticket), None)

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _begin(self) -> None:
        with self._lock:
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._watch, name=f"{self._name}-cutoff", daemon=True)
                self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(_LOOK_EVERY):
            now = time.monotonic()
            for ticket in list(self._tickets.values()):
                if ticket.deadline > now or ticket.fired:
                    continue
                with self._lock:
                    if id(ticket) in self._tickets:
                        ticket.fired = True
                        _shut(ticket.conn)
                        log.warning("connection cut pool=%s reason=no-answer-in-time", self._name)


def _shut(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    with contextlib.suppress(OSError, psycopg.Error):
        copy = socket.socket(fileno=os.dup(conn.pgconn.socket))
        try:
            copy.shutdown(socket.SHUT_RDWR)
        finally:
            copy.close()
