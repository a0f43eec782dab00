"""A model's endpoint for tests: speaks OpenAI's protocol on the loopback, and says what it is told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Script:
    """What the endpoint answers, and what it was asked."""

    pieces: tuple[str, ...] = ("Fixed ", "the parser.")
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] = field(default_factory=dict)  # of a refusal
    finish: str = "stop"
    hold: threading.Event | None = None  # it says no more after its first piece until this is set
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)


@contextmanager
def endpoint(script: Script) -> Iterator[str]:
    """Its base URL, while the context lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            script.asked.append(asked)
            script.keys.append(self.headers.get("Authorization", ""))
            self.send_response(script.status)
            for name, value in script.headers.items():
                self.send_header(name, value)
            if script.status != 200:
                said = json.dumps(script.body).encode()
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)
                return
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            try:
                self._stream(asked["model"])
            except OSError:  # the caller went away
                return

        def _stream(self, model: str) -> None:
            for place, piece in enumerate(script.pieces):
                if place and script.hold is not None:
                    script.hold.wait(20)
                self._event(model, [{"index": 0, "delta": {"role": "assistant", "content": piece}}])
            self._event(model, [{"index": 0, "delta": {}, "finish_reason": script.finish}])
            usage = {"prompt_tokens": 21, "completion_tokens": 4, "total_tokens": 25}
            self._event(model, [], usage=usage)
            self.wfile.write(b"data: [DONE]\n\n")

        def _event(self, model: str, choices: list[dict[str, Any]], **more: Any) -> None:
            event = {
                "id": "c1",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": model,
                "choices": choices,
                **more,
            }
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        if script.hold is not None:
            script.hold.set()
        server.shutdown()
        server.server_close()
        thread.join()
