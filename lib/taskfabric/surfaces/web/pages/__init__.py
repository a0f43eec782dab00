"""One file a page: what it asks of the hallway, and what its template gets."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from taskfabric.surfaces.web.pages.activity import activity
from taskfabric.surfaces.web.pages.board import board, boards
from taskfabric.surfaces.web.pages.fleet import fleet
from taskfabric.surfaces.web.pages.inbox import inbox
from taskfabric.surfaces.web.pages.page import Page as Page
from taskfabric.surfaces.web.pages.people import people
from taskfabric.surfaces.web.pages.search import find, new
from taskfabric.surfaces.web.pages.settings import settings
from taskfabric.surfaces.web.pages.task import task

PAGES: Final[tuple[tuple[re.Pattern[str], Callable[..., Page]], ...]] = tuple(
    (re.compile(pattern), make)
    for pattern, make in (
        ("/", inbox),
        ("/boards", boards),
        ("/board/(?P<queue>[^/]{1,255})", board),
        ("/task/(?P<ref>[0-9]{1,18})", task),
        ("/new", new),
        ("/find", find),
        ("/fleet", fleet),
        ("/activity", activity),
        ("/settings", settings),
        ("/people", people),
    )
)
