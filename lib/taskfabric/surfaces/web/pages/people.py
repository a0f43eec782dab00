"""The people of the house and their agents: who there is, and what an administrator does for them."""

from __future__ import annotations

from taskfabric.services.verbs import ListSessions, ListUsers
from taskfabric.surfaces.web.pages.page import Page
from taskfabric.surfaces.web.visit import Visit


def people(visit: Visit) -> Page:
    """Everybody that the reader may know of; the forms are for those who may use them."""
    users = visit.fabric.call(ListUsers())
    humans = [user for user in users if user["kind"] == "human"]
    asked = visit.query.get("who", "") if visit.caller.principal.is_admin else ""
    whose = next((user["name"] for user in humans if user["name"] == asked), None)
    return Page(
        template="people.html",
        values={
            "title": "People",
            "humans": humans,
            "whose": whose,
            "sessions": [] if whose is None else visit.fabric.call(ListSessions(name=whose)),
            "agents": [user for user in users if user["kind"] == "agent"],
        },
    )
