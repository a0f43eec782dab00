"""The pages, read and used without a script: every act is a form, and what is wrong is said where it was asked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

import pytest

from taskfabric.services.approval_verbs import RequestApproval
from taskfabric.services.inbox_verbs import Me
from taskfabric.services.verbs import Ask, Chunks, Done, Fail, FenceArg, Show, Submit, Take
from taskfabric.testing import TestServer
from taskfabric.wiring import sign_in_link
from tests.integration.serving import Served, serving
from tests.integration.surfing import Surfer

PAGES = ("/", "/boards", "/board/pool", "/board/alice", "/fleet", "/activity", "/settings", "/people", "/new", "/find")


@pytest.fixture(scope="module")
def served(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with server.database() as database, serving(database.dsn, tmp_path_factory.mktemp("home")) as running:
        database.clock.run()
        yield running


@pytest.fixture
def alice(served: Served) -> Surfer:
    surfer = Surfer(served=served)
    assert surfer.sign_in_by_link("alice").status == 200
    return surfer


def _submit(served: Served, title: str, *, to: str = "pool", by: str = "alice") -> int:
    return served.fabric(by).call(Submit(title=title, to=to)).task.id


def _taken(served: Served, task: int, *, by: str = "kimi") -> FenceArg:
    return FenceArg.of(served.fabric(by).call(Take(task=task)).fence)


def test_a_stranger_is_led_to_the_sign_in_page_and_back(served: Served) -> None:
    surfer = Surfer(served=served)
    shown = surfer.get("/board/pool?tag=home")
    assert shown.path.startswith("/sign-in?next=")
    back = surfer.fill(shown.form("/sign-in"), token=served.tokens["alice"])
    assert (back.status, back.path) == (200, "/board/pool?tag=home")


def test_every_page_answers_with_html_that_no_script_is_needed_for(alice: Surfer) -> None:
    for path in PAGES:
        shown = alice.get(path)
        assert shown.status == 200, path
        assert "<main" in shown.text, path
        assert "default-src 'none'" in shown.headers["content-security-policy"], path
        assert "unsafe" not in shown.headers["content-security-policy"], path
        assert " style=" not in shown.text, path
        assert "<script>" not in shown.text, path


_RUN_ON = re.compile(
    r"\w</(?:span|b|code|small|a|time|bdi)>(?:</(?:span|a|b|bdi)>)*(?:<(?:span|b|code|small|a|time|bdi)[^>]*>)+\w"
)


def test_no_two_words_of_a_page_run_together(served: Served, alice: Surfer) -> None:
    """What stands apart by style alone is one word for whoever hears or copies it."""
    fabric = served.fabric("alice")
    due = datetime.now(UTC) + timedelta(days=1)
    parent = fabric.call(
        Submit(title="Tagged", to="pool", tags=("a", "b"), needs=("code",), priority=3, due=due, not_before=due)
    ).task.id
    task = fabric.call(Submit(title="Child", to="pool", parent=parent)).task.id
    served.fabric("kimi").call(Fail(fence=_taken(served, _submit(served, "Fail once")), note="no"))
    for path in (*PAGES, f"/task/{parent}", f"/task/{task}", "/find?q=a"):
        shown = alice.get(path).text
        assert (_RUN_ON.search(shown) or [""])[0] == "", path


def test_a_wrong_token_signs_nobody_in_and_the_page_says_so(served: Served) -> None:
    surfer = Surfer(served=served)
    shown = surfer.fill(surfer.get("/sign-in").form("/sign-in"), token="fab_wrong")
    assert shown.status == 401
    assert 'role="alert"' in shown.text
    assert "fabric_session" not in surfer.cookies


def test_an_agents_token_is_no_way_into_the_pages(served: Served) -> None:
    surfer = Surfer(served=served)
    assert surfer.sign_in("kimi").status == 401


def test_a_link_signs_in_once(served: Served) -> None:
    link = sign_in_link(served.house, "bob")
    first, second = Surfer(served=served), Surfer(served=served)
    form = first.get(f"/sign-in?link={link}").form("/sign-in")
    assert first.fill(form).status == 200
    again = second.get(f"/sign-in?link={link}").form("/sign-in")
    assert second.fill(again).status == 401


def test_looking_at_a_link_does_not_use_it_up(served: Served) -> None:
    link = sign_in_link(served.house, "bob")
    for _ in range(3):
        Surfer(served=served).get(f"/sign-in?link={link}")
    surfer = Surfer(served=served)
    assert surfer.fill(surfer.get(f"/sign-in?link={link}").form("/sign-in")).status == 200


def test_the_cookie_is_out_of_reach_of_scripts_and_of_other_sites(served: Served) -> None:
    surfer = Surfer(served=served)
    form = surfer.get("/sign-in").form("/sign-in")
    shown = surfer.send("POST", "/sign-in", {**form.fields, "token": served.tokens["alice"]})
    assert shown.status == 303
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= set(shown.headers["set-cookie"].split("; "))


def test_signing_out_ends_the_session_itself(alice: Surfer) -> None:
    kept = dict(alice.cookies)
    alice.fill(alice.get("/boards").form("/sign-out"))
    alice.cookies = kept
    assert alice.get("/boards").path.startswith("/sign-in")


def test_a_task_is_made_by_the_form_and_shown(alice: Surfer) -> None:
    form = alice.get("/new?to=pool").form("submit")
    shown = alice.fill(form, title="Water the plants", description="# All\n\nof *them*", due="tomorrow 09:00")
    assert shown.status == 200
    assert shown.path.startswith("/task/")
    assert "<em>them</em>" in shown.text


def test_what_is_wrong_is_said_in_the_form_and_what_was_typed_stays(alice: Surfer) -> None:
    form = alice.get("/new").form("submit")
    shown = alice.fill(form, title="Keep <this>", due="when pigs fly")
    assert shown.status == 400
    assert 'role="alert"' in shown.text
    assert shown.form("submit").fields["title"] == "Keep <this>"


def test_a_result_is_verified_from_the_inbox(served: Served, alice: Surfer) -> None:
    task = _submit(served, "Count the stars")
    served.fabric("kimi").call(Done(fence=_taken(served, task), note="**seven**"))
    page = alice.get("/")
    assert "<strong>seven</strong>" in page.text
    shown = alice.fill(page.form(f"verify-{task}"))
    assert "Verified." in shown.text
    assert served.fabric("alice").call(Show(task=task)).task.status.value == "verified"


def test_a_question_shows_its_words_and_is_answered(served: Served, alice: Surfer) -> None:
    task = _submit(served, "Choose a colour")
    served.fabric("kimi").call(Ask(fence=_taken(served, task), note="Red or *blue*?"))
    page = alice.get("/")
    assert "Red or <em>blue</em>?" in page.text
    alice.fill(page.form(f"answer-{task}"), note="blue")
    assert served.fabric("alice").call(Show(task=task)).task.status.value == "ready"


def test_an_approval_shows_what_exactly_is_asked_and_is_given(served: Served, alice: Surfer) -> None:
    task = _submit(served, "Cancel the contract")
    fence = _taken(served, task)
    asked = served.fabric("kimi").call(
        RequestApproval(action="mail.send", args={"to": "bank", "body": "Dear <b>"}, fence=fence)
    )
    page = alice.get("/")
    assert "Dear &lt;b&gt;" in page.text
    shown = alice.fill(page.form(f"approve-{asked['task']}"))
    assert shown.status == 200
    assert "Approved." in shown.text


def test_an_approval_hides_no_mark_of_direction_and_no_character_without_width(served: Served, alice: Surfer) -> None:
    """G10: what is decided is what is seen."""
    task = _submit(served, "Pay somebody")
    args = {"to": "\u202egro.elpmaxe@knab", "z\u200bto": "hid\u200bden"}
    served.fabric("kimi").call(RequestApproval(action="mail.send", args=args, fence=_taken(served, task)))
    page = alice.get("/").text
    assert "\u202e" not in page
    assert "\u200b" not in page
    assert page.count("\\u202egro.elpmaxe@knab") >= 2  # the recipient, and the argument
    assert "z\\u200bto" in page


def test_an_unproven_session_reads_and_decides_nothing(served: Served) -> None:
    task = _submit(served, "Cancel the other contract")
    fence = _taken(served, task)
    asked = served.fabric("kimi").call(RequestApproval(action="mail.send", args={"to": "bank"}, fence=fence))
    surfer = Surfer(served=served)
    surfer.sign_in("alice")
    shown = surfer.fill(surfer.get("/").form(f"approve-{asked['task']}"))
    assert shown.status == 403
    assert "PIN" in shown.text


def test_a_task_shows_its_runs_its_output_and_its_journal(served: Served, alice: Surfer) -> None:
    task = _submit(served, "Say three things")
    fence = _taken(served, task, by="qwen")
    served.fabric("qwen").call(Chunks(fence=fence, chunks=((0, "out", "one <two>\n"), (1, "err", "three\n"))))
    served.fabric("qwen").call(Fail(fence=fence, note="no more", final=True))
    shown = alice.get_with(f"/task/{task}", "<td>dead").text
    assert "one &lt;two&gt;" in shown
    assert "made the task" in shown


def test_a_card_is_moved_without_a_script(served: Served, alice: Surfer) -> None:
    task = _submit(served, "Move me", to="alice")
    shown = alice.fill(alice.get(f"/task/{task}").form("move-form"), column="Work in progress")
    assert shown.status == 200
    assert served.fabric("alice").call(Show(task=task)).task.column == "Work in progress"


def test_what_hangs_on_a_card_is_shown_and_leads_only_to_the_web(served: Served, alice: Surfer) -> None:
    task, other = _submit(served, "Move house", to="alice"), _submit(served, "Find a van", to="alice")
    foreign = _submit(served, "Bob's own van", to="bob", by="bob")
    for method, params in (
        ("createSubtask", {"task_id": task, "title": "Pack the <books>", "status": 1}),
        ("createTaskLink", {"task_id": task, "opposite_task_id": other, "link_id": 1}),
        ("createExternalTaskLink", {"task_id": task, "url": "https://example.org/van", "dependency": "related",
                                    "type": "weblink", "title": "The <van>"}),
    ):  # fmt: skip
        assert served.call(method, params)["result"], method
    with served.house.database.connection() as conn:
        conn.execute(
            "INSERT INTO task_has_external_links (link_type, dependency, title, url, task_id, creator_id)"
            " SELECT link_type, dependency, 'odd', 'javascript:alert(1)', task_id, creator_id"
            "   FROM task_has_external_links WHERE task_id = %s", (task,)
        )  # fmt: skip
        conn.execute(
            "INSERT INTO task_has_links (link_id, task_id, opposite_task_id) VALUES (1, %s, %s)", (task, foreign)
        )
    shown = alice.get(f"/task/{task}").text
    assert "Pack the &lt;books&gt;" in shown
    assert "in progress" in shown
    assert "Find a van" in shown
    assert 'href="https://example.org/van" rel="noopener noreferrer nofollow"' in shown
    assert "The &lt;van&gt;" in shown
    assert 'href="javascript' not in shown
    assert "Bob&#39;s own van" not in shown


def test_the_board_is_filtered_by_words_and_by_tag(served: Served, alice: Surfer) -> None:
    served.fabric("alice").call(Submit(title="Needle", to="alice", tags=("hay",)))
    _submit(served, "Straw", to="alice")
    for query in ("text=needle", "tag=hay"):
        shown = alice.get(f"/board/alice?{query}").text
        assert "Needle" in shown
        assert "Straw" not in shown


def test_an_error_page_says_what_to_do_and_a_missing_task_is_no_other_than_a_foreign_one(
    served: Served, alice: Surfer
) -> None:
    """G13."""
    foreign = _submit(served, "Bob's secret", to="bob", by="bob")
    missing, hidden = alice.get("/task/999999"), alice.get(f"/task/{foreign}")
    assert (missing.status, missing.text) == (404, hidden.text)


def test_a_file_is_attached_and_comes_back_as_a_download(served: Served, alice: Surfer, tmp_path: Path) -> None:
    task = _submit(served, "Hold a file", to="alice")
    boundary = "x1y2z3"
    fields = {"csrf": alice.csrf(), "task": str(task), "back": f"/task/{task}", "form": "attach-form"}
    parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n' for k, v in fields.items()]
    named = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="<img>.html"\r\n\r\n'
    file = f"{named}<script>1</script>\r\n"
    body = ("".join(parts) + file + f"--{boundary}--\r\n").encode()
    reply = served.request(
        "POST",
        "/do/attach",
        body,
        name=None,
        headers={
            "Content-Type": f"multipart/form-data; boundary={boundary}",
            "Origin": served.url,
            "Cookie": f"fabric_session={alice.cookies['fabric_session']}",
        },
    )
    assert reply.status == 303
    attachment = served.fabric("alice").call(Show(task=task)).attachments[0]
    got = alice.send("GET", f"/file/{attachment.id}")
    assert got.text == "<script>1</script>"
    assert got.headers["content-type"] == "application/octet-stream"
    assert got.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in got.headers["content-security-policy"]


def test_several_are_approved_at_once_each_as_it_was_shown(served: Served, alice: Surfer) -> None:
    gates = []
    for n in range(2):
        fence = _taken(served, _submit(served, f"Send letter {n}"))
        asked = served.fabric("kimi").call(RequestApproval(action="mail.send", args={"to": f"bank {n}"}, fence=fence))
        gates.append(asked)
    items = urlencode([("items", f"{gate['task']}:{gate['hash']}") for gate in gates])
    shown = alice.post_raw("/do/approve-many", f"csrf={alice.csrf()}&back=/&{items}")
    assert shown.status == 303
    again = alice.post_raw("/do/approve-many", f"csrf={alice.csrf()}&back=/&{items}")
    assert again.status in (403, 409, 404)
    assert "Approved." not in again.text


def _finished(served: Served, title: str) -> int:
    task = _submit(served, title)
    served.fabric("kimi").call(Done(fence=_taken(served, task), note=f"result of {title}"))
    return task


def test_several_results_are_verified_at_once_each_of_them_listed(served: Served, alice: Surfer) -> None:
    tasks = [_finished(served, f"Read letter {n}") for n in range(3)]
    page = alice.get("/")
    assert page.form("verify-many").fields["note"] == ""
    for task in tasks:
        assert f'name="tasks" value="{task}"' in page.text
    ticked = urlencode([("tasks", task) for task in tasks[:2]])
    shown = alice.post_raw("/do/verify-many", f"csrf={alice.csrf()}&back=/&form=verify-many&note=good&{ticked}")
    assert shown.status == 303
    states = [served.fabric("alice").call(Show(task=task)).task.status.value for task in tasks]
    assert states == ["verified", "verified", "done"]
    again = alice.post_raw("/do/verify-many", f"csrf={alice.csrf()}&back=/&form=verify-many&{ticked}")
    assert again.status == 409
    assert "0 done, 2 not" in again.text


def test_several_items_are_put_off_at_once(served: Served, alice: Surfer) -> None:
    tasks = [_submit(served, f"Later {n}", to="alice") for n in range(2)]
    assert alice.get("/").form("snooze-many").fields["until"] == "tomorrow 09:00"
    ticked = urlencode([("tasks", task) for task in tasks])
    alice.post_raw("/do/snooze-many", f"csrf={alice.csrf()}&back=/&until=%2B1d&{ticked}")
    shown = alice.get("/").text
    assert not any(f'id="item-{task}"' in shown for task in tasks)
    assert all(f'id="item-{task}"' in alice.get("/?snoozed=1").text for task in tasks)


def test_nothing_ticked_is_said_and_what_is_secure_is_in_no_list(served: Served, alice: Surfer) -> None:
    for n in range(2):
        _submit(served, f"Ordinary {n}", to="alice")
    fence = _taken(served, _submit(served, "Pay"))
    gate = served.fabric("kimi").call(RequestApproval(action="pay", args={"to": "Shop"}, level="secure", fence=fence))
    page = alice.get("/").text
    assert f'id="item-{gate["task"]}"' in page
    assert f'name="tasks" value="{gate["task"]}"' not in page
    assert f'name="items" value="{gate["task"]}:' not in page
    for name in ("approve-many", "verify-many", "snooze-many"):
        refused = alice.act(name, until="+1d")
        assert (refused.status, "nothing is ticked" in refused.text) == (400, True), name


def test_the_limits_of_a_board_are_set_and_shown(alice: Surfer) -> None:
    shown = alice.fill(alice.get("/board/alice").form("queue-limit"), column="Work in progress", limit="3")
    assert shown.status == 200
    assert "/ 3</span>" in shown.text
    alice.fill(shown.form("queue-limit"), column="Work in progress", limit="0")


def test_what_was_wrong_is_said_also_when_its_form_is_gone(served: Served, alice: Surfer) -> None:
    task = _submit(served, "Count once")
    served.fabric("kimi").call(Done(fence=_taken(served, task), note="one"))
    form = alice.get("/").form(f"verify-{task}")
    alice.fill(form)
    shown = alice.fill(form)
    assert shown.status == 409
    assert 'role="alert"' in shown.text


def test_an_address_that_is_none_is_a_page_for_people_and_json_for_programs(served: Served, alice: Surfer) -> None:
    html = {"Accept": "text/html,*/*"}
    shown = alice.send("GET", "/nope", headers=html)
    assert (shown.status, "there is no such page" in shown.text) == (404, True)
    assert "text/html" in shown.headers["content-type"]
    stranger = Surfer(served=served)
    assert stranger.send("GET", "/nope", headers=html).headers["location"].startswith("/sign-in")
    for path, headers in (
        ("/nope", {}),
        ("/metrics", html),
        ("/events", html),
        ("/nope", {**html, "Authorization": "Bearer x"}),
    ):
        refused = stranger.send("GET", path, headers=headers)
        assert (refused.status, "json" in refused.headers["content-type"]) == (401, True)


def _project(served: Served, title: str) -> tuple[int, int]:
    """A project that is no queue, alice's, and a card in it."""
    made: int = served.call("createProject", {"name": "Household <plans>"})["result"]
    return made, served.call("createTask", {"project_id": made, "title": title})["result"]


