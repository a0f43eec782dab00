"""Reading all that there is, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from taskfabric.domain.approval import Approval
from taskfabric.domain.principal import Viewer
from taskfabric.domain.task import Task
from taskfabric.ports.approvals import Approvals, Look
from taskfabric.ports.board import Board, Filter

_PAGE: Final = 1000


def every(board: Board, wanted: Filter, viewer: Viewer) -> list[Task]:
    """All visible tasks that meet the filter, by id; its limit and its page do not count."""
    found: list[Task] = []
    while True:
        after = found[-1].id if found else 0
        page = board.find(replace(wanted, after_id=after, limit=_PAGE), viewer)
        found += page
        if len(page) < _PAGE:
            return found


def every_approval(approvals: Approvals, look: Look) -> Iterator[Approval]:
    """All approvals that meet the look, newest first, each page as it stands when it is come to; the look's limit and
    page do not count."""
    before: int | None = None
    while page := approvals.find(replace(look, before_id=before, limit=_PAGE)):
        yield from page
        before = page[-1].id


__all__ = ["every", "every_approval"]
