"""Boards of any size come quickly, and what happens comes by a stream: one change is one card, nothing is lost."""

from __future__ import annotations

import contextlib
import html
import http.client
import re
import time
from collections.abc import Iterator

import pytest

from taskfabric.services.overview_verbs import Depths, RecentEvents, ShowBoard, Standing
from taskfabric.services.verbs import (
    Chunks,
    Done,
    EditTask,
    Events,
    FenceArg,
    Move,
    Renew,
    Submit,
    SubmitMany,
    Take,
)
from taskfabric.surfaces.web.looks import iso
from taskfabric.testing import TestServer
from tests.integration.serving import Served, serving
from tests.integration.surfing import Surfer

MANY = 5000
# Each of the tasks that this person made so many times more, at other places of the same column.
_AS_MANY = """
INSERT INTO tasks (project_id, column_id, swimlane_id, lane_id, creator_id, role, status, title, ready_since, has_tags)
SELECT project_id, column_id, swimlane_id, lane_id, creator_id, role, status, title, ready_since, has_tags
  FROM tasks CROSS JOIN generate_series(1, %(more)s)
 WHERE creator_id = (SELECT id FROM users WHERE username = %(by)s)
"""


@pytest.fixture(scope="module")
def served(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with server.database() as database, serving(database.dsn, tmp_path_factory.mktemp("home")) as running:
        database.clock.run()
        yield running


@pytest.fixture(scope="module")
def alice(served: Served) -> Surfer:
    surfer = Surfer(served=served)
    surfer.sign_in_by_link("alice")
    return surfer


@contextlib.contextmanager
def _stream(surfer: Surfer, path: str, *, after: str = "") -> Iterator[Iterator[tuple[str, str, str]]]:
    """The events of a stream: kind, id and data."""
    headers = {"Cookie": f"fabric_session={surfer.cookies['fabric_session']}"}
    if after:
        headers["Last-Event-ID"] = after
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", surfer.served.port, timeout=20)) as conn:
        conn.request("GET", path, headers=headers)
        got = conn.getresponse()
        assert got.status == 200, got.read()

        def events() -> Iterator[tuple[str, str, str]]:
            fields: dict[str, str] = {}
            while line := got.readline().decode():
                name, _, value = line.rstrip("\n").partition(": ")
                if name:
                    fields[name] = f"{fields[name]}\n{value}" if name in fields else value
                elif "event" in fields:
                    yield fields["event"], fields.get("id", ""), fields.get("data", "")
                    fields = {}

        yield events()


def _next(events: Iterator[tuple[str, str, str]], kind: str) -> tuple[str, str]:
    return next((id_, data) for name, id_, data in events if name == kind)


def test_one_change_of_a_board_comes_as_one_card(served: Served, alice: Surfer) -> None:
    fabric = served.fabric("alice")
    task = fabric.call(Submit(title="Before", to="alice")).task.id
    cursor = fabric.call(Events(cursor="end")).cursor
    with _stream(alice, f"/live/board/alice?cursor={cursor}") as events:
        fabric.call(EditTask(task=task, title="After <it>"))
        card = _card(events, "After &lt;it&gt;")
        assert "After &lt;it&gt;" in card
        assert card.count("<article") == 1
        assert f'id="card-{task}"' in card
        fabric.call(Move(task=task, column="Work in progress"))
        assert 'data-column="Work in progress"' in _card(events, 'data-column="Work in progress"')


def _card(events: Iterator[tuple[str, str, str]], text: str) -> str:
    """The card once this is on it: that the task was made may be told only after the cursor was taken."""
    card = _next(events, "card")[1]
    return card if text in card else _next(events, "card")[1]


def test_a_card_that_leaves_the_board_is_said_to_be_gone(served: Served, alice: Surfer) -> None:
    fabric = served.fabric("alice")
    task = fabric.call(Submit(title="Filtered", to="alice", tags=("red",))).task.id
    cursor = fabric.call(Events(cursor="end")).cursor
    with _stream(alice, f"/live/board/alice?tag=red&cursor={cursor}") as events:
        fabric.call(EditTask(task=task, remove_tags=("red",)))
        assert _next(events, "gone")[1] == str(task)


def test_the_board_of_a_project_that_is_no_queue_is_followed_too(served: Served, alice: Surfer) -> None:
    project = served.call("createProject", {"name": "Garden"})["result"]
    with _stream(alice, _live(alice, f"/board/%23{project}")) as events:
        task = served.call("createTask", {"project_id": project, "title": "Rake the leaves"})["result"]
        assert "Rake the leaves" in _next(events, "card")[1]
        served.call("removeTask", {"task_id": task})
        assert _next(events, "gone")[1] == str(task)


def test_what_is_far_behind_catches_up_without_a_rest(served: Served) -> None:
    """Two thousand events are ten looks: with the usual rest between them they would take most of a minute."""
    dora = Surfer(served=served)
    dora.sign_in_by_link(served.add_person("dora"))
    path, fabric = _live(dora, "/board/dora"), served.fabric("dora")
    many = SubmitMany(tasks=tuple(Submit(title="One of many", to="dora") for _ in range(100)))
    last = [fabric.call(many)[-1].task.id for _ in range(20)][-1]
    served.caught_up()
    begun = time.monotonic()
    with _stream(dora, path) as events:
        while f'id="card-{last}"' not in _next(events, "card")[1]:
            pass
    assert time.monotonic() - begun < 15


def _live(alice: Surfer, board: str) -> str:
    """The stream of a board's page as it is shown now."""
    found = re.search(r'sse-connect="(/live/board[^"]*)"', alice.get(board).text)
    assert found is not None
    return html.unescape(found[1])


def test_a_card_that_goes_to_another_queue_vanishes_from_the_old_board(served: Served, alice: Surfer) -> None:
    """Also where it goes to somebody who shows it to nobody else."""
    fabric = served.fabric("alice")
    stays, goes = (fabric.call(Submit(title=title, to="alice")).task.id for title in ("Stays", "Goes"))
    with _stream(alice, _live(alice, "/board/alice")) as events:
        fabric.call(Move(task=goes, queue="bob"))
        assert _next(events, "gone")[1] == str(goes)
        assert _next(events, "counts")[1] != ""
        fabric.call(EditTask(task=stays, title="Stays on"))
        assert "Stays on" in _next(events, "card")[1]


def test_a_card_that_is_deleted_vanishes_from_the_board(served: Served, alice: Surfer) -> None:
    task = served.fabric("alice").call(Submit(title="Deleted", to="alice")).task.id
    with _stream(alice, _live(alice, "/board/alice")) as events:
        assert served.call("removeTask", {"task_id": task})["result"] is True
        assert _next(events, "gone")[1] == str(task)


def test_a_card_that_left_before_the_stream_began_vanishes_with_its_beginning(served: Served, alice: Surfer) -> None:
    fabric = served.fabric("alice")
    task = fabric.call(Submit(title="Left meanwhile", to="alice")).task.id
    path = _live(alice, "/board/alice")
    fabric.call(Move(task=task, queue="bob"))
    with _stream(alice, path) as events:
        assert _next(events, "gone")[1] == str(task)


def test_a_renewed_lease_is_shown_of_a_card_that_has_not_changed(served: Served, alice: Surfer) -> None:
    kimi = served.fabric("kimi")
    task = served.fabric("alice").call(Submit(title="Worked for long", to="pool")).task.id
    fence = FenceArg.of(kimi.call(Take(task=task)).fence)
    served.caught_up()
    with _stream(alice, _live(alice, "/board/pool")) as events:
        until = kimi.call(Renew(fences=(fence,), lease=7200))[0].until
        assert until is not None
        stands = served.fabric("alice").call(Standing(queue="pool", tasks=(task, 999_999)))
        assert stands == {task: until}
        assert f'data-until="{iso(until)}"' in _next(events, "card")[1]


def test_a_task_is_followed_from_the_last_event_on(served: Served, alice: Surfer) -> None:
    """A browser that was away resumes: nothing is lost, nothing comes twice."""
    fabric, kimi = served.fabric("alice"), served.fabric("kimi")
    task = fabric.call(Submit(title="Followed", to="pool")).task.id
    path = f"/live/task/{task}?cursor=0-0"
    with _stream(alice, path) as events:
        last, entry = _next(events, "entry")
        assert "made the task" in entry
    fence = FenceArg.of(kimi.call(Take(task=task)).fence)
    kimi.call(Chunks(fence=fence, chunks=((0, "out", "half\n"), (1, "out", "whole <\n"))))
    with _stream(alice, path, after=last) as events:
        assert "whole &lt;" in next(data for kind, _, data in events if kind == "chunk" and "c-1" in data)
        assert "took it" in _next(events, "entry")[1]
        kimi.call(Done(fence=fence, note="done"))
        assert "finished it" in _next(events, "entry")[1]
        assert _next(events, "changed")[1] == "done"


def test_signing_out_ends_the_streams(served: Served) -> None:
    bob = Surfer(served=served)
    bob.sign_in_by_link("bob")
    with _stream(bob, "/live/board/bob?cursor=end") as events:
        bob.fill(bob.get("/boards").form("/sign-out"))
        served.fabric("bob").call(Submit(title="Not for a browser that has signed out", to="bob"))
        assert list(events) == []


def test_the_newest_events_come_first_and_older_ones_page_by_page(served: Served) -> None:
    fabric = served.fabric("bob")
    made = [fabric.call(Submit(title=f"number {n}", to="bob")).task.id for n in range(5)]
    served.caught_up()
    page = fabric.call(RecentEvents(queue="bob", limit=3))
    assert [event.task_id for event in page.events] == made[:1:-1]
    assert page.older is not None
    older = fabric.call(RecentEvents(queue="bob", limit=2, before=str(page.older)))
    assert [event.task_id for event in older.events] == made[1::-1]


def test_depths_count_only_what_the_reader_may_see(served: Served) -> None:
    """G13."""
    carol = served.add_person("carol")
    served.fabric("bob").call(Submit(title="His", to="bob"))
    served.caught_up()
    lines = {line["queue"]: line["points"] for line in served.fabric(carol).call(Depths(hours=2))}
    assert all(point["open"] == 0 for points in lines.values() for point in points)
    own = {line["queue"]: line["points"] for line in served.fabric("bob").call(Depths(hours=2))}
    assert own["bob"][-1]["open"] > 0
    assert own["bob"][0]["open"] == 0


def test_a_board_of_five_thousand_tasks_costs_little(served: Served) -> None:
    """At most 1 MB, and 150 ms of CPU: the best of several views, for the machine is shared."""
    crowd = Surfer(served=served)
    crowd.sign_in_by_link(served.add_person("crowd"))
    fabric = served.fabric("crowd")
    fabric.call(
        SubmitMany(
            tasks=tuple(
                Submit(title=f"Task {n} of many, with a title", to="crowd", priority=n % 4, tags=("a", "b"))
                for n in range(50)
            )
        )
    )
    with served.house.database.connection() as conn:
        conn.execute(_AS_MANY, {"more": MANY // 50 - 1, "by": "crowd"})
    shown = crowd.get("/board/crowd")
    costs = []
    for _ in range(5):
        before = time.process_time()
        shown = crowd.get("/board/crowd")
        costs.append(time.process_time() - before)
        assert shown.status == 200
    assert ">5000</span>" in shown.text
    assert len(shown.text.encode()) < 2**20
    assert min(costs) < 0.150, costs
    whole = crowd.get("/board/crowd?all=1").text
    assert "4500 more: a filter finds them" in whole
    view = fabric.call(ShowBoard(queue="crowd", per_column=1)).view
    assert sum(column.total for column in view.columns) == MANY


def test_what_came_between_the_inbox_and_its_stream_is_told(served: Served, alice: Surfer) -> None:
    found = re.search(r'sse-connect="(/live/inbox[^"]*)"', alice.get("/").text)
    assert found is not None
    with _stream(alice, html.unescape(found[1])) as events:
        served.fabric("alice").call(Submit(title="While it opened", to="alice"))
        assert _next(events, "changed")[1] == "inbox"
    served.fabric("alice").call(Submit(title="Before it opened", to="alice"))
    with _stream(alice, html.unescape(found[1])) as events:
        assert _next(events, "changed")[1] == "inbox"
