"""What belongs to a project besides its board: its particulars, metadata, files, and what happened in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from taskfabric.domain.principal import Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Particulars:
    """A project as Kanboard's clients know it."""

    id: int
    name: str
    description: str
    identifier: str
    is_active: bool
    is_public: bool
    is_private: bool
    token: str  # of the public page; "" = none
    email: str | None
    start_date: str
    end_date: str
    owner_id: int | None
    priority_default: int
    priority_start: int
    priority_end: int
    last_modified: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectChange:
    """What shall be different; None leaves alone."""

    name: str | None = None
    description: str | None = None
    owner_id: int | None = None
    identifier: str | None = None
    start_date: str | None = None
    end_date: str | None = None
    priority_default: int | None = None
    priority_start: int | None = None
    priority_end: int | None = None
    email: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFile:
    """A file of a project; the bytes are in the file store."""

    id: int
    project_id: int
    name: str
    sha256: str
    size: int  # bytes
    user_id: int
    username: str
    user_name: str
    date: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """An event of a project's record."""

    id: int
    at: datetime
    kind: str  # of the journal
    project_id: int
    project_name: str
    task_id: int | None
    task_title: str
    actor_id: int
    actor_username: str
    actor_name: str
    actor_email: str
    data: Mapping[str, Any]


class Dossiers(Protocol):
    """Raises ``Unavailable`` while the store cannot be reached, NotFound for a project that is not there."""

    def all(self, ids: Sequence[int] | None = None) -> list[Particulars]:
        """These projects, or every one, by name."""

    def by(self, field: str, value: str) -> Particulars | None:
        """The first project whose name, identifier or email this is."""

    def create(
        self, change: ProjectChange, stamp: Stamp, *, private: bool, owner_id: int | None, manager_id: int | None
    ) -> int:
        """The number of a new project with four columns and a swimlane. Raises BadInput for an identifier or an
        email that another project has."""

    def change(self, project_id: int, change: ProjectChange, stamp: Stamp) -> None:
        """Raises BadInput for an identifier or an email that another project has."""

    def set_public(self, project_id: int, token: str, stamp: Stamp) -> None:
        """The public page has this token; "" = there is none."""

    def remove(self, project_id: int, stamp: Stamp) -> None:
        """The project and its tasks are gone; journal and submissions keep what they say. Raises IllegalMove for a
        queue, and while one of its tasks is held, or tasks elsewhere descend from one or are blocked by one."""

    def metadata(self, project_id: int) -> dict[str, str]: ...
    def put_metadata(self, project_id: int, values: Mapping[str, str], stamp: Stamp) -> None: ...
    def drop_metadata(self, project_id: int, name: str, stamp: Stamp) -> bool: ...
    def files(self, project_id: int) -> list[ProjectFile]:
        """By name."""

    def add_file(self, project_id: int, name: str, size: int, sha256: str, stamp: Stamp) -> int: ...
    def remove_files(self, project_id: int, file_id: int | None, stamp: Stamp) -> int:
        """This one or all; how many there were."""

    def happenings(
        self, project_ids: Sequence[int], kinds: Sequence[str], limit: int, viewer_id: int | None, human: bool
    ) -> list[Happening]:
        """Those of these kinds among the house's last 20,000 events, newest first, without those of tasks that the
        viewer may not see."""
