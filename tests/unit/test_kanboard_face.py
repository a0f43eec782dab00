"""The face of a card: what a stock Kanboard says, as values."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from taskfabric.boards.kanboard.client import address
from taskfabric.boards.kanboard.face import Face, digest, minute, moment, of_card, tags_of, written
from taskfabric.domain.reserved_tags import words
from taskfabric.domain.status import Flag, Status
from taskfabric.domain.task import Task

_CARD = {
    "id": 7,
    "title": "a card",
    "description": "line\r\nline",
    "project_id": "3",
    "column_id": 11,
    "swimlane_id": 2,
    "is_active": "1",
    "priority": None,
    "score": None,
    "date_due": None,
    "owner_id": "0",
}


@pytest.mark.parametrize("yes", [1, "1", True])
def test_an_open_card_is_open_on_either_database(yes: object) -> None:
    assert of_card({**_CARD, "is_active": yes}, []).active


@pytest.mark.parametrize("no", [0, "0", False])
def test_a_closed_card_is_closed_on_either_database(no: object) -> None:
    assert not of_card({**_CARD, "is_active": no}, []).active


def test_a_face_survives_being_stored() -> None:
    face = of_card(_CARD, ["b", "a"])
    assert Face.from_json(face.to_json()) == face
    assert face.differs(face) == frozenset()


def test_a_face_names_the_fields_that_differ() -> None:
    before = of_card(_CARD, [])
    after = of_card({**_CARD, "title": "another", "column_id": 12}, ["x"])
    assert before.differs(after) == {"title", "column_id", "tags"}


def test_line_ends_of_a_browser_make_no_other_text() -> None:
    assert digest("a\r\nb") == digest("a\nb") != digest("a b")


def test_instants_are_of_whole_minutes_and_come_back() -> None:
    exact = int(datetime(2026, 11, 30, 12, 34, 56, tzinfo=UTC).timestamp())
    assert written(minute(exact)) == "2026-11-30 12:34"
    assert moment(minute(exact)) == datetime(2026, 11, 30, 12, 34, tzinfo=UTC)
    assert (written(0), moment(0)) == ("", None)


def test_reserved_tags_are_told_from_peoples() -> None:
    said = words(["urgent", "Tier:large", "needs:tools", "needs:web", "trust:trusted", "BLOCKED", "veto"])
    assert said.plain == ("urgent",)
    assert (said.tier, said.needs, said.trust) == ("large", ("tools", "web"), "trusted")
    assert said.flags == Flag.BLOCKED | Flag.VETO


def test_a_tag_that_differs_only_in_case_is_shown_once() -> None:
    at = datetime(2026, 11, 30, tzinfo=UTC)
    task = Task(
        id=1,
        queue="pool",
        project_id=1,
        title="t",
        status=Status.READY,
        tags=("dup", "DUP", "x"),
        created=at,
        updated_at=at,
    )
    assert tags_of(task) == ("dup", "x")


@pytest.mark.parametrize("given", ["http://kb", "http://kb/", "http://kb/jsonrpc.php"])
def test_the_name_of_the_program_may_be_left_out_of_the_address(given: str) -> None:
    assert address(given) == "http://kb/jsonrpc.php"
