"""Hearing what the database announces: one thread, one connection, reconnected for ever.

    listener = Listener(dsn, "fabric_work", on_notify=wake, on_gap=wake_all)
    listener.start()
    ...
    listener.stop()

Announcements are a courtesy: what was announced while the connection was away is lost, so ``on_gap`` is called after
each (re)connection, and whoever waits polls as well. Both callbacks run on the listener's thread and must be short.
"""

from __future__ import annotations

import logging
import random
import select
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import psycopg
from psycopg import pq, sql
from psycopg.pq import ExecStatus, PollingStatus
from psycopg.pq.abc import PGconn

from taskfabric.db.pool import configured

log = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 0.1  # seconds before a reconnection; doubles up to the longest, with jitter
_LONGEST_PAUSE: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerState:
    """For health pages."""

    listening: bool
    since: datetime  # of the present state
    connections: int  # made so far; more than one means that it was lost in between
    error: str | None  # why it does not listen


class _Stopped(Exception):
    """``stop`` was called."""


class _Lost(Exception):
    """The connection is of no use any more."""


class Listener:
    """Calls ``on_notify(payload)`` for each announcement on a channel, and ``on_gap()`` whenever some may be missing.

    A connection that is silent for ``probe_every`` seconds is asked for a sign of life and given up when it does not
    answer within ``patience`` seconds, so a half-open connection is noticed within their sum.
    """

    def __init__(
        self,
        dsn: str,
        channel: str,
        on_notify: Callable[[str], None],
        on_gap: Callable[[], None],
        *,
        probe_every: float = 15.0,
        patience: float = 5.0,
    ) -> None:
        self._dsn = configured(dsn, name="listener").encode()
        self._listen = sql.SQL("LISTEN {}").format(sql.Identifier(channel)).as_string().encode()
        self._on_notify = on_notify
        self._on_gap = on_gap
        self._probe_every = probe_every
        self._patience = patience
        self._wake_in, self._wake_out = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name=f"listen-{channel}", daemon=True)
        self._connections = 0
        self._state = ListenerState(listening=False, since=datetime.now(UTC), connections=0, error="not started")

    def start(self) -> None:
        """Begin to listen; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and its connection, now."""
        self._wake_out.send(b".")
        if self._thread.ident is not None:
            self._thread.join()
        self._wake_in.close()
        self._wake_out.close()

    def state(self) -> ListenerState:
        """Whether it listens, since when, and why not."""
        return self._state

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            before = self._connections
            try:
                self._listen_until_lost()
            except _Stopped:
                self._say(listening=False, error="stopped")
                return
            except _Lost as lost:
                self._say(listening=False, error=str(lost))
                log.warning("listener lost its connection reason=%s", lost)
            pause = _FIRST_PAUSE if self._connections > before else min(pause * 2, _LONGEST_PAUSE)
            try:
                self._wait(None, time.monotonic() + pause * random.uniform(0.5, 1.0))
            except _Stopped:
                self._say(listening=False, error="stopped")
                return

    def _listen_until_lost(self) -> None:
        conn: PGconn = pq.PGconn.connect_start(self._dsn)
        try:
            self._connect(conn)
            self._ask(conn, self._listen)
            self._connections += 1
            self._say(listening=True, error=None)
            self._call(self._on_gap)
            while True:
                if self._wait(conn, time.monotonic() + self._probe_every):
                    self._read(conn)
                else:
                    self._ask(conn, b"SELECT 1")
                self._deliver(conn)
        finally:
            conn.finish()

    def _connect(self, conn: PGconn) -> None:
        deadline = time.monotonic() + self._patience
        step = PollingStatus.WRITING
        while step != PollingStatus.OK:
            if step == PollingStatus.FAILED:
                raise _Lost(conn.get_error_message().strip())
            if not self._wait(conn, deadline, write=step == PollingStatus.WRITING):
                raise _Lost(f"no connection within {self._patience:g} s")
            step = PollingStatus(conn.connect_poll())
        conn.nonblocking = 1

    def _ask(self, conn: PGconn, question: bytes) -> None:
        """Run one statement without ever waiting longer than our patience."""
        deadline = time.monotonic() + self._patience
        try:
            conn.send_query(question)
            while conn.flush():
                if not self._wait(conn, deadline, write=True):
                    raise _Lost(f"no answer within {self._patience:g} s")
            while True:
                while conn.is_busy():
                    if not self._wait(conn, deadline):
                        raise _Lost(f"no answer within {self._patience:g} s")
                    conn.consume_input()
                result = conn.get_result()
                if result is None:
                    return
                if result.status not in {ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK}:
                    raise _Lost(result.get_error_message().strip())
        except psycopg.Error as cause:
            raise _Lost(str(cause).strip()) from cause

    def _read(self, conn: PGconn) -> None:
        try:
            conn.consume_input()
        except psycopg.Error as cause:
            raise _Lost(str(cause).strip()) from cause

    def _deliver(self, conn: PGconn) -> None:
        while (heard := conn.notifies()) is not None:
            self._call(self._on_notify, heard.extra.decode("utf-8", "replace"))

    def _call(self, callback: Callable[..., None], *arguments: str) -> None:
        try:
            callback(*arguments)
        except Exception:  # a listener that dies of one callback is deaf for all the others
            log.exception("listener callback failed")

    def _wait(self, conn: PGconn | None, deadline: float, *, write: bool = False) -> bool:
        """Whether the connection is ready before the deadline. Raises _Stopped as soon as somebody stops us."""
        poll = select.poll()
        poll.register(self._wake_in, select.POLLIN)
        if conn is not None:
            try:
                poll.register(conn.socket, select.POLLOUT if write else select.POLLIN)
            except psycopg.Error as cause:
                raise _Lost(str(cause).strip()) from cause
        ready = poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
        if any(fd == self._wake_in.fileno() for fd, _ in ready):
            raise _Stopped
        return bool(ready)

    def _say(self, *, listening: bool, error: str | None) -> None:
        self._state = ListenerState(
            listening=listening, since=datetime.now(UTC), connections=self._connections, error=error
        )
