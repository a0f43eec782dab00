"""Labels of links between tasks."""

from __future__ import annotations

from taskfabric.ports.labels import Label
from taskfabric.services.hallway import Hallway
from taskfabric.surfaces.kanboard_api.dispatch import Call, Procedure, procedure
from taskfabric.surfaces.kanboard_api.roles import APP_ADMIN


class Links:
    """The group Link."""

    def __init__(self, hallway: Hallway) -> None:
        self._household = hallway.household

    def table(self) -> list[Procedure]:
        return [
            procedure("getLinkById", self.one, APP_ADMIN, no=None),
            procedure("getLinkByLabel", self.labelled, APP_ADMIN, no=None),
            procedure("getOppositeLinkId", self.opposite, APP_ADMIN),
            procedure("getAllLinks", self.all, APP_ADMIN, no=[]),
            procedure("createLink", self.create, APP_ADMIN),
            procedure("updateLink", self.update, APP_ADMIN),
            procedure("removeLink", self.remove, APP_ADMIN),
        ]

    def one(self, call: Call, link_id: int) -> object:
        return next((_shape(label) for label in self._household.labels() if label.id == link_id), None)

    def labelled(self, call: Call, label: str) -> object:
        return next((_shape(one) for one in self._household.labels() if one.label == label), None)

    def opposite(self, call: Call, link_id: int) -> int:
        """A label that says the same from both sides is its own opposite."""
        found = (one.opposite_id for one in self._household.labels() if one.id == link_id)
        return next(found, 0) or link_id

    def all(self, call: Call) -> object:
        return [_shape(label) for label in self._household.labels()]

    def create(self, call: Call, label: str, opposite_label: str = "") -> int:
        return self._household.create_label(call.caller, label, opposite_label)

    def update(self, call: Call, link_id: int, opposite_link_id: int, label: str) -> bool:
        self._household.update_label(call.caller, link_id, opposite_link_id, label)
        return True

    def remove(self, call: Call, link_id: int) -> bool:
        self._household.remove_label(call.caller, link_id)
        return True


def _shape(label: Label) -> dict[str, object]:
    return {"id": label.id, "label": label.label, "opposite_id": label.opposite_id}