def test_a_project_that_is_no_queue_has_a_board_for_its_members(served: Served, alice: Surfer) -> None:
    project, task = _project(served, "Paint the fence")
    assert f'href="/board/%23{project}"' in alice.get("/boards").text
    board = alice.get(f"/board/%23{project}")
    assert "Household &lt;plans&gt;" in board.text
    assert f'id="card-{task}"' in board.text
    assert 'draggable="true"' in board.text
    assert "Paint the fence" in alice.get(f"/board/%23{project}?text=fence").text
    assert alice.act("move", task=str(task), column="Done").status == 200
    shown = alice.get(f"/board/%23{project}").text
    assert shown.index('data-column="Done"') < shown.index(f'id="card-{task}"')
    assert f"/board/%23{project}" in alice.get(f"/task/{task}").text
    assert f'<option value="#{project}">' in alice.get("/activity").text
    assert "Paint the fence" in alice.get_with(f"/activity?queue=%23{project}", "moved the card").text


def test_a_board_that_is_none_and_a_strangers_are_the_same_and_say_where_the_boards_are(
    served: Served, alice: Surfer
) -> None:
    """G13."""
    project, _ = _project(served, "Alice's alone")
    bob = Surfer(served=served)
    bob.sign_in_by_link("bob")
    assert f"%23{project}" not in bob.get("/boards").text
    hidden, missing = bob.get(f"/board/%23{project}"), bob.get("/board/%23999999")
    assert (hidden.status, hidden.text) == (404, missing.text)
    assert "/boards" in hidden.text
    assert bob.get(f"/live/board/%23{project}").text == bob.get("/live/board/%23999999").text
    assert alice.get("/board/Household").status == 404


def test_a_field_that_is_emptied_is_empty_and_an_empty_title_is_refused(served: Served, alice: Surfer) -> None:
    task = served.fabric("alice").call(Submit(title="Words", description="many of them", to="alice")).task.id
    form = {"task": str(task), "title": "Words", "description": ""}
    assert alice.act("edit", **form).status == 200
    assert served.fabric("alice").call(Show(task=task)).task.description == ""
    assert alice.act("edit", **{**form, "title": " "}).status == 400
    assert served.fabric("alice").call(Show(task=task)).task.title == "Words"


def test_quiet_hours_that_are_emptied_are_over(served: Served, alice: Surfer) -> None:
    hours = {"zone": "UTC", "quiet_begin": "22:00", "quiet_end": "07:00"}
    assert alice.act("settings", **hours).status == 200
    assert served.fabric("alice").call(Me())["quiet"] == {"begin": "22:00", "end": "07:00"}
    assert alice.act("settings", **{**hours, "quiet_begin": ""}).status == 400
    assert alice.act("settings", zone="UTC", quiet_begin="", quiet_end="").status == 200
    assert served.fabric("alice").call(Me())["quiet"] is None
