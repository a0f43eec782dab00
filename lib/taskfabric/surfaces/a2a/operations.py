"""What each operation of A2A does, but for sending and streaming: in a thread, for a caller who was let in."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import orjson
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors as sdk

from taskfabric.domain.errors import IllegalMove
from taskfabric.domain.principal import Caller
from taskfabric.domain.status import A2AState
from taskfabric.ports.a2a import Asked, Seen
from taskfabric.services.a2a import A2A, Agent
from taskfabric.settings import A2A as Rules
from taskfabric.surfaces.a2a import wire
from taskfabric.surfaces.a2a.cards import Cards

_PAGE: Final = 50


class PushConfigs(Protocol):
    """Where a task's events are to be sent. Secrets in what they return are masked."""

    def check(self, config: Mapping[str, Any]) -> None:
        """Raises BadInput for a config that would not be taken."""

    def create(
        self, a2a_id: str, owner_id: int, config: Mapping[str, Any], *, after: int | None = None
    ) -> dict[str, Any]: ...
    def get(self, a2a_id: str, owner_id: int, config_id: str) -> dict[str, Any] | None: ...
    def list(self, a2a_id: str, owner_id: int) -> list[dict[str, Any]]: ...
    def delete(self, a2a_id: str, owner_id: int, config_id: str) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """Who calls which agent, at which address."""

    caller: Caller
    agent: Agent
    url: str


class Operations:
    """Each method answers with ProtoJSON. ``stop`` ends the run of a task in this server."""

    def __init__(
        self,
        a2a: A2A,
        rules: Rules,
        cards: Cards,
        push: PushConfigs | None,
        stop: Callable[[int, str], None],
    ) -> None:
        self._a2a = a2a
        self._rules = rules
        self._cards = cards
        self._push = push
        self._stop = stop
        self._by_method: Final[Mapping[str, Callable[[Visit, Any], Any]]] = {
            "GetTask": self.get,
            "ListTasks": self.list,
            "CancelTask": self.cancel,
            "CreateTaskPushNotificationConfig": self.create_push,
            "GetTaskPushNotificationConfig": self.get_push,
            "ListTaskPushNotificationConfigs": self.list_push,
            "DeleteTaskPushNotificationConfig": self.delete_push,
            "GetExtendedAgentCard": self.extended_card,
        }

    def answer(self, visit: Visit, call: wire.Call) -> Any:
        """The result. Raises an A2AError or a FabricError."""
        return self._by_method[call.method](visit, call.params)

    # -- tasks ---------------------------------------------------------------------------------------

    def get(self, visit: Visit, params: pb.GetTaskRequest) -> Any:
        seen = self._a2a.find(visit.caller, visit.agent, params.id)
        return self._a2a.task(seen, history=_history(params))

    def list(self, visit: Visit, params: pb.ListTasksRequest) -> Any:
        size = params.page_size if params.HasField("page_size") else _PAGE
        seen, total = self._a2a.listed(
            Asked(
                owner_id=visit.caller.principal.id,
                agent_id=visit.agent.principal.id,
                context=params.context_id,
                state=None if not params.status else A2AState(pb.TaskState.Name(params.status)),
                since=_since(params),
                before=_place(params.page_token) if params.page_token else None,
                limit=size + 1,
            )
        )
        page, artifacts, fill = seen[:size], params.include_artifacts, self._a2a.filling()
        return {
            "tasks": [self._a2a.task(one, history=_history(params), artifacts=artifacts, fill=fill) for one in page],
            "nextPageToken": _token(page[-1]) if len(seen) > size else "",
            "pageSize": size,
            "totalSize": total,
        }

    def cancel(self, visit: Visit, params: pb.CancelTaskRequest) -> Any:
        try:
            seen = self._a2a.cancel(visit.caller, visit.agent, params.id)
        except IllegalMove:
            raise sdk.TaskNotCancelableError from None
        self._stop(seen.task_id, "cancelled")
        return self._a2a.task(seen)

    # -- push ----------------------------------------------------------------------------------------

    def pushing(self) -> PushConfigs:
        """Raises PushNotificationNotSupported where it is switched off."""
        if self._push is None or not self._rules.push:
            raise sdk.PushNotificationNotSupportedError
        return self._push

    def create_push(self, visit: Visit, params: pb.TaskPushNotificationConfig) -> Any:
        push = self.pushing()
        seen = self._a2a.find(visit.caller, visit.agent, params.task_id)
        return push.create(seen.id, visit.caller.principal.id, wire.shape(params))

    def get_push(self, visit: Visit, params: pb.GetTaskPushNotificationConfigRequest) -> Any:
        push = self.pushing()
        seen = self._a2a.find(visit.caller, visit.agent, params.task_id)
        found = push.get(seen.id, visit.caller.principal.id, params.id)
        if found is None:
            raise sdk.TaskNotFoundError
        return found

    def list_push(self, visit: Visit, params: pb.ListTaskPushNotificationConfigsRequest) -> Any:
        push = self.pushing()
        seen = self._a2a.find(visit.caller, visit.agent, params.task_id)
        found, size, after = push.list(seen.id, visit.caller.principal.id), params.page_size, params.page_token
        if not 0 <= size <= 100:
            raise sdk.InvalidParamsError("pageSize lies between 1 and 100")
        if after:  # the last one of the page before, by its id
            place = next((place for place, one in enumerate(found) if one["id"] == after), None)
            if place is None:
                raise sdk.InvalidParamsError("pageToken is not one of ours")
            found = found[place + 1 :]
        page = found[:size] if size else found
        return {"configs": page, "nextPageToken": page[-1]["id"] if len(page) < len(found) else ""}

    def delete_push(self, visit: Visit, params: pb.DeleteTaskPushNotificationConfigRequest) -> Any:
        push = self.pushing()
        seen = self._a2a.find(visit.caller, visit.agent, params.task_id)
        push.delete(seen.id, visit.caller.principal.id, params.id)

    # -- card ----------------------------------------------------------------------------------------

    def extended_card(self, visit: Visit, params: pb.GetExtendedAgentCardRequest) -> Any:
        if not self._rules.extended_card:
            raise sdk.UnsupportedOperationError("This agent has no extended card")
        return self._cards.extended(visit.agent.card, visit.url, queue=visit.agent.queue.name)


def _history(params: Any) -> int | None:
    return params.history_length if params.HasField("history_length") else None


def _since(params: pb.ListTasksRequest) -> datetime | None:
    if not params.HasField("status_timestamp_after"):
        return None
    try:
        moment: datetime = params.status_timestamp_after.ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise sdk.InvalidParamsError("statusTimestampAfter is no instant") from None
    return moment


def _token(seen: Seen) -> str:
    place = orjson.dumps([seen.changed.isoformat(), seen.id])
    return base64.urlsafe_b64encode(place).rstrip(b"=").decode()


def _place(token: str) -> tuple[datetime, str]:
    """The place that ``_token`` named. A made-up one leads nowhere but to the caller's own tasks."""
    try:
        at, a2a_id = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        moment = datetime.fromisoformat(at)
    except (ValueError, TypeError, binascii.Error):
        raise sdk.InvalidParamsError("pageToken is not one of ours") from None
    if moment.tzinfo is None or not isinstance(a2a_id, str) or not a2a_id.isprintable():
        raise sdk.InvalidParamsError("pageToken is not one of ours")
    return moment, a2a_id
