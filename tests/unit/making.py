"""Tasks for the tests of the domain: one with given fields, and any that can be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from taskfabric.domain.principal import Trust
from taskfabric.domain.status import Flag, Status, is_reserved
from taskfabric.domain.task import Task

NOW = datetime(2026, 11, 30, 17, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=10)

instants = st.datetimes(
    datetime(1970, 1, 2),  # noqa: DTZ001 - hypothesis takes naive bounds and adds the zone
    datetime(2100, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
_names = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,20}", fullmatch=True)
_words = st.text(max_size=20)
_counts = st.integers(0, 100)
_ids = st.integers(1, 2**63 - 1)
_tags = st.text(min_size=1, max_size=12).filter(lambda t: not is_reserved(t) and not t.startswith("needs:"))


def make_task(**fields: Any) -> Task:
    """A ready task with these fields."""
    plain: dict[str, Any] = {
        "id": 12,
        "queue": "kimi",
        "project_id": 1,
        "title": "Sort the post",
        "status": Status.READY,
        "created": NOW,
        "updated_at": NOW,
    }
    return Task(**(plain | fields))


def tasks() -> st.SearchStrategy[Task]:
    """Any task in the fields that its JSON shape carries; combinations that no board makes included."""
    return st.builds(
        make_task,
        id=_ids,
        queue=_names,
        project_id=_ids,
        title=_words,
        status=st.sampled_from(Status),
        description=_words,
        column=_words,
        swimlane=_words,
        is_open=st.booleans(),
        flags=st.integers(0, 2 * max(Flag) - 1).map(Flag),
        tags=st.lists(_tags, max_size=3).map(tuple),
        priority=st.integers(0, 3),
        score=st.none() | _counts,
        tier=st.sampled_from(["", "small", "medium", "large"]),
        needs=st.lists(_names, max_size=3).map(tuple),
        refs=st.lists(_words, max_size=3).map(tuple),
        required_trust=st.sampled_from(Trust),
        trust=st.sampled_from(Trust),
        label=_words,
        submitter=_words,
        on_behalf=st.none() | _names,
        holder=st.none() | _names,
        holder_instance=_words,
        epoch=_counts,
        lease_until=st.none() | instants,
        attempts=_counts,
        max_attempts=_counts,
        parks=_counts,
        waits=_counts,
        releases=_counts,
        asked=st.none() | _names,
        hold=st.none() | _words,
        parent=st.none() | _ids,
        root=st.none() | _ids,
        depth=_counts,
        children=_counts,
        open_children=_counts,
        blockers=st.lists(_ids, max_size=3).map(tuple),
        open_blockers=st.sampled_from([0, 0, 1, 2]),
        key=st.none() | _words,
        reference=_words,
        due=st.none() | instants,
        not_before=st.none() | instants,
        created=instants,
        started=st.none() | instants,
        completed=st.none() | instants,
        updated_at=instants,
        producer=st.none() | _names,
        verdict=st.sampled_from([None, "pass", "fail"]),
        note=st.none() | _words,
        error=st.none() | _words,
        restricted=st.booleans(),
    )
