"""A bad network between a client and a server: it forwards, stalls, swallows the answers, or cuts."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path
from typing import Final, Literal, Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

_CHUNK: Final = 65536
Mode = Literal["forward", "stall", "drop-replies"]


class Relay:
    """Listens on a free port of 127.0.0.1 and passes bytes on to ``upstream``: (host, port), or a Unix socket's path.

    with Relay(("127.0.0.1", 8420)) as relay:
        relay.stall()      # connections stay open, nothing gets through in either direction
        relay.forward()    # what was held back arrives now
    """

    def __init__(self, upstream: tuple[str, int] | Path) -> None:
        self._upstream = upstream
        self._mode: Mode = "forward"
        self._changed = threading.Condition()
        self._closed = False
        self.swallowed = 0  # bytes of answers that never arrived
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._maimed: set[tuple[socket.socket, socket.socket]] = set()
        self._door = socket.create_server(("127.0.0.1", 0))
        self.host = "127.0.0.1"
        self.port: int = self._door.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._begin(self._accept)

    @classmethod
    def to_database(cls, dsn: str) -> Self:
        """A relay in front of the PostgreSQL server that this connection string names."""
        parts = conninfo_to_dict(dsn)
        host, port = str(parts.get("host") or "127.0.0.1"), int(str(parts.get("port") or 5432))
        return cls(Path(host) / f".s.PGSQL.{port}" if host.startswith("/") else (host, port))

    def dsn(self, dsn: str) -> str:
        """The connection string that leads through this relay."""
        return make_conninfo(dsn, host=self.host, port=self.port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def forward(self) -> None:
        """Pass everything on again. Connections that lost answers are cut: their streams have a hole."""
        self._turn("forward")
        for pair in list(self._maimed):
            self._end(pair)

    def stall(self) -> None:
        """Hold everything back without closing anything, as a dead switch does."""
        self._turn("stall")

    def drop_replies(self) -> None:
        """Let requests through and swallow what comes back: the server has done it, the client does not know."""
        self._turn("drop-replies")

    def cut(self) -> None:
        """Close the connections there are; new ones are welcome."""
        for pair in list(self._pairs):
            self._end(pair)

    def close(self) -> None:
        """Close everything and wait for the threads."""
        self._closed = True
        self._turn("forward")
        with contextlib.suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        self.cut()
        for thread in self._threads:
            thread.join()

    def _turn(self, mode: Mode) -> None:
        with self._changed:
            self._mode = mode
            self._changed.notify_all()

    def _begin(self, work: object, *arguments: object) -> None:
        assert callable(work)
        thread = threading.Thread(target=work, args=arguments, name=f"relay-{self.port}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            try:
                server = self._connect()
            except OSError:
                client.close()
                continue
            pair = (client, server)
            self._pairs.add(pair)
            self._begin(self._pump, pair, client, server, False)
            self._begin(self._pump, pair, server, client, True)

    def _connect(self) -> socket.socket:
        if isinstance(self._upstream, Path):
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(str(self._upstream))
            except OSError:
                server.close()
                raise
            return server
        return socket.create_connection(self._upstream, timeout=None)

    def _pump(
        self, pair: tuple[socket.socket, socket.socket], source: socket.socket, target: socket.socket, replies: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                with self._changed:
                    while self._mode == "stall" and pair in self._pairs:
                        self._changed.wait()
                    mode = self._mode
                if replies and mode == "drop-replies":
                    self._maimed.add(pair)
                    self.swallowed += len(data)
                else:
                    target.sendall(data)
        with self._changed:
            # An end is news as well: it does not get through a stalled network either.
            while self._mode == "stall" and pair in self._pairs:
                self._changed.wait()
        self._end(pair)

    def _end(self, pair: tuple[socket.socket, socket.socket]) -> None:
        with self._changed:
            mine = pair in self._pairs
            self._pairs.discard(pair)
            self._maimed.discard(pair)
            self._changed.notify_all()
        if mine:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
