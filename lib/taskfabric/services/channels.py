"""A person's own channels: where his letters go, beside what notify.toml says.

They carry what concerns him out of the house, so that changing them takes his PIN once he has one.
"""

from __future__ import annotations

from typing import Any, Final

from taskfabric.domain.errors import BadInput, not_found
from taskfabric.domain.principal import Caller
from taskfabric.domain.times import iso
from taskfabric.ports.notifier import Reach
from taskfabric.services import inbox_verbs, policy
from taskfabric.services.desk import Desk
from taskfabric.services.upkeep import Upkeep

_MOST: Final = 10  # channels of one person


class OwnChannels:
    """The verbs about channels."""

    def __init__(self, desk: Desk, upkeep: Upkeep) -> None:
        self._desk = desk
        self._upkeep = upkeep

    def list(self, caller: Caller, verb: inbox_verbs.ListChannels) -> list[dict[str, Any]]:
        self._own(caller, "listing channels")
        me = caller.principal.name
        kept = [_shown(None, f"{url.partition('://')[0]}://…") for url in self._upkeep.notifier.reach(me).urls]
        own = [
            _shown(c.id, c.shown, created=iso(c.created), problem="" if c.url else _UNREADABLE)
            for c in self._upkeep.channels.of(me)
        ]
        return [*kept, *own]

    def add(self, caller: Caller, verb: inbox_verbs.AddChannel) -> dict[str, Any]:
        """Raises BadInput for an address that may not be used."""
        self._own(caller, "adding a channel")
        address = verb.address.strip()
        shown = self._upkeep.notifier.shown(address)
        policy.need_pin(self._desk, caller, verb.pin, "a new channel")
        made = self._upkeep.channels.add(caller.principal.id, address, shown, _MOST, caller.stamp())
        if made is None:
            raise BadInput(f"one has at most {_MOST} channels", next="remove one that is not needed", field="address")
        return _shown(made, shown)

    def remove(self, caller: Caller, verb: inbox_verbs.RemoveChannel) -> dict[str, Any]:
        self._own(caller, "removing a channel")
        policy.need_pin(self._desk, caller, verb.pin, "removing a channel")
        if not self._upkeep.channels.remove(caller.principal.id, verb.id, caller.stamp()):
            raise not_found("channel")
        return {"id": verb.id, "removed": True}

    def test(self, caller: Caller, verb: inbox_verbs.TryChannel) -> dict[str, Any]:
        self._own(caller, "testing a channel")
        found = next((c for c in self._upkeep.channels.of(caller.principal.name) if c.id == verb.id), None)
        if found is None:
            raise not_found("channel")
        if found.url is None:
            return {"id": found.id, "shown": found.shown, "taken": False, "problem": _UNREADABLE}
        subject = "taskfabric: a test"
        words = f"{caller.principal.name} asked for this letter, to see whether it arrives."
        taken = self._upkeep.notifier.send(Reach(own=(found.url,)), subject, words)
        return {"id": found.id, "shown": found.shown, "taken": not taken.problem, "problem": taken.problem}

    def _own(self, caller: Caller, what: str) -> None:
        policy.need_human(caller, what, "channels")
        policy.need_unlimited(caller, what)


_UNREADABLE: Final = "its address was sealed with another key: remove it, and add it again"


def _shown(id: int | None, shown: str, *, created: str | None = None, problem: str = "") -> dict[str, Any]:
    source = "notify.toml" if id is None else "own"
    return {"id": id, "shown": shown, "source": source, "created": created, "problem": problem}
