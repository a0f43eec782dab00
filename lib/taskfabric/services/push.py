"""Push over A2A: who wants to be told of his task, and the telling.

One address hears the events of a task one after another; a failure makes that address rest, longer each time, and no
other one. What is told at least once carries a key, so that a receiver can know it again.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from taskfabric.domain.errors import BadInput, FabricError, Unavailable
from taskfabric.ports.egress import Egress
from taskfabric.ports.push import Delivery, PushConfig, PushStore, Secrets, Shape
from taskfabric.services.a2a_text import Fill, filled

log = logging.getLogger(__name__)

MASK: Final = "***"
_KNOWN: Final = frozenset({"tenant", "id", "taskId", "url", "token", "authentication"})
_ID: Final = 128  # characters
_SECRET: Final = 4096  # characters
_SCHEME: Final = 64  # characters
_FIRST_REST: Final = timedelta(seconds=5)
_LONGEST_REST: Final = timedelta(hours=1)
_GONE: Final = 410
_PRINTABLE: Final = frozenset(chr(c) for c in range(0x21, 0x7F))


class Push:
    """Implements ``ports.push.PushConfigs``; ``most`` for each task."""

    def __init__(self, store: PushStore, egress: Egress, *, most: int) -> None:
        self._store = store
        self._egress = egress
        self._most = most

    def check(self, config: Shape) -> None:
        self._read(config, "", 0)

    def create(self, a2a_id: str, owner_id: int, config: Shape, *, after: int | None = None) -> dict[str, Any]:
        made, secrets = self._read(config, a2a_id, owner_id)
        if not self._store.put(made, secrets, self._most, after):
            raise BadInput(
                f"a task has at most {self._most} push configs", next="delete one that is not needed", field="id"
            )
        return _shape(made)

    def get(self, a2a_id: str, owner_id: int, config_id: str) -> dict[str, Any] | None:
        found = (one for one in self._store.find(a2a_id, owner_id) if one.id == config_id)
        return next((_shape(one) for one in found), None)

    def list(self, a2a_id: str, owner_id: int) -> list[dict[str, Any]]:
        return [_shape(one) for one in self._store.find(a2a_id, owner_id)]

    def delete(self, a2a_id: str, owner_id: int, config_id: str) -> bool:
        return self._store.drop(a2a_id, owner_id, config_id)

    def _read(self, config: Shape, a2a_id: str, owner_id: int) -> tuple[PushConfig, Secrets]:
        """Raises BadInput for what cannot be sent, or must not be asked."""
        if unknown := sorted(set(config) - _KNOWN):
            raise BadInput(f"a push config has no {unknown[0][:40]!r}", next=f"known are {', '.join(sorted(_KNOWN))}")
        url, auth = _word(config, "url", 2048), config.get("authentication") or {}
        if not url:
            raise BadInput("a push config needs a url", field="url")
        if not isinstance(auth, dict):
            raise BadInput("authentication is an object with scheme and credentials", field="authentication")
        secrets = Secrets(token=_line(config, "token"), credentials=_line(auth, "credentials"))
        scheme = _word(auth, "scheme", _SCHEME)
        if MASK in (secrets.token, secrets.credentials):
            raise BadInput(f"{MASK} stands for a secret that is not shown", next="give the secret itself, or none")
        self._egress.check(url)
        made = PushConfig(
            id=_word(config, "id", _ID) or str(uuid.uuid4()),
            a2a_id=a2a_id,
            owner_id=owner_id,
            url=url,
            scheme=scheme or ("Bearer" if secrets.credentials else ""),
            has_token=bool(secrets.token),
            has_credentials=bool(secrets.credentials),
        )
        return made, secrets


def _word(shape: Shape, name: str, longest: int) -> str:
    value = shape.get(name) or ""
    if not isinstance(value, str) or len(value) > longest or not set(value) <= _PRINTABLE:
        raise BadInput(f"{name} must be a text of at most {longest} printable ASCII characters", field=name)
    return value


def _line(shape: Shape, name: str) -> str:
    """A secret that goes into a header: a line break in it would begin another header."""
    value = shape.get(name) or ""
    if not isinstance(value, str) or len(value) > _SECRET or not set(value) <= _PRINTABLE | {" "}:
        raise BadInput(f"{name} must be one line of at most {_SECRET} printable ASCII characters", field=name)
    return value


def _shape(config: PushConfig) -> dict[str, Any]:
    shape: dict[str, Any] = {"id": config.id, "taskId": config.a2a_id, "url": config.url}
    if config.has_token:
        shape["token"] = MASK
    if config.scheme or config.has_credentials:
        shape["authentication"] = {"scheme": config.scheme}
        if config.has_credentials:
            shape["authentication"]["credentials"] = MASK
    return shape


# ---------------------------------------------------------------- the telling


@dataclass(frozen=True, slots=True, kw_only=True)
class PushDelivery:
    """What tells. ``fill`` puts the bytes of files into an event, ``tries`` is how often one event is offered."""

    store: PushStore
    egress: Egress
    now: Callable[[], datetime]
    fill: Callable[[Shape], Shape]
    tries: int

    def due(self, limit: int, telling: Sequence[PushConfig] = (), share: int | None = None) -> list[Delivery]:
        """What is to be told now, at most one thing for each address, and ``share`` for one owner and at one host
        with what is being told (``telling``). Raises Unavailable."""
        return self.store.due(limit, telling, share)

    def tell(self, delivery: Delivery) -> bool:
        """One attempt; whether it arrived. Raises Unavailable while the store is away: then it is told again."""
        if not delivery.owner_active:
            self._given_up(delivery, "its owner is switched off")
            return False
        try:
            status = self._post(delivery)
        except FabricError as error:
            self._failed(delivery, error.message)
            return False
        if 200 <= status < 300:
            self.store.told(delivery)
            return True
        if status == _GONE:
            self._given_up(delivery, "it answers that it is gone")
        else:
            hint = "; redirects are not followed" if 300 <= status < 400 else ""
            self._failed(delivery, f"it answers {status}{hint}")
        return False

    def _post(self, delivery: Delivery) -> int:
        secrets = delivery.secrets
        if secrets is None:
            raise Unavailable("its secrets were sealed with another key", next="register it again")
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "taskfabric",
            "Idempotency-Key": f"{delivery.config.a2a_id}-{delivery.n}",
        }
        if secrets.token:
            headers["X-A2A-Notification-Token"] = secrets.token
        if secrets.credentials:
            headers["Authorization"] = f"{delivery.config.scheme} {secrets.credentials}"
        body = json.dumps(self.fill(delivery.body), ensure_ascii=False, separators=(",", ":")).encode()
        return self.egress.post(delivery.config.url, body, headers)

    def _failed(self, delivery: Delivery, why: str) -> None:
        attempts = delivery.attempts + 1
        if attempts >= self.tries:
            self._given_up(delivery, why)
            return
        self.store.failed(delivery, self.now() + rest(attempts))
        log.info(
            "push not delivered config=%d event=%d attempt=%d reason=%r", delivery.number, delivery.n, attempts, why
        )

    def _given_up(self, delivery: Delivery, why: str) -> None:
        self.store.give_up(delivery, why)
        log.warning("push given up config=%d event=%d reason=%r", delivery.number, delivery.n, why)


def with_files(event: Shape, fill: Fill) -> Shape:
    """The event with the bytes of the files in it."""
    update = event.get("artifactUpdate")
    if not isinstance(update, dict):
        return event
    return {"artifactUpdate": {**update, "artifact": filled(update["artifact"], fill)}}


def rest(attempts: int) -> timedelta:
    """How long an address rests after this many failed attempts."""
    return min(_LONGEST_REST, _FIRST_REST * 2.0 ** min(attempts - 1, 20))
