"""The command line as a contract: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskfabric.remote.line import Line
from taskfabric.testing import TestServer
from tests.acceptance.cli_kit import Said, Shell
from tests.integration.serving import Served, serving

SHAPE = {
    *("ref", "id", "queue", "title", "status", "holder", "epoch", "lease_until", "attempts", "priority", "score"),
    *("tier", "needs", "due", "not_before", "parent", "blockers", "submitter", "key", "created", "verdict", "note"),
    "updated_at",
}


@pytest.fixture(scope="module")
def served(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with server.database() as database, serving(database.dsn, tmp_path_factory.mktemp("home")) as made:
        yield made


class Town:
    """Everybody's terminal."""

    def __init__(self, served: Served, folder: Path) -> None:
        self.served = served
        for name in ("alice", "bob", "kimi", "qwen"):
            env = {"FABRIC_URL": served.url, "FABRIC_TOKEN": served.tokens[name]}
            (folder / name).mkdir()
            setattr(self, name, Shell(folder / name, env))

    alice: Shell
    bob: Shell
    kimi: Shell
    qwen: Shell

    def submitted(self, title: str = "a task", *, to: str = "kimi", by: str = "alice") -> str:
        shell: Shell = getattr(self, by)
        return str(shell.json("submit", title, "--to", to)["id"])


@pytest.fixture
def town(served: Served, tmp_path: Path) -> Iterator[Town]:
    made = Town(served, tmp_path)
    yield made
    for name in ("kimi", "qwen"):  # the next test finds empty queues
        shell: Shell = getattr(made, name)
        while (got := shell("claim", "--json")).code == 0:
            shell("fail", got.json["ref"], "--final", "--note", "swept by the test")


def refused(said: Said, code: int) -> dict[str, Any]:
    """A refusal for people: nothing on stdout, the reason and the next step on stderr; or the document of it."""
    assert said.code == code, said
    if said.out:
        assert said.err == ""
        return said.error
    lines = said.err.splitlines()
    assert lines[0].startswith("fabric: ")
    assert "Traceback" not in said.err
    return {"message": lines[0], "next": "".join(lines[1:])}


def test_a_task_goes_from_submit_through_claim_and_done_to_verified(town: Town) -> None:
    made = town.alice("submit", "Water the plants", "--to", "kimi", "--spec", "-", stdin=b"All of **them**.")
    assert made.code == 0
    number = made.out.strip()
    assert number.isdigit()

    claimed = town.kimi("claim")
    assert claimed.out.splitlines()[0] == f"{number}@1"
    assert "All of **them**." in claimed.out

    assert town.kimi("done", f"{number}@1", "--note", "all watered").code == 0
    assert town.alice.json("show", number)["status"] == "done"
    assert town.alice("verify", number).code == 0
    shown = town.alice.json("show", number)
    assert (shown["status"], shown["note"]) == ("verified", "all watered")


def test_several_results_are_verified_and_a_refusal_says_which_and_what_to_do(town: Town) -> None:
    finished, open_ = town.submitted(), town.submitted()
    town.kimi("take", finished)
    town.kimi("done", f"{finished}@1", "--note", "all watered")
    said = town.alice("verify", finished, open_)
    assert (said.code, said.out) == (town.alice("verify", open_).code, f"#{finished} verified\n")
    assert said.code != 0
    assert f"#{open_} is ready" in said.err
    assert "next: " in said.err
    assert town.alice.json("show", finished)["status"] == "verified"


@pytest.mark.parametrize("name", ["x" * 300, "~nobody-of-this-name/x", "/", "no/such/folder/x", "bad\0name"])
def test_a_file_that_cannot_be_is_said_to_be_none(town: Town, name: str) -> None:
    said = town.alice("export", name)
    assert said.code in (1, 2, 5)
    assert said.err.startswith("fabric: ")
    assert "next: " in said.err


def test_every_command_prints_the_same_shape_of_a_task(town: Town) -> None:
    number = town.submitted()
    shapes = [town.alice.json("list")[0], town.alice.json("show", number), town.kimi.json("claim")]
    shapes += [
        town.kimi.json("park", number, "--until", "now", "--note", "a moment"),
        town.alice.json("edit", number, "--priority", "3"),
    ]
    for shape in shapes:
        assert set(shape) >= SHAPE
    assert shapes[2]["ref"] == f"{number}@1"
    assert set(shapes[2]["fence"]) == {"task", "epoch", "token"}


