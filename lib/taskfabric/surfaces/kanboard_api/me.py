"""The caller's own: who he is, his projects, his tasks, what happened around him."""

from __future__ import annotations

from typing import Final

from taskfabric.ports.dossier import ProjectChange
from taskfabric.services.hallway import Hallway
from taskfabric.surfaces.kanboard_api.activity import Activity
from taskfabric.surfaces.kanboard_api.dispatch import Call, Procedure, procedure
from taskfabric.surfaces.kanboard_api.projects import project_shape
from taskfabric.surfaces.kanboard_api.roles import PERSON
from taskfabric.surfaces.kanboard_api.shapes import keyed
from taskfabric.surfaces.kanboard_api.users import user_shape

_STREAM: Final = 100  # events
_NOT_OF_SESSIONS: Final = ("password", "is_admin", "is_project_admin")


class Me:
    """The group Me."""

    def __init__(self, hallway: Hallway, activity: Activity) -> None:
        self._furnishing = hallway.furnishing
        self._household = hallway.household
        self._hallway = hallway
        self._activity = activity

    def table(self) -> list[Procedure]:
        return [
            procedure("getMe", self.me, PERSON, no=None),
            procedure("getMyDashboard", self.dashboard, PERSON, no=[]),
            procedure("getMyActivityStream", self.stream, PERSON, no=[]),
            procedure("createMyPrivateProject", self.create_private, PERSON),
            procedure("getMyProjectsList", self.project_names, PERSON, no={}),
            procedure("getMyOverdueTasks", self.overdue, PERSON, no=[]),
            procedure("getMyProjects", self.projects, PERSON, no=[]),
        ]

    def me(self, call: Call) -> object:
        row = user_shape(self._household.profile(call.caller.principal.id))
        session = {name: value for name, value in row.items() if name not in _NOT_OF_SESSIONS}
        return {**session, "is_ldap_user": False, "twofactor_activated": False}

    def dashboard(self, call: Call) -> object:
        return self._hallway.cards.dashboard(call.caller)

    def overdue(self, call: Call) -> object:
        return self._hallway.cards.my_overdue(call.caller)

    def stream(self, call: Call) -> object:
        ids = [project.id for project in self._furnishing.own_projects(call.caller)]
        return self._activity.of(call, ids, _STREAM)

    def create_private(self, call: Call, name: str, description: str | None = None) -> int:
        change = ProjectChange(name=name, description=description, priority_default=0)
        return self._furnishing.create(call.caller, change, private=True)

    def project_names(self, call: Call) -> object:
        return keyed((project.id, project.name) for project in self._furnishing.own_projects(call.caller))

    def projects(self, call: Call) -> object:
        return [project_shape(project, call.base) for project in self._furnishing.own_projects(call.caller)]
