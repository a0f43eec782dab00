"""Kanboard's query language over the cards of a project."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.integration.board_api import BoardApi
from tests.integration.cards import Ground, project


@dataclass(frozen=True, kw_only=True)
class Cards:
    ground: Ground
    first: int  # open, Backlog, alice's, tagged, due
    second: int  # open, Ready, nobody's
    closed: int


@pytest.fixture(scope="module")
def cards(shared_api: BoardApi) -> Cards:
    ground = project(shared_api)
    category = ground.call("createCategory", ground.id, "Big things")
    first = ground.create(
        "Repair the roof",
        owner_id=shared_api.user_id("alice"),
        tags=["next week", "house"],
        category_id=category,
        date_due="2030-05-06 10:00",
        priority=3,
        score=8,
        reference="REF-77",
        color_id="deep_orange",
        description="slates and nails",
    )
    second = ground.create("Paint 100% of the_door", column_id=ground.columns["Ready"])
    closed = ground.create("Old roof")
    ground.call("createTaskLink", first, second, 2)
    ground.call("createComment", first, shared_api.user_id("alice"), "mind the gutter")
    ground.call("createSubtask", first, "ladder", shared_api.user_id("alice"))
    ground.call("closeTask", closed)
    return Cards(ground=ground, first=first, second=second, closed=closed)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", "first second closed"),
        ("status:open", "first second"),
        ("status:closed", "closed"),
        ("status:5", ""),
        ("roof", "first closed"),
        ("ROOF status:open", "first"),
        ("repair the", "first"),
        ('title:"the roof"', "first"),
        ("100%", "second"),
        ("the_door", "second"),
        ("theXdoor", ""),
        ("assignee:me", "first"),
        ("assignee:nobody", "second closed"),
        ("assignee:anybody", "first"),
        ("assignee:ali", "first"),
        ("creator:me", "first second closed"),
        ("column:Ready", "second"),
        ("column:ready", ""),
        ('column:"Work in progress"', ""),
        ("swimlane:default*", ""),
        ('swimlane:"default swimlane"', "first second closed"),
        ('category:"Big things"', "first"),
        ("category:none", "second closed"),
        ('tag:"next week"', "first"),
        ("tag:HOUSE", "first"),
        ("tag:none", "second closed"),
        ("tag:house tag:none", "first second closed"),
        ("priority:3", "first"),
        ("priority:>=1 priority:0", "first second closed"),
        ("score:>5", "first"),
        ("complexity:<=8 status:open", "first second"),
        ("ref:REF-77", "first"),
        ("reference:ref-*", "first"),
        ("reference:none", "second closed"),
        ("color:deep_orange", "first"),
        ('color:"Deep Orange"', "first"),
        ("desc:slates", "first"),
        ("comment:gutter", "first"),
        ('link:"is blocked by"', "second"),
        ("link:blocks", "first"),
        ("subtask:assignee:me", "first"),
        ("due:2030-05-06", "first"),
        ("due:<2030-05-06", ""),
        ("due:<=2030-05-06", "first"),
        ("due:>2030-05-05", "first"),
        ("due:today", ""),
        ("due:none status:open", "second"),
        ("dueRange:2030-05-01..2030-05-31", "first"),
        ("created:today", "first second closed"),
        ("created:<today", ""),
        ("modified:>=today", "first second closed"),
        ("completed:today", "closed"),
        ("unknown:field", ""),
        ("status:open priority:>2 tag:house column:Backlog assignee:me", "first"),
    ],
)
def test_a_query_finds_these_cards(cards: Cards, query: str, names: str) -> None:
    assert cards.ground.found(query) == [getattr(cards, name) for name in names.split()]


def test_a_number_is_looked_for_as_id_and_in_titles(cards: Cards) -> None:
    assert cards.first in cards.ground.found(f"#{cards.first}")
    assert cards.ground.found(f"id:{cards.second}") == [cards.second]
    assert cards.ground.found("id:999999999999999999999") == []


def test_for_the_app_token_me_is_nobody(cards: Cards) -> None:
    assert cards.ground.found("assignee:me", by="jsonrpc") == [cards.second, cards.closed]


def test_rows_carry_counts_and_names_and_no_url(cards: Cards) -> None:
    [row] = cards.ground.call("searchTasks", cards.ground.id, "desc:slates")
    assert (row["nb_comments"], row["nb_subtasks"], row["nb_links"]) == (1, 1, 1)
    assert (row["column_name"], row["category_name"], row["assignee_username"]) == ("Backlog", "Big things", "alice")
    assert row["project_name"].startswith("project ")
    assert not {"url", "color", "tags", "external_uri"} & set(row)
