"""A sender to Zabbix' trapper port: one JSON object behind a header of 13 bytes, and the answer in the same form."""

from __future__ import annotations

import json
import re
import socket
import struct
from collections.abc import Mapping
from typing import Final

_HEAD: Final = b"ZBXD\x01"
_PATIENCE: Final = 10.0  # seconds
_LONGEST: Final = 1 << 20  # bytes of an answer
_FAILED: Final = re.compile(r"failed: (\d+)")


def send(server: str, host: str, values: Mapping[str, float]) -> int:
    """Hand the values of this host to ``server`` (host:port); how many it refused. Raises OSError."""
    name, _, port = server.rpartition(":")
    data = [{"host": host, "key": key, "value": f"{value:.15g}"} for key, value in values.items()]
    body = json.dumps({"request": "sender data", "data": data}).encode()
    with socket.create_connection((name, int(port)), timeout=_PATIENCE) as sock:
        sock.sendall(_HEAD + struct.pack("<II", len(body), 0) + body)
        head = _read(sock, 13)
        if head[:5] != _HEAD:
            raise OSError("that is no Zabbix server")
        (size,) = struct.unpack("<I", head[5:9])
        if size > _LONGEST:
            raise OSError("its answer is too long")
        text = _read(sock, size).decode("utf-8", "replace")
    try:
        info = str(json.loads(text).get("info", ""))
    except (ValueError, AttributeError) as error:
        raise OSError("its answer is no JSON object") from error
    failed = _FAILED.search(info)
    return int(failed[1]) if failed else 0


def _read(sock: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = sock.recv(size - len(found))
        if not piece:
            raise OSError("it hung up")
        found += piece
    return found
