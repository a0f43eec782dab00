"""The remote runtime against a real A2A server: how a task gets there, what comes of it, and what a restart does."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from taskfabric.domain.card import AgentCard, CardKind, RemoteSpec
from taskfabric.domain.errors import BadInput
from taskfabric.domain.lease import Fence
from taskfabric.domain.limit import LimitClass
from taskfabric.domain.outcome import Declined, Done, Failed, Parked, Waiting
from taskfabric.domain.task import Entry
from taskfabric.ports.runtime import DRAINED, Job, Result
from taskfabric.runtimes import a2a_peer, make, remote
from tests.integration.a2a_agent import Agent, agent_served
from tests.integration.hiring import until
from tests.integration.running import Told, make_card, make_job, never
from tests.unit.making import NOW


@pytest.fixture
def agent() -> Iterator[Agent]:
    with agent_served() as served:
        yield served


def far(agent: Agent, **spec: str) -> AgentCard:
    return make_card(name="far", kind=CardKind.REMOTE, url=agent.url, remote=RemoteSpec(**spec))


def job(agent: Agent, folder: Path, title: str, *, epoch: int = 3, thread: tuple[Entry, ...] = (), **task: Any) -> Job:
    made = make_job(far(agent), folder, task={"title": title, "description": "", "queue": "far", **task}, thread=thread)
    return replace(made, fence=Fence(task_id=made.task.id, epoch=epoch, token=1))


def run(job: Job, folder: Path, stopped: Callable[[], str | None] = never, told: Told | None = None) -> Result:
    runtime = make(job.card, clock=lambda: NOW, keep=folder / "kept")
    try:
        return runtime.run(job, told or Told(), stopped)
    finally:
        runtime.close()


def line(kind: str, epoch: int | None = None, text: str = "", number: int = 1) -> Entry:
    return Entry(id=number, task_id=12, author="alice", author_id=1, at=NOW, text=text, kind=kind, epoch=epoch)


# ---------------------------------------------------------------- what comes of it


def test_a_task_is_sent_whole_and_its_artifact_is_the_result(agent: Agent, tmp_path: Path) -> None:
    told = Told()
    result = run(job(agent, tmp_path, "Fix the parser"), tmp_path, told=told)
    assert result.outcome == Done(note="It is fixed.")
    assert "Fix the parser" in agent.asked[0]
    assert told.text("err") == "reading it\n"
    assert [update["artifact"]["parts"] for update in told.artifacts] == [[{"text": "It is "}], [{"text": "fixed."}]]


def test_without_streaming_it_is_looked_at_until_it_is_done(tmp_path: Path) -> None:
    with agent_served(streaming=False) as agent:
        assert run(job(agent, tmp_path, "quiet"), tmp_path).outcome == Done(note="It is fixed.")


@pytest.mark.parametrize(
    ("word", "outcome"),
    [
        ("direct", Done(note="a word")),
        ("question", Waiting(question="Which of the two?")),
        ("needs-auth", Waiting(question="Sign in at the bank.", auth=True)),
        ("fail", Failed(error="the disk is full")),
        ("refuse", Declined(reason="not my trade")),
        ("stop", Failed(error="it was cancelled at the remote agent: the owner said stop", retry=False)),
    ],
)
def test_every_state_of_the_other_side_is_an_outcome(agent: Agent, tmp_path: Path, word: str, outcome: object) -> None:
    assert run(job(agent, tmp_path, word), tmp_path).outcome == outcome


def test_bytes_become_files_whose_names_lead_nowhere(agent: Agent, tmp_path: Path) -> None:
    result = run(job(agent, tmp_path, "files"), tmp_path)
    (file,) = result.attachments
    assert (file.name, file.read_bytes()) == ("table.csv", b"a,b\n1,2\n")
    assert file.is_relative_to(tmp_path)
    assert isinstance(result.outcome, Done)
    assert "plan.pdf: https://example.org/plan.pdf" in result.outcome.note
    assert '"count": 42\n' in result.outcome.note


def test_a_message_that_came_by_a2a_goes_on_with_its_own_parts(agent: Agent, tmp_path: Path) -> None:
    asked = replace(job(agent, tmp_path, "title"), message={"parts": [{"text": "direct, please"}]}, context="c1")
    result = run(asked, tmp_path)
    assert agent.asked == ["direct, please"]
    assert result.reply is not None
    assert result.reply["parts"] == [{"text": "a word"}]


# ---------------------------------------------------------------- once, whatever happens


def test_a_restarted_worker_finds_the_remote_task_and_sends_nothing_twice(agent: Agent, tmp_path: Path) -> None:
    """G4 ends at the other side's door: what was sent is asked for, not sent again."""
    first = job(agent, tmp_path, "hold")
    gone = threading.Event()

    def killed() -> str | None:
        return DRAINED if gone.is_set() else None

    thread = threading.Thread(target=lambda: run(first, tmp_path, killed))
    thread.start()
    assert agent.begun.wait(20)
    until(lambda: "hold" in str(agent.asked))
    gone.set()
    thread.join(20)
    assert agent.cancelled == []
    agent.hold.set()
    later = (line("claimed", 3), line("expired", 3), line("claimed", 4))
    result = run(job(agent, tmp_path, "hold", epoch=4, thread=later), tmp_path)
    assert result.outcome == Done(note="held and done")
    assert len(agent.asked) == 1


