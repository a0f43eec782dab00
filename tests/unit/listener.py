"""A receiver of HTTP calls on the loopback: it keeps what it hears and answers what it is told to."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, kw_only=True)
class Call:
    """One request; names of headers in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Heard:
    """What came, and what is answered."""

    port: int = 0
    answer: tuple[int, dict[str, str]] = (200, {})
    answers: list[int] = field(default_factory=list)  # statuses of the next calls, before ``answer``
    hold: threading.Event | None = None  # no answer until it is set
    requests: list[Call] = field(default_factory=list)
    came: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"


@contextlib.contextmanager
def heard_at() -> Iterator[Heard]:
    """A receiver, until the block ends."""
    heard = Heard()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            heard.requests.append(Call(path=self.path, headers=headers, body=body))
            heard.came.set()
            if heard.hold is not None:
                heard.hold.wait(20)
            status, more = (heard.answers.pop(0), {}) if heard.answers else heard.answer
            with contextlib.suppress(OSError):  # the caller had no patience
                self.send_response(status)
                for name, value in more.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    heard.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield heard
    finally:
        if heard.hold is not None:
            heard.hold.set()
        server.shutdown()
        server.server_close()
        thread.join()
