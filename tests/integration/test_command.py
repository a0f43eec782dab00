"""The command runtime with real programs: how they are started, what they say, and that nothing of them is left."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from taskfabric.domain.card import CommandSpec
from taskfabric.domain.errors import BadInput, Refused
from taskfabric.domain.limit import LimitClass
from taskfabric.domain.outcome import Declined, Done, Failed, Parked, Waiting
from taskfabric.domain.principal import Trust
from taskfabric.ports.runtime import Result
from taskfabric.runtimes.command import CommandRuntime
from taskfabric.runtimes.isolation import Isolation, find
from tests.integration.running import Told, make_card, make_job, never

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
RESET = NOW + timedelta(hours=2)
CODER = Path(__file__).parents[1] / "fixtures" / "programs" / "coder"
OPEN = Isolation(word="not isolated", reason="the test wants it so")

Carry = Callable[..., Result]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def carry(workspace: Path, told: Told) -> Carry:
    """Run a program as a task, in the best confinement that this machine has."""

    def run(
        *argv: str,
        stopped: Callable[[], str | None] = never,
        isolation: Isolation | None = None,
        card: dict[str, Any] | None = None,
        job: dict[str, Any] | None = None,
        **spec: Any,
    ) -> Result:
        wanted = make_card(
            command=CommandSpec(argv=argv, paths=(str(CODER.parent),), **spec),
            **({"trust": Trust.TRUSTED} | (card or {})),
        )
        runtime = CommandRuntime(wanted, isolation=isolation, clock=lambda: NOW)
        return runtime.run(make_job(wanted, workspace, **(job or {})), told, stopped)

    return run


def sh(script: str) -> tuple[str, str, str]:
    return ("/bin/sh", "-c", script)


# ---------------------------------------------------------------- starting


def test_the_prompt_arrives_on_standard_input_and_the_output_is_the_note(carry: Carry, told: Told) -> None:
    result = carry("cat", job={"persona": "You are brief."})
    assert isinstance(result.outcome, Done)
    assert "You are brief." in result.outcome.note
    assert "# Task 12: Fix the parser" in result.outcome.note
    assert "It drops the date." in told.text()


def test_a_prompt_as_an_argument_is_never_a_shells_line(carry: Carry, workspace: Path) -> None:
    nasty = "$(touch owned); `touch owned` {workspace} {result} '\"\n;touch owned"
    result = carry("printf", "%s", "{prompt}", prompt="argument", job={"task": {"title": nasty}})
    assert isinstance(result.outcome, Done)
    assert nasty in result.outcome.note
    assert not (workspace / "owned").exists()


def test_the_environment_holds_what_the_card_grants_and_nothing_else(
    carry: Carry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRANTED", "yes")
    monkeypatch.setenv("FABRIC_TOKEN", "the worker's own")
    monkeypatch.setenv("SECRET", "no")
    result = carry("env", env=("GRANTED", "ABSENT"), job={"url": "http://127.0.0.1:8420", "run_token": "of the run"})
    assert isinstance(result.outcome, Done)
    names = {line.partition("=")[0] for line in result.outcome.note.splitlines()}
    assert names == {
        "PATH", "HOME", "LANG", "TERM", "TMPDIR", "GRANTED", "FABRIC_RESULT", "FABRIC_WORKSPACE", "FABRIC_TASK",
        "FABRIC_URL", "FABRIC_TOKEN", "FABRIC_RUN_MARK",
    }  # fmt: skip
    assert "FABRIC_TOKEN=of the run" in result.outcome.note


@pytest.mark.parametrize("name", ["FABRIC_TOKEN", "KANBOARD_TOKEN", "PGPASSWORD", "LD_PRELOAD"])
def test_a_card_cannot_grant_what_belongs_to_the_fabric(name: str) -> None:
    with pytest.raises(BadInput, match="cannot be granted"):
        CommandRuntime(make_card(command=CommandSpec(argv=("cat",), env=(name,))), isolation=OPEN)


def test_a_program_that_is_not_installed_is_said_before_any_task_is_claimed() -> None:
    with pytest.raises(BadInput, match="'no-such-program' is not here"):
        CommandRuntime(make_card(command=CommandSpec(argv=("no-such-program",)), trust=Trust.TRUSTED), isolation=OPEN)


def test_where_nothing_isolates_only_a_trusted_card_starts() -> None:
    """Invariant: the machine's owner is not every process."""
    spec = CommandSpec(argv=("cat",))
    CommandRuntime(make_card(command=spec, trust=Trust.TRUSTED), isolation=OPEN)
    with pytest.raises(Refused, match="would not be isolated"):
        CommandRuntime(make_card(command=spec, trust=Trust.SANDBOXED), isolation=OPEN)


def test_a_program_that_cannot_be_executed_fails_for_good(carry: Carry, workspace: Path) -> None:
    broken = workspace / "broken"
    broken.write_bytes(b"\x7fELF no program")
    broken.chmod(0o755)
    result = carry(str(broken))
    assert isinstance(result.outcome, Failed)
    assert "cannot be started" in result.outcome.error
    assert not result.outcome.retry