def test_a_reply_that_gets_lost_is_asked_for_under_the_same_key(agent: Agent, tmp_path: Path) -> None:
    agent.drop = 1
    assert isinstance(run(job(agent, tmp_path, "Fix"), tmp_path).outcome, Done)
    assert len(agent.keys) == 2
    assert len(set(agent.keys)) == 1
    assert agent.keys[0].startswith("12@3-")


def test_the_answer_to_its_question_reaches_the_same_remote_task(agent: Agent, tmp_path: Path) -> None:
    assert isinstance(run(job(agent, tmp_path, "question"), tmp_path).outcome, Waiting)
    thread = (
        line("claimed", 3),
        line("", text="an older remark"),
        line("question", 3, "Which of the two?"),
        line("answer", text="done: the red one"),
        line("claimed", 4),
    )
    result = run(job(agent, tmp_path, "question", epoch=4, thread=thread), tmp_path)
    assert result.outcome == Done(note="It is fixed.")
    assert agent.asked[1:] == ["done: the red one"]
    assert len(set(agent.keys)) == 2


@pytest.mark.parametrize("message", [None, {"parts": [{"text": "ponder it"}]}])
def test_an_answer_answers_one_question_however_often_the_worker_is_started(
    agent: Agent, tmp_path: Path, message: dict[str, Any] | None
) -> None:
    """What was said to the first question is not said again to a second one that nobody here has seen yet."""
    assert isinstance(run(job(agent, tmp_path, "question"), tmp_path).outcome, Waiting)
    said = (line("claimed", 3, number=1), line("question", number=2), line("answer", text="ponder it", number=3))
    again = replace(job(agent, tmp_path, "question", epoch=4, thread=said), message=message)
    agent.begun.clear()
    assert run(again, tmp_path, lambda: DRAINED if agent.begun.is_set() else None).outcome == Failed(
        error=f"it was ended: {DRAINED}"
    )
    agent.hold.set()
    later = replace(again, thread=(*said, line("claimed", 4, number=4)), fence=replace(again.fence, epoch=5))
    assert run(later, tmp_path).outcome == Waiting(question="And which then?")
    assert [text.splitlines()[-1] for text in agent.asked[1:]] == ["ponder it"]


def test_without_an_answer_the_question_stays(agent: Agent, tmp_path: Path) -> None:
    run(job(agent, tmp_path, "question"), tmp_path)
    again = run(job(agent, tmp_path, "question", epoch=4, thread=(line("claimed", 3), line("question", 3))), tmp_path)
    assert again.outcome == Waiting(question="Which of the two?")
    assert len(agent.asked) == 1


