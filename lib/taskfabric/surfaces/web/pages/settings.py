"""The reader's own settings: zone, quiet hours, vacation, PIN, sessions, tokens, standing grants."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from zoneinfo import available_timezones

from taskfabric.domain.errors import FabricError
from taskfabric.services.approval_verbs import ListGrants, ShowPolicy
from taskfabric.services.inbox_verbs import ListChannels, ListSessions, Me
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
            "channels": visit.fabric.call(ListChannels()),
            "sessions": visit.fabric.call(ListSessions()),
            "tokens": [token for token in tokens if not token["revoked"]],
            "grants": [grant for grant in visit.fabric.call(ListGrants()) if _holds(grant, visit)],
            "policy": _policy(visit),
            "zones": sorted(available_timezones()),
            "humans": humans(visit),
            "owner": me.name,
        },
    )


def _holds(grant: Mapping[str, Any], visit: Visit) -> bool:
    return grant["revoked"] is None and datetime.fromisoformat(grant["until"]) > visit.now


def _policy(visit: Visit) -> dict[str, object] | None:
    try:
        return visit.fabric.call(ShowPolicy())
    except FabricError:  # not his to read
        return None