def test_json_is_accepted_before_and_after_the_command(town: Town) -> None:
    town.submitted()
    assert town.alice("--json", "list").json == town.alice("list", "--json").json


def test_nothing_to_claim_is_exit_code_3(town: Town) -> None:
    refused(town.qwen("claim"), 3)
    assert refused(town.qwen("claim", "--json"), 3)["code"] == 3


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_each_refusal_has_its_exit_code_and_says_what_to_do_next(town: Town, as_json: list[str]) -> None:
    """G1, G3: who does not hold the lease changes nothing and is told why."""
    number, finished = town.submitted(), town.submitted()
    town.kimi.json("take", number)
    town.kimi.json("take", finished)
    town.kimi.json("done", finished, "--note", "finished")
    cases = [
        (town.alice("submit", *as_json), 2),
        (town.alice("submit", "x", "--priority", "9", *as_json), 2),
        (town.alice("frobnicate", *as_json), 2),
        (town.alice("show", "999999", *as_json), 3),
        (town.alice("show", "twelve", *as_json), 2),
        (town.qwen("done", number, "--note", "mine", *as_json), 4),
        (town.qwen("done", f"{number}@1", "--note", "mine", *as_json), 4),
        (town.kimi("verify", finished, *as_json), 5),
        (town.alice("list", *as_json, FABRIC_TOKEN="fab_wrong"), 5),
        (town.alice("list", *as_json, FABRIC_URL="http://127.0.0.1:9"), 6),
        (town.alice("token", "create", "newone", "--trust", "trusted", *as_json), 7),
    ]
    for said, code in cases:
        assert refused(said, code)["next"] != "", said


def test_a_wait_that_runs_out_is_exit_code_8_and_the_task_stays(town: Town) -> None:
    said = town.alice("submit", "x", "--to", "kimi", "--wait", "0")
    assert (said.code, said.out.strip().isdigit()) == (8, True)
    error = refused(town.alice("submit", "x", "--to", "kimi", "--wait", "0", "--json"), 8)
    assert town.alice.json("show", str(error["facts"]["task"]))["status"] == "ready"


def test_a_lease_is_held_by_one_and_a_human_is_told_by_whom_and_until_when_in_his_zone(town: Town) -> None:
    """G1: the other learns "held by X until T"."""
    number = town.submitted(to="pool")
    assert town.kimi("take", number).code == 0
    told = refused(town.qwen("take", number), 4)
    assert f"#{number}" in told["message"]
    assert "kimi" in told["message"]
    assert "(CE" in told["message"]


def test_a_fence_is_found_by_the_bare_number_where_the_task_was_claimed(town: Town) -> None:
    number = town.submitted()
    town.kimi("claim")
    renewed = town.kimi.json("renew", number)
    assert renewed["ref"] == f"{number}@1"
    assert town.kimi("release", number).code == 0
    refused(town.kimi("renew", number), 4)  # it has ended and is forgotten


def test_a_human_finishes_by_hand_what_an_agent_needs_a_fence_for(town: Town) -> None:
    """G3: the server never infers a fence."""
    number = town.submitted(to="alice")
    assert town.alice("done", number, "--note", "did it myself").code == 0
    other = town.submitted()
    refused(town.kimi("done", other, "--note", "without claiming"), 4)


def test_a_lost_lease_is_exit_code_4_and_its_late_result_is_still_kept(town: Town) -> None:
    """G2, G3: a renewal that comes too late does not throw away the fence that offers the result."""
    number = town.submitted()
    town.kimi("claim")
    assert town.alice("cancel", number, "--note", "not wanted").code == 0
    for _ in range(2):
        assert refused(town.kimi("renew", f"{number}@1", "--json"), 4)["name"] == "lease-lost"
    assert refused(town.kimi("done", number, "--note", "too late", "--json"), 4)["name"] == "lease-lost"
    town.served.caught_up()
    assert "late result kept of `kimi` · epoch 1: too late" in town.alice("log", number).out
    assert refused(town.kimi("renew", f"{number}@1", "--json"), 4)["name"] == "no-fence"