@pytest.mark.parametrize("end", ["failed", "rejected", "redriven"])
def test_after_an_end_the_task_is_sent_anew(agent: Agent, tmp_path: Path, end: str) -> None:
    run(job(agent, tmp_path, "Fix"), tmp_path)
    thread = (line("claimed", 3), line(end, 3), line("claimed", 4))
    run(job(agent, tmp_path, "Fix", epoch=4, thread=thread), tmp_path)
    assert [key.partition("-")[0] for key in agent.keys] == ["12@3", "12@4"]


def test_a_lost_lease_cancels_the_remote_task(agent: Agent, tmp_path: Path) -> None:
    """G8: whoever lost the lease stops, also what works for him elsewhere."""
    told = Told()
    result = run(
        job(agent, tmp_path, "hold"),
        tmp_path,
        lambda: "the lease is lost" if told.heard.is_set() else None,
        told,
    )
    assert result.outcome == Failed(error="it was ended: the lease is lost")
    until(lambda: agent.cancelled, what="it is cancelled there")


def test_a_run_that_was_overtaken_does_not_cancel_what_the_next_one_follows(agent: Agent, tmp_path: Path) -> None:
    told, lost = Told(), threading.Event()
    old = threading.Thread(
        target=lambda: run(job(agent, tmp_path, "hold"), tmp_path, lambda: "lost" if lost.is_set() else None, told)
    )
    old.start()
    assert told.heard.wait(20)
    results: list[Result] = []
    later = (line("claimed", 3), line("expired", 3), line("claimed", 4))
    next_told = Told()
    new = threading.Thread(
        target=lambda: results.append(
            run(job(agent, tmp_path, "hold", epoch=4, thread=later), tmp_path, told=next_told)
        )
    )
    new.start()
    assert next_told.heard.wait(20)
    lost.set()
    old.join(20)
    agent.hold.set()
    new.join(20)
    assert agent.cancelled == []
    assert [result.outcome for result in results] == [Done(note="held and done")]


# ---------------------------------------------------------------- somebody who speaks nonsense


def _for_ever(piece: bytes) -> Any:
    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield piece
            await asyncio.sleep(0)

    return pieces


