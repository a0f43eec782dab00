"""Five hundred who wait: long polls for a task's end, long polls for work, and event streams, from one process.

    python -m tests.bench.crowd          # a JSON document on stdin says where and who

Says "ready" on stdout when all of them wait; when the input ends it says what they have seen, and ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

_AGAIN = 0.05  # seconds before a wait that was answered is asked anew
_SETTLE = 0.5  # seconds after which a call that was not refused counts as waiting


class Crowd:
    """The waiters of one server. A refusal because it is busy is taken as it is meant: come again in a second."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._host, self._port = str(address.hostname), int(address.port or 80)
        self.seen: Counter[str] = Counter()
        self.waiting = 0

    async def poll(self, token: str, params: Mapping[str, Any]) -> None:
        """Ask, wait for the answer, and ask again, on one connection."""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "fabric.wait", "params": params}).encode()
        request = self._head("POST /jsonrpc.php", token, f"Content-Length: {len(body)}\r\n") + body
        reader, writer = await asyncio.open_connection(self._host, self._port)
        arrived = False
        while True:
            writer.write(request)
            answer = asyncio.create_task(_answer(reader))
            if not arrived:
                done, _ = await asyncio.wait([answer], timeout=_SETTLE)
                if not done or answer.result()[0] == 200:
                    arrived = True
                    self.waiting += 1
            status, said = await answer
            self.seen[f"answers {status}"] += 1
            if status == 503:
                await asyncio.sleep(random.uniform(0.5, 1.5))
            elif status != 200:
                raise RuntimeError(said.decode())
            await asyncio.sleep(_AGAIN)

    async def stream(self, token: str) -> None:
        """Read the journal as it grows."""
        while True:
            reader, writer = await asyncio.open_connection(self._host, self._port)
            writer.write(self._head("GET /events", token))
            head = await reader.readuntil(b"\r\n\r\n")
            status = int(head.split(b" ", 2)[1])
            self.seen[f"streams {status}"] += 1
            if status == 200:
                self.waiting += 1
                while await reader.read(65536):
                    self.seen["pieces"] += 1
                raise RuntimeError("the server ended a stream")
            if status != 503:
                raise RuntimeError(head.decode())
            writer.close()
            await asyncio.sleep(random.uniform(0.5, 1.5))

    def _head(self, line: str, token: str, more: str = "") -> bytes:
        return (
            f"{line} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\n{more}\r\n"
        ).encode()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Status and body of one answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    length = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length"))
    return int(lines[0].split(b" ", 2)[1]), await reader.readexactly(length)


async def _assemble(plan: Mapping[str, Any]) -> None:
    crowd = Crowd(plan["url"])
    clients = [asyncio.create_task(crowd.poll(token, params)) for token, params in plan["polls"]]
    clients += [asyncio.create_task(crowd.stream(token)) for token in plan["streams"]]
    end = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
    while crowd.waiting < len(clients):
        await asyncio.sleep(0.05)
        _look(clients)
    print("ready", flush=True)
    while not end.done():
        await asyncio.sleep(0.1)
        _look(clients)
    print(json.dumps(crowd.seen), flush=True)


def _look(clients: Sequence[asyncio.Task[None]]) -> None:
    """Raises what a client has raised: a crowd that has gone home measures nothing."""
    for client in clients:
        if client.done():
            client.result()


def main() -> None:
    """Wait with everybody. The thread that reads the input would keep the process, so it ends by force."""
    code = 1
    try:
        asyncio.new_event_loop().run_until_complete(_assemble(json.loads(sys.stdin.readline())))
        code = 0
    except Exception:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
