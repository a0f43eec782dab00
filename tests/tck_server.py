"""A whole server for the public A2A compliance kit, with the agent that the kit expects behind the real gateway.

    .venv/bin/python -m tests.tck_server --port 9994 --token secret [--capabilities off]

The kit is run against http://127.0.0.1:PORT (the root shows that agent's card). Runs until it is stopped; its
database is thrown away then. Of the kit's branch 1.0-dev (357c4a8) 102 tests pass over JSON-RPC and 96 over HTTP+JSON,
with ``--capabilities off`` 80 and 76; none fails but one over HTTP+JSON, where the kit asks for the text of a refused
stream before it has read it.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import signal
import tempfile
from pathlib import Path
from typing import Final

from taskfabric import logs
from taskfabric.logs import LogFormat, LogLevel
from taskfabric.settings import load
from taskfabric.surfaces.app import configuration, create_app, listening, server_of
from taskfabric.surfaces.push_postman import PushPostman
from taskfabric.testing import Ownership, TestServer, new_folder
from taskfabric.wiring import House, build, first_human, sync_cards
from tests.tck_agent import CARD, TckRuntime

NAME: Final = "tck"


def settings_of(port: int, *, capable: bool) -> dict[str, object]:
    """What differs from the defaults: this agent at the root, every kind of part, webhooks on this machine."""
    return {
        "server.port": port,
        "a2a.default_agent": NAME,
        "a2a.input_modes": "*/*",
        "a2a.streaming": capable,
        "a2a.push": capable,
        "a2a.extended_card": capable,
        "push.allow_hosts": ["127.0.0.1", "localhost", "example.com"],
        "log.level": "warning",
    }


def adopt(house: House, token: str) -> None:
    """The token of the first human is this one."""
    with house.database.connection() as conn:
        digest = hashlib.sha256(token.encode()).digest()
        conn.execute("UPDATE credentials SET hash = %s", (digest,))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--capabilities", choices=("on", "off"), default="on")
    given = parser.parse_args()
    logs.configure(LogLevel.WARNING, LogFormat.TEXT)
    owned = Ownership(new_folder())
    with contextlib.ExitStack() as held:
        held.callback(owned.end)
        home = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="fabric-tck-")))
        (home / "cards").mkdir()
        (home / "cards" / f"{NAME}.toml").write_text(CARD)
        databases = TestServer(owned.folder)
        databases.start()
        held.callback(databases.close)
        database = held.enter_context(databases.database())
        settings = load(env={}, home=home, overrides=settings_of(given.port, capable=given.capabilities == "on"))
        house = held.enter_context(contextlib.closing(build(settings, database.dsn, home=home, name="tck")))
        first_human(house, "tester")
        adopt(house, given.token)
        problems = sync_cards(house)
        if NAME in problems:
            raise SystemExit(problems[NAME])
        sock = held.enter_context(contextlib.closing(listening("127.0.0.1", given.port)))
        app = create_app(house, make=TckRuntime)
        server = server_of(configuration(app), app)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        print(f"serving http://127.0.0.1:{sock.getsockname()[1]}/agents/{NAME}", flush=True)
        with PushPostman(house.push_delivery, house.signal):
            server.run(sockets=[sock])


if __name__ == "__main__":
    main()