def test_two_tokens_on_one_machine_neither_use_nor_forget_each_others_leases(town: Town) -> None:
    """G2."""
    number = town.submitted(to="pool")
    assert town.kimi("take", number).code == 0
    qwen = town.served.tokens["qwen"]
    assert refused(town.kimi("done", number, "--note", "mine", "--json", FABRIC_TOKEN=qwen), 4)["name"] == "no-fence"
    assert town.kimi("done", number, "--note", "mine").code == 0


def test_a_question_stops_the_task_until_it_is_answered(town: Town) -> None:
    number = town.submitted()
    town.kimi("claim")
    assert town.kimi.json("ask", number, "--note", "which ones?", "--of", "alice")["asked"] == "alice"
    why = town.alice("why", number)
    assert why.out.splitlines()[0] == f"#{number}: it waits for an answer from alice"
    waited = town.alice("submit", "a task", "--to", "kimi", "--key", f"ask-{number}", "--wait", "0")
    assert waited.code == 8
    assert town.alice("answer", number, "--note", "all").code == 0
    assert town.alice.json("show", number)["status"] == "ready"


def test_wait_ends_with_7_when_somebody_must_answer_and_with_1_when_it_is_dead(town: Town) -> None:
    for end, code in ((("ask", "--note", "which?", "--of", "alice"), 7), (("fail", "--final", "--note", "no"), 1)):
        key = f"wait-{end[0]}"
        number = str(town.alice.json("submit", "t", "--to", "kimi", "--key", key)["id"])
        town.kimi("claim")
        assert town.kimi(end[0], number, *end[1:]).code == 0
        said = town.alice("submit", "t", "--to", "kimi", "--key", key, "--wait", "5", "--json")
        assert said.code == code, said
        assert said.error["facts"]["task"] == int(number)


def test_wait_prints_the_result(town: Town) -> None:
    first = town.alice.json("submit", "t", "--to", "kimi", "--key", "result")
    town.kimi("claim")
    town.kimi("done", str(first["id"]), "--note", "forty-two")
    assert town.alice("submit", "t", "--to", "kimi", "--key", "result", "--wait").out.splitlines()[-1] == "forty-two"
    assert town.alice.json("submit", "t", "--to", "kimi", "--key", "result", "--wait", "5")["note"] == "forty-two"


def test_the_same_key_makes_one_task_and_says_so(town: Town) -> None:
    """G11."""
    first, second = (town.alice.json("submit", "t", "--to", "kimi", "--key", "once") for _ in range(2))
    assert (first["id"], first["created_now"], second["created_now"]) == (second["id"], True, False)
    assert town.alice("submit", "t", "--to", "kimi", "--key", "once").out == f"{first['id']} (already there, ready)\n"
    assert town.alice("submit", "other", "--to", "kimi", "--key", "once").code == 1


def test_times_are_read_and_shown_in_the_callers_zone(town: Town) -> None:
    made = town.alice.json(
        "submit", "t", "--to", "kimi", "--due", "2030-07-01 12:00", "--not-before", "2030-01-01T00:00Z"
    )
    assert made["due"] == "2030-07-01T10:00:00Z"
    assert "Mon 1 Jul 2030 12:00 (CEST)" in town.alice("show", str(made["id"])).out
    assert "until Tue 1 Jan 2030 01:00 (CET)" in town.alice("why", str(made["id"])).out
    refused(town.alice("submit", "t", "--due", "when it suits"), 2)


def test_show_tells_what_hangs_on_a_card(town: Town) -> None:
    number, other = town.submitted("Move house", to="alice"), town.submitted("Find a van", to="alice")
    task = int(number)
    for method, params in (
        ("createSubtask", {"task_id": task, "title": "Pack the \u202ebooks"}),
        ("createTaskLink", {"task_id": task, "opposite_task_id": int(other), "link_id": 1}),
        ("createExternalTaskLink", {"task_id": task, "url": "https://example.org/van", "dependency": "related",
                                    "type": "weblink", "title": "The van"}),
    ):  # fmt: skip
        assert town.served.call(method, params)["result"], method
    said = town.alice("show", number).out
    assert "\u202e" not in said
    assert "books  todo" in said
    assert f"relates to #{other}  Find a van" in said
    assert "The van  https://example.org/van" in said
    shape = town.alice.json("show", number)
    assert [sub["status"] for sub in shape["subtasks"]] == ["Todo"]
    assert [link["task"] for link in shape["links"]] == [int(other)]
    assert [link["url"] for link in shape["external_links"]] == ["https://example.org/van"]


