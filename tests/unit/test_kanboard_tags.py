"""Reading the tags of the locks project."""

from __future__ import annotations

from datetime import UTC, datetime

from taskfabric.boards.kanboard.leases import highest

_TOKEN = "00000000deadbeef"
_AT = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def _tag(number: int, name: str, color: str) -> dict[str, object]:
    return {"id": number, "name": name, "color_id": color}


def test_the_highest_epoch_of_each_task_counts() -> None:
    seconds = int(_AT.timestamp())
    tags = [
        _tag(1, "L/5/1", f"{_TOKEN}|{seconds}"),
        _tag(2, "E/5/1", f"ready|{_TOKEN}"),
        _tag(3, "L/5/2", f"{_TOKEN}|{seconds}"),
        _tag(4, "L/6/10", f"{_TOKEN}|{seconds}"),
        _tag(5, "E/6/10", f"done|{_TOKEN}"),
    ]
    found = highest(tags)
    assert (found[5].epoch, found[5].token, found[5].deadline, found[5].over) == (2, _TOKEN, _AT, None)
    assert (found[6].epoch, found[6].tag_id, found[6].over) == (10, 4, f"done|{_TOKEN}")


def test_an_end_without_its_beginning_still_uses_its_epoch_up() -> None:
    """G2: whatever somebody removed by hand, the next epoch lies above all that is known. Shows G2."""
    found = highest([_tag(1, "L/5/1", f"{_TOKEN}|1"), _tag(2, "E/5/3", "done|x")])
    assert (found[5].epoch, found[5].token, found[5].over) == (3, "", "done|x")


def test_tags_of_other_people_are_not_read() -> None:
    assert highest([_tag(1, "urgent", "red"), _tag(2, "L/x/1", "a"), _tag(3, "K/abc", _TOKEN)]) == {}


def test_a_value_that_makes_no_sense_has_no_deadline() -> None:
    found = highest([_tag(1, "L/5/1", "kimi was here")])
    assert (found[5].token, found[5].deadline) == ("", None)