# ---------------------------------------------------------------- exit codes and the result file


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (7, Waiting(question="last words")),
        (75, Parked(until=NOW + timedelta(minutes=10), reason="last words")),
        (77, Declined(reason="last words")),
    ],
)
def test_an_exit_code_says_how_it_ended(carry: Carry, code: int, outcome: object) -> None:
    assert carry(str(CODER), "exit", str(code)).outcome == outcome


@pytest.mark.parametrize("code", [1, 137])
def test_the_last_words_of_a_failed_program_are_in_the_log_only(
    carry: Carry, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    """D4: they may be an exception's, with a password in it."""
    outcome = carry(str(CODER), "exit", str(code)).outcome
    assert isinstance(outcome, Failed)
    what, _, number = outcome.error.partition("; it is incident ")
    assert what == f"exit code {code}"
    assert any("last words" in line for line in caplog.messages if number in line)


def test_a_result_file_says_more_than_the_exit_code(carry: Carry) -> None:
    script = """echo text > report.md; echo '{"outcome": "done", "note": "See the report.", "verdict": "fail",
        "attachments": ["report.md"]}' > "$FABRIC_RESULT"; exit 3"""
    result = carry(*sh(script))
    assert result.outcome == Done(note="See the report.", verdict="fail")
    assert [path.name for path in result.attachments] == ["report.md"]
    assert result.attachments[0].read_text() == "text\n"


@pytest.mark.parametrize(
    ("shape", "outcome"),
    [
        ('{"outcome": "needs-input", "note": "Which one?"}', Waiting(question="Which one?")),
        ('{"outcome": "failed", "note": "No.", "retry": false}', Failed(error="No.", retry=False)),
        ('{"outcome": "refused", "note": "Not mine."}', Declined(reason="Not mine.")),
        (
            '{"outcome": "parked", "note": "Night.", "until": "2026-12-01T08:00:00+01:00"}',
            Parked(until=datetime(2026, 12, 1, 7, 0, tzinfo=UTC), reason="Night."),
        ),
    ],
)
def test_every_end_can_be_said_in_a_result_file(carry: Carry, shape: str, outcome: object) -> None:
    assert carry(*sh(f"echo '{shape}' > {{result}}")).outcome == outcome


def test_a_result_file_that_says_nothing_clear_is_a_clear_failure(carry: Carry) -> None:
    result = carry(*sh("""echo '{"outcome": "doen", "note": "x"}' > {result}"""))
    assert isinstance(result.outcome, Failed)
    assert "did you mean 'done'" in result.outcome.error


def test_an_attachment_through_a_link_is_refused(carry: Carry) -> None:
    script = """ln -s /etc/passwd report.md
        echo '{"outcome": "done", "note": "x", "attachments": ["report.md"]}' > {result}"""
    result = carry(*sh(script))
    assert isinstance(result.outcome, Failed)
    assert "no plain file below the workspace" in result.outcome.error


def test_a_program_that_says_nothing_has_not_done_it(carry: Carry) -> None:
    assert carry("true").outcome == Failed(error="the program ended well but said nothing")


# ---------------------------------------------------------------- the shapes of coding programs


def test_the_answer_and_the_usage_of_a_claude_are_read(carry: Carry) -> None:
    result = carry(str(CODER), "claude-json", shape="claude-json", provider="claude-cli")
    assert result.outcome == Done(note="Fixed the parser.")
    assert result.usage == {"input_tokens": 1200, "output_tokens": 340, "turns": 3}
    assert result.limit is None


def test_a_streaming_claude_is_watched_and_its_warning_is_heard(carry: Carry, told: Told) -> None:
    epoch = str(int(RESET.timestamp()))
    result = carry(str(CODER), "claude-stream", epoch, shape="claude-json", provider="claude-cli")
    assert result.outcome == Done(note="Fixed the parser.")
    assert told.text() == "Reading the parser.\n"
    assert result.limit is not None
    assert (result.limit.cls, result.limit.reset) == (LimitClass.WARNING, RESET)


@pytest.mark.parametrize(("kind", "window"), [("claude-limit", "five_hour"), ("claude-rejected", "weekly")])
def test_a_spent_subscription_parks_the_task_until_its_reset(carry: Carry, kind: str, window: str) -> None:
    result = carry(str(CODER), kind, str(int(RESET.timestamp())), shape="claude-json", provider="claude-cli")
    assert isinstance(result.outcome, Parked)
    assert result.outcome.until == RESET
    assert result.limit is not None
    assert (result.limit.cls, result.limit.window) == (LimitClass.EXHAUSTED, window)


def test_a_claude_that_quotes_the_words_of_a_limit_has_met_none(carry: Carry) -> None:
    result = carry(str(CODER), "claude-quotes", "1796040000", shape="claude-json", provider="claude-cli")
    assert isinstance(result.outcome, Done)
    assert result.limit is None


def test_a_limit_that_a_program_got_by_is_a_warning_and_its_result_counts(carry: Carry) -> None:
    result = carry(*sh("echo 'Weekly limit reached, going on with another model' >&2; echo sorted"), provider="x")
    assert result.outcome == Done(note="sorted")
    assert result.limit is not None
    assert result.limit.cls is LimitClass.WARNING


def test_what_a_failed_program_prints_last_may_be_its_limit(carry: Carry) -> None:
    script = """echo '{"role":"assistant","content":"Claude usage limit reached|1796050000"}'
        echo "You've hit your usage limit. Try again in 3 hours."; exit 1"""
    result = carry(*sh(script), shape="kimi-json", provider="codex")
    assert result.limit is not None
    assert result.limit.reset == NOW + timedelta(hours=3)


def test_a_claude_that_gave_up_has_failed(carry: Carry) -> None:
    result = carry(str(CODER), "claude-error", shape="claude-json", provider="claude-cli")
    assert result.outcome == Failed(error="exit code 1: error_max_turns")


def test_the_last_message_of_a_kimi_is_its_answer(carry: Carry, told: Told) -> None:
    result = carry(str(CODER), "kimi-stream", shape="kimi-json", provider="kimi")
    assert result.outcome == Done(note="All sorted.")
    assert told.text() == "Looking.\nAll sorted.\n"


def test_a_kimi_with_a_spent_plan_has_met_a_limit_of_unknown_end(carry: Carry) -> None:
    result = carry(str(CODER), "kimi-limit", shape="kimi-json", provider="kimi")
    assert isinstance(result.outcome, Parked)
    assert result.limit is not None
    assert (result.limit.cls, result.limit.reset) == (LimitClass.EXHAUSTED, None)


def test_a_kimi_in_a_burst_waits_for_seconds(carry: Carry) -> None:
    result = carry(str(CODER), "kimi-burst", shape="kimi-json", provider="kimi")
    assert isinstance(result.outcome, Parked)
    assert result.outcome.until == NOW + timedelta(seconds=7)
    assert result.limit is not None
    assert result.limit.cls is LimitClass.THROTTLE


@pytest.mark.parametrize("shape", ["claude-json", "kimi-json"])
def test_garbage_is_named_on_the_card_and_shown_in_the_log(
    carry: Carry, shape: str, caplog: pytest.LogCaptureFixture
) -> None:
    result = carry(str(CODER), "garbage", shape=shape)
    assert isinstance(result.outcome, Failed)
    assert result.outcome.error.startswith(f"its output is not {shape}; it is incident")
    assert "Segmentation" in caplog.text


@pytest.mark.parametrize("shape", ["claude-json", "kimi-json"])
def test_no_output_at_all_is_a_failure_in_every_shape(carry: Carry, shape: str) -> None:
    assert isinstance(carry(str(CODER), "nothing", shape=shape).outcome, Failed)


# ---------------------------------------------------------------- output without end, ends by force


def test_a_gigabyte_of_output_is_counted_and_not_kept(carry: Carry, told: Told) -> None:
    result = carry(*sh("yes 'on and on' | head -c 1073741824; echo the end"), output_cap=100_000)
    assert isinstance(result.outcome, Done)
    assert len(told.text()) <= 100_000
    assert len(result.outcome.note) < 1_000_000
    assert result.outcome.note.endswith("the end")
    assert "bytes are not kept" in result.outcome.note


@pytest.mark.parametrize("confined", [True, False], ids=["confined", "not confined"])
def test_whatever_a_run_started_ends_with_it(carry: Carry, told: Told, confined: bool) -> None:
    """A lease that is lost stops the run (G8), all of it."""
    mark = f"{os.getpid()}.{time.monotonic_ns() % 1_000_000_000:09}"
    script = f"""trap '' TERM; (setsid sh -c 'trap "" TERM; sleep 1{mark}; true' &) ; sleep 2{mark} & echo up; wait"""
    isolation = None if confined else OPEN
    stopped = lambda: "the lease is lost" if told.heard.is_set() else None  # noqa: E731
    result = carry(*sh(script), stopped=stopped, isolation=isolation)
    assert result.outcome == Failed(error="it was ended: the lease is lost")
    assert running(mark) == []


@pytest.mark.parametrize("confined", [True, False], ids=["confined", "not confined"])
def test_what_a_program_leaves_behind_ends_too(carry: Carry, confined: bool) -> None:
    mark = f"{os.getpid()}.{time.monotonic_ns() % 1_000_000_000:09}"
    result = carry(*sh(f"(setsid sleep 3{mark} &); echo done"), isolation=None if confined else OPEN)
    assert result.outcome == Done(note="done")
    assert running(mark) == []


def test_a_result_that_was_ready_counts_although_the_run_was_told_to_end(carry: Carry) -> None:
    result = carry("echo", "finished", stopped=lambda: None)
    assert result.outcome == Done(note="finished")


def running(mark: str) -> list[str]:
    """The command lines on this machine that hold the mark."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if mark in line and "pytest" not in line:
            found.append(line)
    return found


def test_this_machine_is_asked_once_what_it_allows() -> None:
    assert find() is find()
