"""Projects: made, found, changed, closed and removed."""

from __future__ import annotations

from taskfabric.domain.principal import ProjectRole
from taskfabric.ports.dossier import Particulars, ProjectChange
from taskfabric.services.hallway import Hallway
from taskfabric.surfaces.kanboard_api.activity import Activity
from taskfabric.surfaces.kanboard_api.dispatch import Call, Procedure, procedure
from taskfabric.surfaces.kanboard_api.errors import Forbidden
from taskfabric.surfaces.kanboard_api.roles import ANYBODY, APP_ADMIN, APP_MANAGER, manager, of, viewer
from taskfabric.surfaces.kanboard_api.shapes import epoch, flag

_MOST: int = 100  # projects asked about at once


class Projects:
    """The group Project."""

    def __init__(self, hallway: Hallway, activity: Activity) -> None:
        self._furnishing = hallway.furnishing
        self._rights = hallway.rights
        self._activity = activity

    def table(self) -> list[Procedure]:
        this = of("project", "project_id")
        return [
            procedure("getProjectById", self.by_id, viewer(this), no=None),
            procedure("getProjectByName", self.by_name, ANYBODY),
            procedure("getProjectByIdentifier", self.by_identifier, ANYBODY),
            procedure("getProjectByEmail", self.by_email, ANYBODY),
            procedure("getAllProjects", self.all, APP_ADMIN, no=[]),
            procedure("removeProject", self.remove, manager(this)),
            procedure("enableProject", self.enable, manager(this)),
            procedure("disableProject", self.disable, manager(this)),
            procedure("enableProjectPublicAccess", self.publish, manager(this)),
            procedure("disableProjectPublicAccess", self.unpublish, manager(this)),
            procedure("getProjectActivities", self.activities, ANYBODY, no=[]),
            procedure("getProjectActivity", self.activity, viewer(this), no=[]),
            procedure("createProject", self.create, APP_MANAGER),
            procedure("updateProject", self.update, manager(this)),
        ]

    # -- reading -------------------------------------------------------------------------------------

    def by_id(self, call: Call, project_id: int) -> object:
        return project_shape(self._furnishing.project(project_id), call.base)

    def by_name(self, call: Call, name: str) -> object:
        return self._found(call, self._furnishing.project_by("name", name))

    def by_identifier(self, call: Call, identifier: str) -> object:
        return self._found(call, self._furnishing.project_by("identifier", identifier.upper()))

    def by_email(self, call: Call, email: str) -> object:
        return self._found(call, self._furnishing.project_by("email", email))

    def _found(self, call: Call, project: Particulars | None) -> object:
        """Somebody else's project is answered as one that does not exist."""
        if project is None or not self._rights.reaches(call.caller, project.id, ProjectRole.VIEWER):
            return False
        return project_shape(project, call.base)

    def all(self, call: Call) -> object:
        return [project_shape(project, call.base) for project in self._furnishing.projects()]

    def activities(self, call: Call, project_ids: list[object]) -> object:
        ids = [int(id) for id in project_ids[:_MOST] if isinstance(id, int | str) and str(id).isdigit()]
        ids = [id for id in ids if id < 2**31]
        if any(not self._rights.reaches(call.caller, id, ProjectRole.VIEWER) for id in ids):
            raise Forbidden
        return self._activity.of(call, ids)

    def activity(self, call: Call, project_id: int) -> object:
        return self._activity.of(call, [project_id])

    # -- changing ------------------------------------------------------------------------------------

    def create(
        self,
        call: Call,
        name: str,
        description: str | None = None,
        owner_id: int = 0,
        identifier: str | None = None,
        start_date: str | None = None,
        end_date: str | None = None,
        priority_default: int | None = None,
        priority_start: int | None = None,
        priority_end: int | None = None,
        email: str | None = None,
    ) -> int:
        return self._furnishing.create(
            call.caller,
            ProjectChange(
                name=name,
                description=description,
                owner_id=owner_id,
                identifier=identifier,
                start_date=start_date,
                end_date=end_date,
                priority_default=priority_default or 0,
                priority_start=priority_start,
                priority_end=priority_end,
                email=email,
            ),
        )

    def update(
        self,
        call: Call,
        project_id: int,
        name: str | None = None,
        description: str | None = None,
        owner_id: int | None = None,
        identifier: str | None = None,
        start_date: str | None = None,
        end_date: str | None = None,
        priority_default: int | None = None,
        priority_start: int | None = None,
        priority_end: int | None = None,
        email: str | None = None,
    ) -> bool:
        change = ProjectChange(
            name=name,
            description=description,
            owner_id=owner_id,
            identifier=identifier,
            start_date=start_date,
            end_date=end_date,
            priority_default=priority_default,
            priority_start=priority_start,
            priority_end=priority_end,
            email=email,
        )
        self._furnishing.change(call.caller, project_id, change)
        return True

    def remove(self, call: Call, project_id: int) -> bool:
        self._furnishing.remove(call.caller, project_id)
        return True

    def enable(self, call: Call, project_id: int) -> bool:
        self._furnishing.set_active(call.caller, project_id, True)
        return True

    def disable(self, call: Call, project_id: int) -> bool:
        self._furnishing.set_active(call.caller, project_id, False)
        return True

    def publish(self, call: Call, project_id: int) -> bool:
        self._furnishing.set_public(call.caller, project_id, True)
        return True

    def unpublish(self, call: Call, project_id: int) -> bool:
        self._furnishing.set_public(call.caller, project_id, False)
        return True


def project_shape(project: Particulars, base: str) -> dict[str, object]:
    """A project's row, with the links to its board."""
    where = f"{base}?controller=%s&action=show&project_id={project.id}"
    return {
        "id": project.id,
        "name": project.name,
        "is_active": flag(project.is_active),
        "token": project.token,
        "last_modified": epoch(project.last_modified),
        "is_public": flag(project.is_public),
        "is_private": flag(project.is_private),
        "is_everybody_allowed": 0,
        "default_swimlane": "Default swimlane",
        "show_default_swimlane": 1,
        "description": project.description or None,
        "identifier": project.identifier,
        "start_date": project.start_date,
        "end_date": project.end_date,
        "owner_id": project.owner_id or 0,
        "priority_default": project.priority_default,
        "priority_start": project.priority_start,
        "priority_end": project.priority_end,
        "email": project.email,
        "predefined_email_subjects": None,
        "per_swimlane_task_limits": 0,
        "task_limit": 0,
        "enable_global_tags": 1,
        "url": {"board": where % "BoardViewController", "list": where % "TaskListController"},
    }
