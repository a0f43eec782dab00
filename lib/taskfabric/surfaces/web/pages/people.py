"""The people of the house and their agents: who there is, and what an administrator does for them."""

from __future__ import annotations

from taskfabric.services.verbs import ListUsers
from taskfabric.surfaces.web.pages.page import Page
from taskfabric.surfaces.web.visit import Visit


def people(visit: Visit) -> Page:
    """Everybody that the reader may know of; the forms are for those who may use them."""
    users = visit.fabric.call(ListUsers())
    return Page(
        template="people.html",
        values={
            "title": "People",
            "humans": [user for user in users if user["kind"] == "human"],
            "agents": [user for user in users if user["kind"] == "agent"],
        },
    )