def test_the_log_tells_comments_and_events_in_order_and_a_line_each_for_programs(town: Town) -> None:
    number = town.submitted()
    town.alice("comment", number, "first words\nsecond line")
    town.kimi("claim")
    town.kimi("done", number, "--note", "finished")
    town.served.caught_up()
    lines = [json.loads(line) for line in town.alice("log", number, "--json").out.splitlines()]
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)
    assert {"comment", "event"} == {line["type"] for line in lines}
    shown = town.alice("log", number).out
    assert shown.index("submitted") < shown.index("first words") < shown.index("claimed by") < shown.index("finished")


def test_the_tree_is_drawn_from_the_root(town: Town) -> None:
    root = town.submitted("root")
    child = town.alice.json("submit", "child", "--to", "kimi", "--parent", root)["id"]
    town.alice.json("submit", "grandchild", "--to", "kimi", "--parent", str(child))
    lines = town.alice("tree", root).out.splitlines()
    assert lines[1].startswith("└─ #")
    assert lines[2].startswith("   └─ #")
    assert town.alice.json("tree", root)["tree"][0]["tree"][0]["title"] == "grandchild"


def test_a_list_can_be_narrowed_and_searched(town: Town) -> None:
    number = int(town.submitted("Feed the heron"))
    assert number in [task["id"] for task in town.alice.json("list", "--queue", "kimi", "--status", "ready")]
    assert number not in [task["id"] for task in town.alice.json("list", "--status", "working,done")]
    assert [task["id"] for task in town.alice.json("search", "heron")] == [number]
    assert number in [task["id"] for task in town.alice.json("list", "--mine")]
    assert town.bob.json("search", "heron") == []  # G13
    assert "Feed the heron" in town.alice("list").out


def test_files_travel_with_the_result(town: Town, tmp_path: Path) -> None:
    number = town.submitted()
    (tmp_path / "report.bin").write_bytes(bytes(range(256)))
    town.kimi("claim")
    assert town.kimi("done", number, "--note", "see file", "--attach", str(tmp_path / "report.bin")).code == 0
    (file,) = town.alice.json("show", number)["attachments"]
    got = tmp_path / "got.bin"
    assert town.alice("attachment", str(file["id"]), "-o", str(got)).code == 0
    assert got.read_bytes() == bytes(range(256))
    refused(town.alice("attachment", str(file["id"]), "-o", str(got)), 2)
    refused(town.kimi("done", number, "--note", "x", "--attach", str(tmp_path / "nowhere")), 2)


def test_tags_are_added_and_removed_and_reserved_ones_refused(town: Town) -> None:
    number = town.submitted()
    assert "home" in town.alice.json("edit", number, "--tag", "+home", "--tag", "+away")["tags"]
    assert "home" not in town.alice.json("edit", number, "--tag", "-home")["tags"]
    refused(town.alice("edit", number, "--tag", "+veto"), 5)
    refused(town.alice("edit", number), 2)


def test_people_and_tokens_are_managed_from_the_command_line(town: Town) -> None:
    added = town.alice("user", "add", "carol", "--zone", "Europe/Paris")
    assert added.code == 0
    token = added.out.strip()
    assert token.startswith("fab_")  # alone on stdout, so that it can be piped
    assert town.alice("list", FABRIC_TOKEN=token).code == 0
    assert "carol" in [user["name"] for user in town.alice.json("user", "list")]
    made = town.alice.json("token", "create", "newbie", "--needs", "tools,vision")
    assert town.alice("claim", FABRIC_TOKEN=made["token"]).code == 3
    (listed,) = [t for t in town.alice.json("token", "list") if t["principal"] == "newbie"]
    assert town.alice("token", "revoke", str(listed["id"])).code == 0
    refused(town.alice("claim", FABRIC_TOKEN=made["token"]), 5)
    assert town.alice("user", "disable", "carol").code == 0
    refused(town.alice("list", FABRIC_TOKEN=token), 5)


