"""What an Ollama says that it has loaded, and how that counts for the room of a card."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from taskfabric.domain.card import AgentCard, CardKind, ModelSpec
from workers import availability, ollama
from workers.availability import Room
from workers.ollama import Size

_GB = 1 << 30


def card(name: str, model: str = "ollama_chat/qwen3:4b", *, url: str = "", **more: object) -> AgentCard:
    fields = {"name": name, "kind": CardKind.MODEL, "model": ModelSpec(model=model, endpoint=url), **more}
    return AgentCard(**fields)  # type: ignore[arg-type]


@contextmanager
def serving(body: bytes) -> Iterator[str]:
    """An Ollama that answers so."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/api/ps"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def listed(*models: tuple[str, int, int]) -> bytes:
    shape = [{"name": name, "size": size * _GB, "size_vram": gpu * _GB} for name, size, gpu in models]
    return json.dumps({"models": shape}).encode()


def test_the_sizes_are_those_that_the_list_says() -> None:
    with serving(listed(("qwen3:4b", 6, 5), ("other:latest", 3, 0))) as url:
        found = ollama.loaded(card("local", url=url))
    assert found == {"qwen3:4b": Size(gpu=5120, ram=1024), "other:latest": Size(gpu=0, ram=3072)}
    assert ollama.measured(card("local", gpu_mb=4000), found).gpu_mb == 5120
    assert ollama.of_strangers([card("local")], found) == Size(gpu=0, ram=3072)


def test_a_name_without_a_tag_means_the_latest() -> None:
    assert ollama.model_of(card("local", "ollama/llama3")) == "llama3:latest"
    assert ollama.model_of(card("local", "openai/llama3")) == ""


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"models": 3}', b'{"models": [{"size": 1}]}', b"\xff"])
def test_an_answer_that_is_none_means_that_the_declared_sizes_count(body: bytes) -> None:
    with serving(body) as url:
        assert ollama.loaded(card("local", url=url)) == {}


def test_an_ollama_that_is_away_is_no_hindrance() -> None:
    assert ollama.loaded(card("local", url="http://127.0.0.1:9")) == {}


def test_what_somebody_else_has_loaded_leaves_less_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability, "_gpu_mb", lambda: 8000)
    with serving(listed(("huge:70b", 6, 6))) as url:
        refused = Room(card("local", url=url, gpu_mb=4000), tmp_path).part(work=True)
    assert not refused.open
    assert "there are 1856 MB of GPU memory" in refused.reason
    with serving(listed()) as url:
        room = Room(card("local", url=url, gpu_mb=4000), tmp_path)
        assert room.part(work=True).open
        room.leave()
