"""Five hundred who wait: long polls for a task's end, long polls for work, and event streams, from one process.

python -m tests.bench.crowd          # a JSON document on stdin says where and who; "ready" on stdout; ends with stdin
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any
from urllib.parse import urlsplit

_AGAIN = 0.05  # seconds before a wait that was answered is asked anew


async def _ask(host: str, port: int, token: str, call: dict[str, Any], count: list[int]) -> None:
    """One client: asks, waits for the answer, and asks again, on one connection."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, **call}).encode()
    head = (
        f"POST /jsonrpc.php HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection(host, port)
    first = True
    while True:
        writer.write(head.encode() + body)
        await writer.drain()
        if first:
            count[0] += 1
            first = False
        answer = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in answer.split(b"\r\n", 1)[0]:
            raise RuntimeError(answer.decode())
        length = next(int(x.split(b":")[1]) for x in answer.lower().split(b"\r\n") if x.startswith(b"content-length"))
        await reader.readexactly(length)
        count[1] += 1
        await asyncio.sleep(_AGAIN)


async def _stream(host: str, port: int, token: str, count: list[int]) -> None:
    """One client that reads the journal as it grows."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(f"GET /events HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    answer = await reader.readuntil(b"\r\n\r\n")
    if b" 200 " not in answer.split(b"\r\n", 1)[0]:
        raise RuntimeError(answer.decode())
    count[0] += 1
    while await reader.read(65536):
        count[1] += 1


async def _crowd(plan: dict[str, Any]) -> None:
    address = urlsplit(plan["url"])
    host, port = str(address.hostname), int(address.port or 80)
    count = [0, 0]  # clients at work, answers
    wait = {"method": "fabric.wait"}
    clients = [
        asyncio.create_task(_ask(host, port, token, {**wait, "params": params}, count))
        for token, params in plan["polls"]
    ]
    clients += [asyncio.create_task(_stream(host, port, token, count)) for token in plan["streams"]]
    end = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
    while count[0] < len(clients):
        await asyncio.sleep(0.05)
        _look(clients)
    print("ready", flush=True)
    while not end.done():
        await asyncio.sleep(0.1)
        _look(clients)
    print(count[1], flush=True)


def _look(clients: list[asyncio.Task[None]]) -> None:
    """Raises what a client has raised: a crowd that has gone home measures nothing."""
    for client in clients:
        if client.done():
            client.result()
            raise RuntimeError("the server hung up on a waiter")


if __name__ == "__main__":
    import os

    loop = asyncio.new_event_loop()
    loop.run_until_complete(_crowd(json.loads(sys.stdin.readline())))
    os._exit(0)
