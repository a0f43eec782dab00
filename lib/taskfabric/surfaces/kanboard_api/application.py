"""The application: its version, time zone, colours and roles."""

from __future__ import annotations

from typing import Final

from taskfabric import __version__
from taskfabric.domain.principal import AppRole, ProjectRole
from taskfabric.surfaces.kanboard_api.dispatch import Call, Procedure, procedure
from taskfabric.surfaces.kanboard_api.roles import ANYBODY
from taskfabric.surfaces.kanboard_api.shapes import COLORS, DEFAULT_COLOR

ZONE: Final = "UTC"  # in which dates without a zone are read
_APP_ROLES: Final = {
    AppRole.ADMIN.value: "Administrator",
    AppRole.MANAGER.value: "Manager",
    AppRole.USER.value: "User",
}
_PROJECT_ROLES: Final = {
    ProjectRole.MANAGER.value: "Project Manager",
    ProjectRole.MEMBER.value: "Project Member",
    ProjectRole.VIEWER.value: "Project Viewer",
}


def table() -> list[Procedure]:
    return [
        procedure("getTimezone", _zone, ANYBODY),
        procedure("getVersion", _version, ANYBODY),
        procedure("getDefaultTaskColor", _default_color, ANYBODY),
        procedure("getDefaultTaskColors", _colors, ANYBODY),
        procedure("getColorList", _color_names, ANYBODY),
        procedure("getApplicationRoles", _application_roles, ANYBODY),
        procedure("getProjectRoles", _project_roles, ANYBODY),
    ]


def _zone(call: Call) -> str:
    return ZONE


def _version(call: Call) -> str:
    return f"taskfabric {__version__}"


def _default_color(call: Call) -> str:
    return DEFAULT_COLOR


def _colors(call: Call) -> dict[str, dict[str, str]]:
    return COLORS


def _color_names(call: Call) -> dict[str, str]:
    return {color_id: color["name"] for color_id, color in COLORS.items()}


def _application_roles(call: Call) -> dict[str, str]:
    return _APP_ROLES


def _project_roles(call: Call) -> dict[str, str]:
    return _PROJECT_ROLES
