"""The table of procedures: every group of Kanboard's API, one line each."""

from __future__ import annotations

from collections.abc import Mapping

from taskfabric.services.hallway import Hallway
from taskfabric.surfaces.kanboard_api import application
from taskfabric.surfaces.kanboard_api.actions import Actions
from taskfabric.surfaces.kanboard_api.activity import Activity
from taskfabric.surfaces.kanboard_api.categories import Categories
from taskfabric.surfaces.kanboard_api.columns import Columns
from taskfabric.surfaces.kanboard_api.comments import Comments
from taskfabric.surfaces.kanboard_api.dispatch import Procedure
from taskfabric.surfaces.kanboard_api.groups import Groups
from taskfabric.surfaces.kanboard_api.links import Links
from taskfabric.surfaces.kanboard_api.me import Me
from taskfabric.surfaces.kanboard_api.permissions import Permissions
from taskfabric.surfaces.kanboard_api.project_files import ProjectFiles
from taskfabric.surfaces.kanboard_api.project_metadata import ProjectMetadata
from taskfabric.surfaces.kanboard_api.projects import Projects
from taskfabric.surfaces.kanboard_api.subtasks import Subtasks
from taskfabric.surfaces.kanboard_api.swimlanes import Swimlanes
from taskfabric.surfaces.kanboard_api.tags import Tags
from taskfabric.surfaces.kanboard_api.task_links import TaskLinks
from taskfabric.surfaces.kanboard_api.task_trimmings import TaskTrimmings
from taskfabric.surfaces.kanboard_api.tasks import Tasks
from taskfabric.surfaces.kanboard_api.users import Users


def procedures(hallway: Hallway) -> Mapping[str, Procedure]:
    """All of them, by name."""
    activity = Activity(hallway)
    groups: list[list[Procedure]] = [
        application.table(),
        Projects(hallway, activity).table(),
        Permissions(hallway).table(),
        ProjectMetadata(hallway).table(),
        ProjectFiles(hallway).table(),
        Columns(hallway).table(),
        Swimlanes(hallway).table(),
        Categories(hallway).table(),
        Users(hallway).table(),
        Groups(hallway).table(),
        Links(hallway).table(),
        Me(hallway, activity).table(),
        Actions(hallway).table(),
        Tasks(hallway).table(),
        TaskTrimmings(hallway).table(),
        TaskLinks(hallway).table(),
        Tags(hallway).table(),
        Subtasks(hallway).table(),
        Comments(hallway).table(),
    ]
    return {one.name: one for group in groups for one in group}