WORKING = {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
STREAM = "text/event-stream"
NONSENSE: dict[str, Callable[[], Any]] = {
    "words": lambda: PlainTextResponse("hello"),
    "no result": lambda: JSONResponse({"jsonrpc": "2.0", "id": 1}),
    "a list": lambda: JSONResponse([1, 2, 3]),
    "a task that is none": lambda: JSONResponse({"jsonrpc": "2.0", "id": 1, "result": {"task": {"id": 7}}}),
    "an error without a code": lambda: JSONResponse({"jsonrpc": "2.0", "id": 1, "error": {"message": ["no"]}}),
    "a stream of words": lambda: Response("data: nope\n\n", media_type=STREAM),
    "a stream of nothing": lambda: Response("", media_type=STREAM),
    "an answer without end": lambda: StreamingResponse(_for_ever(b"x" * 4096)(), media_type="application/json"),
    "a stream without end": lambda: StreamingResponse(_for_ever(b"data: " + b"x" * 4096)(), media_type=STREAM),
}


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_ends_the_run_with_a_word_and_costs_no_more_than_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, streams: bool
) -> None:
    monkeypatch.setattr(a2a_peer, "_LARGEST", 1 << 18)
    monkeypatch.setattr(remote, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(remote, "_LONGEST_PAUSE", 0.01)
    with agent_served(streaming=streams) as agent:
        agent.busy = NONSENSE[what]()
        outcome = run(job(agent, tmp_path, "Fix"), tmp_path).outcome
    assert isinstance(outcome, Failed | Parked)
    said = outcome.error if isinstance(outcome, Failed) else outcome.reason
    assert said
    assert "Traceback" not in said


def test_an_agent_that_works_for_ever_is_left_when_the_run_must_end(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one who never falls silent, and who answers the farewell in the same way."""
    monkeypatch.setattr(remote, "_LAST", 0.5)
    shape = {"jsonrpc": "2.0", "id": 1, "result": {"statusUpdate": WORKING}}
    agent.busy = StreamingResponse(_for_ever(b"data: " + json.dumps(shape).encode() + b"\n\n")(), media_type=STREAM)
    told = Told()
    asked = iter([None] * 3)
    result = run(job(agent, tmp_path, "Fix"), tmp_path, lambda: next(asked, "out of time"), told)
    assert result.outcome == Failed(error="it was ended: out of time")


# ---------------------------------------------------------------- credentials and refusals


def test_the_granted_credential_is_shown_there_and_nowhere_in_what_is_sent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FAR_TOKEN", "s3cret-word")
    with agent_served(token="s3cret-word") as agent:
        given = job(agent, tmp_path, "Fix")
        result = run(replace(given, card=far(agent, key_env="FAR_TOKEN")), tmp_path)
        assert isinstance(result.outcome, Done)
        assert {shown for where, shown in agent.seen if where.startswith("POST")} == {"Bearer s3cret-word"}
        assert "s3cret" not in str(agent.asked)
    assert "s3cret" not in "".join(file.read_text() for file in (tmp_path / "kept").rglob("*.json"))


def test_an_api_key_goes_into_the_header_that_the_card_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FAR_TOKEN", "k1")
    with agent_served(token="k1") as agent:
        agent.header = "x-api-key"
        given = replace(job(agent, tmp_path, "Fix"), card=far(agent, key_env="FAR_TOKEN", header="X-API-Key"))
        assert isinstance(run(given, tmp_path).outcome, Done)


def test_a_refused_or_missing_credential_rests_the_task_and_spends_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("FAR_TOKEN", raising=False)
    with agent_served(token="right") as agent:
        given = replace(job(agent, tmp_path, "Fix"), card=far(agent, key_env="FAR_TOKEN"))
        missing = run(given, tmp_path).outcome
        monkeypatch.setenv("FAR_TOKEN", "wrong")
        refused = run(given, tmp_path).outcome
    for outcome, said in ((missing, "FAR_TOKEN is not set"), (refused, "refuses FAR_TOKEN")):
        assert isinstance(outcome, Parked)
        assert said in outcome.reason
        assert outcome.until == NOW + timedelta(minutes=10)


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 410, 429, 500, 503])
def test_the_words_of_a_refusal_are_in_the_log_only(
    agent: Agent, tmp_path: Path, status: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """D4: what comes to the card and to the roster is its kind, in our words."""
    monkeypatch.setattr("taskfabric.runtimes.remote._FIRST_PAUSE", 0.01)
    caplog.set_level("INFO")
    error = {"code": -32602, "message": "usage limit reached for dbpass=hunter2"}
    agent.busy = JSONResponse({"jsonrpc": "2.0", "id": 1, "error": error}, status)
    result = run(job(agent, tmp_path, "Fix"), tmp_path)
    assert isinstance(result.outcome, Failed | Parked)
    assert "hunter2" not in repr(result)
    assert "hunter2" in caplog.text


def test_a_busy_agent_rests_the_task_until_the_instant_that_it_names(agent: Agent, tmp_path: Path) -> None:
    agent.busy = JSONResponse({"error": {"message": "all hands are full"}}, 503, {"Retry-After": "120"})
    result = run(job(agent, tmp_path, "Fix"), tmp_path)
    assert isinstance(result.outcome, Parked)
    assert result.limit is not None
    assert result.limit.cls in (LimitClass.OVERLOAD, LimitClass.THROTTLE)
    assert len([where for where, _ in agent.seen if where.startswith("POST")]) == 1


def test_an_agent_that_is_away_rests_the_task(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskfabric.runtimes.remote._FIRST_PAUSE", 0.01)
    away = replace(far(agent), url="http://127.0.0.1:9")
    result = run(replace(job(agent, tmp_path, "Fix"), card=away), tmp_path)
    assert isinstance(result.outcome, Parked)
    assert result.limit is not None
    assert result.limit.cls is LimitClass.OVERLOAD


def test_a_card_that_leads_elsewhere_is_not_followed(tmp_path: Path) -> None:
    with agent_served() as target, agent_served(elsewhere=f"{target.url}/") as liar:
        given = job(liar, tmp_path, "Fix")
        with pytest.raises(BadInput, match="leads to"):
            run(given, tmp_path)
        assert target.seen == []
