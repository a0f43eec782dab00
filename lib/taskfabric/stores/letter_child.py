"""The process in which apprise sends a letter to addresses that a person named: it reaches public places only.

    python -m taskfabric.stores.letter_child        the letter on standard input, what became of it on standard output

What apprise does with an address is its own affair (names, redirects, other hosts), so this is asked where it cannot be
passed by: at each connection, about the very address that is connected to. No other program is started.
"""

from __future__ import annotations

import importlib
import json
import socket
import sys
from typing import Any, Final

from taskfabric.domain.errors import BadInput
from taskfabric.stores.channel_address import read
from taskfabric.stores.egress import is_public

_NEVER: Final = frozenset(
    {"socket.sendto", "socket.sendmsg", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork"}
)


def guard(allowed: list[str]) -> None:
    """From now on this process connects to public addresses, and to the hosts that are exempt, and does no more."""
    exempt = {address for host in allowed for address in _addresses(host)}

    def judge(event: str, args: tuple[Any, ...]) -> None:
        if event in _NEVER:
            raise PermissionError(f"{event} is not for this process")
        if event == "socket.connect":
            address = args[1]
            if not isinstance(address, tuple):  # a socket of this machine's
                raise PermissionError("only public addresses are connected to")
            host, port = str(address[0]), address[1]
            if not is_public(host) and (host, port) not in exempt and (host, None) not in exempt:
                raise PermissionError("only public addresses are connected to")

    sys.addaudithook(judge)


def _addresses(allowed: str) -> list[tuple[str, int | None]]:
    """What a name, an address, or either with ``:port`` means, as a connection names it."""
    name, _, last = allowed.rpartition(":")
    host, port = (name, int(last)) if last.isdigit() and name and ":" not in name else (allowed, None)
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [(str(info[4][0]), port) for info in found]


def send(apprise: Any, url: str, subject: str, body: str) -> str:
    """Why this address did not take it; "" = it did. No address is in it."""
    try:
        read(url)
        # One address is one service: ``add`` would read several out of a text.
        service = apprise.Apprise.instantiate(url)
        if service is None:
            return "is none that apprise knows"
        return "" if service.notify(body=body or subject, title=subject) else "did not take it"
    except BadInput as error:
        return f"may not be used: {error.message}"
    except Exception as error:  # a plug-in's fault is a failed delivery
        return f"failed: {type(error).__name__}"


def main() -> None:
    job = json.load(sys.stdin)
    try:
        apprise = importlib.import_module("apprise")
    except ImportError:
        json.dump({"missing": True}, sys.stdout)
        return
    guard(job["allow"])
    json.dump({"ends": [send(apprise, url, job["subject"], job["body"]) for url in job["urls"]]}, sys.stdout)


if __name__ == "__main__":
    main()