def test_the_pin_is_read_from_standard_input_and_lets_a_person_decide(town: Town) -> None:
    assert town.bob("pin", "set", stdin=b"123456\n").code == 0
    said = town.bob("token", "create", "bobs-agent", "--trust", "trusted", "--pin", stdin=b"123456\n")
    assert said.code == 0, said
    assert town.bob("token", "create", "bobs-other", "--trust", "trusted", "--pin", stdin=b"000000\n").code == 5
    refused(town.bob("pin", "set", stdin=b""), 2)


def test_queues_are_made_and_their_members_set(town: Town) -> None:
    assert town.alice.json("queue", "create", "builders", "--pool")["kind"] == "pool"
    assert town.alice("queue", "member", "builders", "kimi").code == 0
    town.alice.json("submit", "build", "--to", "builders")
    assert town.kimi.json("claim", "--queue", "builders")["queue"] == "builders"
    assert town.kimi("done", "1@99", "--note", "x").code == 4
    assert "builders" in town.alice("queue", "list").out


def test_the_rules_of_a_queue_are_set_when_it_is_made_and_later(town: Town) -> None:
    made = town.alice.json("queue", "create", "releases", "--needs-verified", "--human-verify")
    assert (made["needs_verified"], made["human_verify"], made["score_check"]) == (True, True, False)
    changed = town.alice.json("queue", "rules", "releases", "--no-human-verify", "--score-check")
    assert (changed["needs_verified"], changed["human_verify"], changed["score_check"]) == (True, False, True)
    assert town.alice.json("queue", "rules", "alice", "--score-check", "--json")["score_check"] is True
    assert town.alice.json("queue", "rules", "alice", "--no-score-check")["score_check"] is False
    assert "needs-verified  yes" in town.alice("queue", "rules", "releases").out
    refused(town.kimi("queue", "rules", "pool", "--score-check"), 5)
    assert "fabric queue list" in refused(town.alice("queue", "rules", "nowhere"), 3)["next"]


