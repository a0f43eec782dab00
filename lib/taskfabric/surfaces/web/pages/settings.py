"""The reader's own settings: zone, quiet hours, vacation, PIN, sessions, tokens, standing grants."""

from __future__ import annotations

from zoneinfo import available_timezones

from taskfabric.domain.errors import FabricError
from taskfabric.services.approval_verbs import ListGrants, ShowPolicy
from taskfabric.services.inbox_verbs import ListSessions, Me
from taskfabric.services.verbs import ListTokens
from taskfabric.surfaces.web.pages.inbox import humans
from taskfabric.surfaces.web.pages.page import Page
from taskfabric.surfaces.web.visit import Visit


def settings(visit: Visit) -> Page:
    """All of it is the reader's alone."""
    me = visit.caller.principal
    tokens = visit.fabric.call(ListTokens())
    return Page(
        template="settings.html",
        values={
            "title": "Settings",
            "mine": visit.fabric.call(Me()),
            "sessions": visit.fabric.call(ListSessions()),
            "tokens": [token for token in tokens if not token["revoked"]],
            "grants": visit.fabric.call(ListGrants()),
            "policy": _policy(visit),
            "zones": sorted(available_timezones()),
            "humans": humans(visit),
            "owner": me.name,
        },
    )


def _policy(visit: Visit) -> dict[str, object] | None:
    try:
        return visit.fabric.call(ShowPolicy())
    except FabricError:  # not his to read
        return None
