"""Kanboard's API of a served fabric, spoken shortly."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from taskfabric.wiring import app_token
from tests.integration.serving import Reply, Served, serving

APP_TOKEN: Final = "an-app-token-of-forty-characters-or-more"


class Refusal(AssertionError):
    """The call was answered with an error; ``reply`` is the whole answer."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.body[:500])
        self.reply = reply
        self.code: int = reply.json["error"]["code"]


@dataclass(frozen=True, kw_only=True)
class BoardApi:
    """Calls in the name of whoever is named: ``jsonrpc`` is the app token."""

    served: Served

    def basic(self, name: str, password: str | None = None) -> dict[str, str]:
        secret = self.served.tokens[name] if password is None else password
        return {"Authorization": "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()}

    def post(self, body: object, name: str = "alice", password: str | None = None) -> Reply:
        return self.served.rpc(body, headers=self.basic(name, password))

    def reply(self, method: str, params: object, name: str = "alice") -> Reply:
        return self.post({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}, name)

    def call(self, method: str, *args: Any, by: str = "alice", **named: Any) -> Any:
        """The result. Raises Refusal."""
        assert not (args and named), "a call has its arguments by place or by name"
        params: Sequence[Any] | dict[str, Any] = list(args) if args else named
        reply = self.reply(method, params, by)
        answer = reply.json
        if "error" in answer:
            raise Refusal(reply)
        assert reply.status == 200, reply
        assert set(answer) == {"jsonrpc", "id", "result"}
        assert answer["id"] == 7
        return answer["result"]

    def user_id(self, name: str) -> int:
        found = self.served.house.credentials.principal(name)
        assert found is not None
        return found.id


@contextmanager
def board_api(dsn: str, home: Path, **overrides: Any) -> Iterator[BoardApi]:
    """A served fabric whose app token is on."""
    with serving(dsn, home, **overrides) as served:
        app_token(served.house, APP_TOKEN)
        served.tokens["jsonrpc"] = APP_TOKEN
        yield BoardApi(served=served)