def test_who_resets_himself_with_the_local_credential_stays_inside(town: Town, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    token = town.alice.json("token", "create", "resettable")["token"]
    kept = {"url": town.served.url, "user": "resettable", "token": token}
    (home / "credentials").write_text(json.dumps(kept))
    mine = {"FABRIC_HOME": str(home), "FABRIC_TOKEN": token}
    refused(town.alice("user", "reset", "resettable", **mine), 5)  # an agent may not, and keeps what it has
    assert json.loads((home / "credentials").read_text()) == kept

    user = town.alice.json("user", "add", "dora")
    (home / "credentials").write_text(json.dumps({**kept, "user": "dora", "token": user["token"]}))
    other = town.alice("user", "reset", "resettable", "--json", FABRIC_HOME=str(home))
    assert other.code == 0, other
    assert json.loads((home / "credentials").read_text())["token"] == user["token"]
    said = town.alice("user", "reset", "dora", "--json", FABRIC_HOME=str(home), FABRIC_TOKEN=user["token"])
    assert said.code == 0, said
    fresh = json.loads((home / "credentials").read_text())
    assert (fresh["user"], fresh["token"]) == ("dora", said.json["token"])
    assert town.alice("list", FABRIC_TOKEN=fresh["token"]).code == 0


def test_doctor_ends_with_1_only_when_something_is_wrong(town: Town) -> None:
    said = town.alice("doctor", "--json")
    assert said.code == int(any(check["state"] == "fail" for check in said.json))
    away = town.alice("doctor", "--json", FABRIC_URL="http://127.0.0.1:9")
    assert away.code == 1
    assert [check["state"] for check in away.json if check["name"] == "server"] == ["fail"]


def test_the_older_program_speaks_its_older_words(town: Town) -> None:
    spec = "Do *this*.\n\n--- spec ---\nnot a second one\n"
    number = town.alice("submit", "Old words", "--to", "kimi", "--spec", "-", stdin=spec.encode()).out.strip()
    said = town.kimi.kb("next")
    ref, title, mark, *rest = said.out.split("\n")
    assert (ref, title, mark, "\n".join(rest)) == (f"{number}@1", "Old words", "--- spec ---", spec)
    assert town.kimi.kb("lease-status", number).out.startswith("kimi until ")
    assert town.kimi.kb("renew", number).code == 0
    assert town.kimi.kb("park", number, "--note", "quota").code == 0
    assert town.kimi.kb("lease-status", number).out == "free\n"
    assert town.kimi.kb("next").code == 3  # parked for a quarter of an hour
    assert town.kimi.kb("take", town.submitted("another")).code == 0
    assert town.kimi.kb("nxt").code == 2


def test_the_older_program_prints_one_document_for_each_verb(town: Town) -> None:
    number = town.submitted("documents")
    assert town.kimi.kb("next", "--json").json["ref"] == f"{number}@1"
    assert town.kimi.kb("--json", "renew", number).json["ref"] == f"{number}@1"
    assert town.kimi.kb("lease-status", number, "--json").json["holder"] == "kimi"
    assert town.kimi.kb("park", number, "--note", "x", "--until", "now", "--json").json["status"] == "ready"
    assert town.kimi.kb("take", number, "--json").json["epoch"] == 2
    assert town.kimi.kb("done", number, "--note", "x", "--json").json["status"] == "done"
    assert town.alice.kb("close", number, "--json").json["status"] == "verified"
    for verb, status in (("escalate", "waiting"), ("deadletter", "dead")):
        number = town.submitted(verb)
        town.kimi.kb("take", number)
        assert town.kimi.kb(verb, number, "--note", "x", "--json").json["status"] == status
    assert set(town.kimi.kb("--help", "--json").json) >= {"next", "lease-status"}


@pytest.mark.parametrize("program", ["fabric", "kb-claim"])
def test_without_a_command_a_program_is_told_so_in_a_document(town: Town, program: str) -> None:
    assert refused(town.alice("--json", program=program), 2)["next"] != ""


def test_the_older_program_ends_tasks_in_each_of_its_ways(town: Town) -> None:
    for verb, status in (("done", "done"), ("escalate", "waiting"), ("deadletter", "dead")):
        number = town.submitted(verb)
        assert town.kimi.kb("take", number).code == 0
        assert town.kimi.kb(verb, number, "--note", "because").out == f"{number} {status}\n"
    done = town.submitted("close me")
    town.kimi.kb("take", done)
    town.kimi.kb("done", done, "--note", "ready")
    assert town.kimi.kb("close", done).code == 5
    assert town.alice.kb("close", done).out == f"{done} verified\n"


def test_a_hostile_title_cannot_write_to_the_terminal_of_who_lists_it(town: Town) -> None:
    refused(town.alice("submit", "\x1b[2Jgone"), 2)
    town.submitted("gone \u202eevil")
    for said in (town.alice("list"), town.kimi("claim")):
        assert "\x1b" not in said.out
        assert "\u202e" not in said.out


@pytest.mark.parametrize("argv", [["submit", "half \ud800"], ["show", "nul\0"], ["\udcff"]])
def test_arguments_that_are_no_text_are_wrong_usage(town: Town, argv: list[str]) -> None:
    assert town.alice(*argv).code == 2
    assert town.alice("--json", *argv).error["code"] == 2


def test_a_title_of_two_megabytes_is_wrong_usage(town: Town) -> None:
    said = town.alice("submit", "x" * 2_000_000)
    refused(said, 2)
    assert len(said.err) < 2000


def test_the_log_can_be_followed_while_it_happens(town: Town) -> None:
    number = town.submitted()
    events = Line(town.served.url, town.served.tokens["alice"]).follow("end", task=int(number))
    writer = threading.Timer(
        0.2, lambda: town.served.fabric("alice").ask("fabric.comment", {"task": number, "text": "hi"})
    )
    began = time.monotonic()
    writer.start()
    event = next(events)
    writer.join()
    events.close()  # type: ignore[attr-defined]
    assert event["task"] == int(number)
    assert time.monotonic() - began < 10
