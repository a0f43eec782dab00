"""A checker that cannot fail is worthless: each rule is shown a history that breaks it, and a good one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from taskfabric.domain.errors import LeaseLost, Unavailable
from tests.chaos.checker import STEP, check
from tests.chaos.history import Board, Call, Event, Grant, Recorder, Row, State, read_history

KIMI, QWEN, ALICE = 5, 6, 1


def event(seq: int | None, kind: str, actor: int = KIMI, epoch: int | None = None, task: int = 1, **data: Any) -> Event:
    return Event(task=task, seq=seq, kind=kind, actor=actor, epoch=epoch, data=data)


def call(
    verb: str, state: State = "ok", epoch: int | None = None, *, at: int = 0, actor: int = KIMI, **more: Any
) -> Call:
    grants = () if epoch is None else (Grant(task=1, epoch=epoch, token=epoch * 100 + actor),)
    return Call(client=f"w{actor}", actor=actor, verb=verb, state=state, begun=at, ended=at + 1, grants=grants, **more)


# A task that was submitted, claimed, lost by expiry, claimed again and finished.
EVENTS = (
    event(1, "submitted", ALICE, 0),
    event(2, "claimed", KIMI, 1),
    event(3, "expired", 0, 1),
    event(4, "claimed", QWEN, 2),
    event(5, "done", QWEN, 2),
)
ROW = Row(task=1, status="done", shown="done", epoch=2, seq=5, attempts=2, leased=False, key="k")
CALLS = (
    call("submit", key="k", task=1, actor=ALICE),
    call("claim", epoch=1, at=10),
    call("claim", epoch=2, at=20, actor=QWEN),
    call("done", "fail", epoch=1, at=30),
    call("done", epoch=2, at=40, actor=QWEN),
)


def board(events: tuple[Event, ...] = EVENTS, row: Row | None = ROW, lifts: int = 0) -> Board:
    return Board(journal=events, rows=() if row is None else (row,), lifts=lifts, humans=frozenset({ALICE}))


def rules(calls: tuple[Call, ...] = CALLS, of: Board | None = None) -> set[str]:
    return {violation.rule for violation in check(calls, of or board())}


def with_event(place: int, **changes: Any) -> tuple[Event, ...]:
    return (*EVENTS[:place], replace(EVENTS[place], **changes), *EVENTS[place + 1 :])


def test_a_good_history_has_no_violation() -> None:
    assert check(CALLS, board()) == []


def test_a_refusal_in_the_journal_is_no_transition() -> None:
    refused = event(None, "refused", KIMI, 1, verb="done")
    assert check(CALLS, board((*EVENTS, refused))) == []


BROKEN: list[tuple[str, str, Callable[[], set[str]]]] = [
    ("seq", "a missing event", lambda: rules(of=board(EVENTS[:2] + EVENTS[3:]))),
    ("seq", "an event told twice", lambda: rules(of=board((*EVENTS, event(5, "commented", ALICE))))),
    ("seq", "a row that counts otherwise", lambda: rules(of=board(row=replace(ROW, seq=6)))),
    ("order", "readers see it in another order", lambda: rules(of=board((*EVENTS[:3], EVENTS[4], EVENTS[3])))),
    ("overlap", "a grant while another holds", lambda: rules(of=board(with_event(2, kind="commented")))),
    ("epochs", "an epoch that is left out", lambda: rules(of=board(with_event(3, epoch=3)))),
    ("epochs", "an epoch granted again", lambda: rules(of=board(with_event(3, epoch=1)))),
    ("epochs", "a lift without a restore", lambda: rules(of=board(with_event(3, epoch=STEP + 2)))),
    ("fence", "a finish of an older epoch", lambda: rules(of=board(with_event(4, epoch=1)))),
    ("fence", "a finish by somebody else", lambda: rules(of=board(with_event(4, actor=KIMI)))),
    (
        "fence",
        "a finish without a lease",
        lambda: rules(of=board((*EVENTS, event(6, "done", QWEN, 2)), replace(ROW, seq=6))),
    ),
    ("status", "a submitted task that is gone", lambda: rules(of=board(row=None))),
    ("status", "a row that stands elsewhere", lambda: rules(of=board(row=replace(ROW, status="ready", shown="ready")))),
    ("status", "a card that shows another status", lambda: rules(of=board(row=replace(ROW, shown="ready")))),
    ("status", "two rows", lambda: rules(of=replace(board(), rows=(ROW, ROW)))),
    ("journal", "a task without a word about it", lambda: rules(of=replace(board(), rows=(ROW, replace(ROW, task=2))))),
    ("lease", "a lease left behind", lambda: rules(of=board(row=replace(ROW, leased=True)))),
    ("starts", "an epoch without a start", lambda: rules(of=board(row=replace(ROW, epoch=3)))),
    ("attempts", "an attempt too few", lambda: rules(of=board(row=replace(ROW, attempts=1)))),
    ("submits", "an answered submit that is lost", lambda: rules((call("submit", key="x", task=9, actor=ALICE),))),
    (
        "submits",
        "one key answered with two tasks",
        lambda: rules((CALLS[0], call("submit", key="k", task=2, actor=ALICE))),
    ),
    ("submits", "a failed submit that is there", lambda: rules((call("submit", "fail", key="k", actor=ALICE),))),
    ("submits", "one key with two tasks", lambda: rules(of=replace(board(), rows=(ROW, replace(ROW, task=2))))),
    ("claims", "one epoch told to two", lambda: rules((*CALLS, call("claim", epoch=2, at=21)))),
    ("claims", "a grant the journal lacks", lambda: rules((*CALLS, call("claim", epoch=7, at=50)))),
    ("unexplained", "a grant that nobody was told", lambda: rules((CALLS[0], call("claim", at=9), *CALLS[2:]))),
    ("unexplained", "refused, yet done", lambda: rules((*CALLS[:4], replace(CALLS[4], state="fail")))),
    ("unexplained", "a finish that nobody called", lambda: rules((*CALLS[:4], call("done", actor=QWEN, at=44)))),
    ("ends", "an accepted finish the journal lacks", lambda: rules((*CALLS, call("done", epoch=1, at=15)))),
    ("twice", "a finish accepted twice", lambda: rules((*CALLS, replace(CALLS[4], begun=60)))),
    ("stale", "a renewal after a later grant", lambda: rules((*CALLS, call("renew", epoch=1, at=35)))),
    ("stale", "a finish after a later grant", lambda: rules((*CALLS, call("failed", epoch=1, at=35)))),
]


@pytest.mark.parametrize(("rule", "what", "broken"), BROKEN, ids=[f"{rule}: {what}" for rule, what, _ in BROKEN])
def test_a_planted_violation_is_found(rule: str, what: str, broken: Callable[[], set[str]]) -> None:
    assert rule in broken()


def test_a_token_drawn_for_two_grants_is_found() -> None:
    same = replace(CALLS[2], grants=(Grant(task=1, epoch=2, token=CALLS[1].grants[0].token),))
    assert "claims" in rules((*CALLS[:2], same, *CALLS[3:]))


def test_an_unknown_finish_may_have_been_carried_out_or_not() -> None:
    unknown = replace(CALLS[4], state="unknown")
    assert check((*CALLS[:4], unknown), board()) == []
    still = board(EVENTS[:4], replace(ROW, status="working", shown="working", seq=4, leased=True))
    assert check((*CALLS[:4], unknown), still) == []


def test_an_unknown_claim_explains_one_grant_that_nobody_was_told() -> None:
    assert check((CALLS[0], call("claim", "unknown", at=9), *CALLS[2:]), board()) == []


def test_a_recorded_restore_may_lift_epochs() -> None:
    lifted = (*EVENTS[:3], event(4, "claimed", QWEN, STEP + 2), event(5, "done", QWEN, STEP + 2))
    seen = (CALLS[0], CALLS[1], call("claim", epoch=STEP + 2, actor=QWEN), call("done", epoch=STEP + 2, actor=QWEN))
    assert check(seen, board(lifted, replace(ROW, epoch=STEP + 2), lifts=1)) == []
    assert "epochs" in rules(seen, board(lifted, replace(ROW, epoch=STEP + 2)))


def test_ends_that_are_refunded_count_no_attempt() -> None:
    parked = (EVENTS[0], EVENTS[1], event(3, "parked", KIMI, 1), EVENTS[3], EVENTS[4])
    assert check((), board(parked, replace(ROW, attempts=1))) == []
    assert "attempts" in rules((), board(parked, ROW))


def test_a_recorder_tells_certain_failures_from_unknown_ends(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "h", client="w1", actor=KIMI)

    def raising(error: Exception) -> Callable[[], None]:
        def work() -> None:
            raise error

        return work

    recorder.call("submit", lambda: 7, lambda task: {"task": task}, key="k")
    for error in (LeaseLost("lost"), Unavailable("away", sent=False), Unavailable("cut", sent=True)):
        with pytest.raises(type(error)):
            recorder.call("done", raising(error), lambda _: {}, grants=[(1, 2, 3)])
    recorder.close()
    calls = read_history([tmp_path / "h"])
    assert [c.state for c in calls] == ["ok", "fail", "fail", "unknown"]
    assert calls[0].task == 7
    assert calls[1].grants == (Grant(task=1, epoch=2, token=3),)


def test_a_call_whose_client_was_killed_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "h"
    recorder = Recorder(path, client="w1", actor=KIMI)
    recorder.call("claim", list, lambda _: {"grants": []})
    recorder.close()
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(whole[0] + whole[1][:20])
    assert [c.state for c in read_history([path])] == ["unknown"]
