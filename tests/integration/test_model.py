"""The model runtime against an endpoint on this machine: through LiteLLM, as it is used."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from taskfabric.domain.card import AgentCard, CardKind, Cost, ModelSpec
from taskfabric.domain.errors import Refused
from taskfabric.domain.limit import LimitClass
from taskfabric.domain.outcome import Done, Failed, Parked
from taskfabric.ports.runtime import Material, Result
from taskfabric.runtimes.model import ModelRuntime
from tests.integration.endpoint import Script, endpoint
from tests.integration.running import Told, make_card, make_job, never

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="needs the extra `models`"),
    # LiteLLM's and its libraries' own; they say nothing about us.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def model_card(url: str, **spec: Any) -> AgentCard:
    return make_card(kind=CardKind.MODEL, model=ModelSpec(model="openai/tester", endpoint=url, **spec))


def carry(
    url: str, workspace: Path, told: Told | None = None, *, job: dict[str, Any] | None = None, **spec: Any
) -> Result:
    card = model_card(url, **spec)
    runtime = ModelRuntime(card, clock=lambda: NOW)
    return runtime.run(make_job(card, workspace, **(job or {})), told or Told(), never)


def test_an_answer_is_streamed_counted_and_the_note(tmp_path: Path) -> None:
    script, told = Script(), Told()
    with endpoint(script) as url:
        result = carry(url, tmp_path, told, job={"persona": "You are brief."}, temperature=0.2, max_tokens=99)
    assert result.outcome == Done(note="Fixed the parser.")
    assert [text for _, text in told.chunks] == ["Fixed ", "the parser."]
    assert result.usage == {"input_tokens": 21, "output_tokens": 4}
    (asked,) = script.asked
    assert asked["model"] == "tester"
    assert (asked["max_tokens"], asked["temperature"], asked["stream"]) == (99, 0.2, True)
    system, user = asked["messages"]
    assert system["role"] == "system"
    assert system["content"].startswith("You are brief.")
    assert "# Task 12: Fix the parser" in user["content"]


def test_materials_stand_in_the_prompt_and_a_cut_is_visible(tmp_path: Path) -> None:
    script = Script()
    materials = (
        Material(ref="file:a.md", text="short and whole"),
        Material(ref="file:b.md", text="x" * 50_000),
        Material(ref="file:c.md", error="no such file"),
    )
    with endpoint(script) as url:
        carry(url, tmp_path, job={"materials": materials}, context_chars=4000)
    said = script.asked[0]["messages"][1]["content"]
    assert "short and whole" in said
    assert "[cut: file:b.md has 50000 characters, not all fit here]" in said
    assert sum(len(message["content"]) for message in script.asked[0]["messages"]) <= 4000


def test_a_model_that_says_nothing_has_failed(tmp_path: Path) -> None:
    with endpoint(Script(pieces=())) as url:
        assert carry(url, tmp_path).outcome == Failed(error="the model said nothing")
    with endpoint(Script(pieces=("  ", "\n"))) as url:
        assert carry(url, tmp_path).outcome == Failed(error="the model said nothing")


def test_an_answer_that_met_its_own_bound_says_so(tmp_path: Path) -> None:
    with endpoint(Script(finish="length")) as url:
        outcome = carry(url, tmp_path, max_tokens=4).outcome
    assert isinstance(outcome, Done)
    assert "[cut: the model stopped at its limit of 4 tokens]" in outcome.note


def test_a_burst_gives_the_task_back_for_as_long_as_the_endpoint_asks(tmp_path: Path) -> None:
    script = Script(
        status=429,
        headers={"Retry-After": "37"},
        body={
            "error": {"message": "Rate limit reached for requests", "type": "requests", "code": "rate_limit_exceeded"}
        },
    )
    with endpoint(script) as url:
        result = carry(url, tmp_path)
    assert len(script.asked) == 1  # no blind retries
    assert isinstance(result.outcome, Parked)
    assert result.outcome.until == NOW + timedelta(seconds=37)
    assert result.limit is not None
    assert result.limit.cls is LimitClass.THROTTLE


@pytest.mark.parametrize(
    "script",
    [
        Script(
            status=429, body={"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
        ),
        Script(
            status=429, body={"error": "you (ada) have reached your session usage limit, upgrade for higher limits"}
        ),
        Script(status=403, body={"error": {"message": "x", "type": "access_terminated_error"}}),
        Script(
            status=429,
            headers={
                "anthropic-ratelimit-unified-status": "rejected",
                "anthropic-ratelimit-unified-reset": "1796040000",
            },
            body={"error": {"type": "rate_limit_error", "message": "This request would exceed your rate limit."}},
        ),
    ],
    ids=["openai", "ollama", "kimi", "anthropic"],
)
def test_a_spent_quota_is_told_apart_from_a_burst(tmp_path: Path, script: Script) -> None:
    with endpoint(script) as url:
        result = carry(url, tmp_path)
    assert isinstance(result.outcome, Parked), result
    assert result.limit is not None
    assert result.limit.cls is LimitClass.EXHAUSTED


def test_an_endpoint_in_trouble_gives_the_task_back(tmp_path: Path) -> None:
    with endpoint(Script(status=503, body={"error": {"message": "loading"}})) as url:
        result = carry(url, tmp_path)
    assert isinstance(result.outcome, Parked)
    assert result.limit is not None
    assert result.limit.cls is LimitClass.OVERLOAD


def test_an_endpoint_that_is_away_gives_the_task_back_and_is_named_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        result = carry(url, tmp_path)
    assert isinstance(result.outcome, Parked)
    assert "endpoint does not answer" in result.outcome.reason
    assert url in caplog.text
    assert result.limit is not None
    assert result.limit.cls is LimitClass.OVERLOAD


def test_a_refused_key_spends_no_attempt_and_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESTER_KEY", "abc")
    script = Script(status=401, body={"error": {"message": "Incorrect API key"}})
    with endpoint(script) as url:
        outcome = carry(url, tmp_path, key_env="TESTER_KEY").outcome
    assert script.keys == ["Bearer abc"]
    assert isinstance(outcome, Parked)
    assert "refuses TESTER_KEY" in outcome.reason


@pytest.mark.parametrize("status", [400, 401, 404, 418, 429, 500, 503])
def test_the_words_of_a_provider_are_in_the_log_only(
    tmp_path: Path, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """What comes to the card and to the roster is its kind, in our words."""
    caplog.set_level("INFO")
    said = {"error": {"message": "usage limit reached for dbpass=hunter2", "type": "hunter2"}}
    with endpoint(Script(status=status, body=said)) as url:
        result = carry(url, tmp_path)
    assert isinstance(result.outcome, Failed | Parked)
    assert "hunter2" not in repr(result)
    assert "hunter2" in caplog.text


def test_a_key_that_is_not_there_is_named(tmp_path: Path) -> None:
    outcome = carry("http://127.0.0.1:9/v1", tmp_path, key_env="NO_SUCH_KEY").outcome
    assert isinstance(outcome, Parked)
    assert "NO_SUCH_KEY is not set" in outcome.reason


def test_a_prompt_that_is_too_long_fails_for_good(tmp_path: Path) -> None:
    message = "This model's maximum context length is 10 tokens. However, your messages resulted in 20 tokens."
    script = Script(status=400, body={"error": {"message": message, "code": "context_length_exceeded"}})
    with endpoint(script) as url:
        outcome = carry(url, tmp_path).outcome
    assert isinstance(outcome, Failed)
    assert "context_chars" in outcome.error
    assert not outcome.retry


def test_a_run_that_must_end_does_not_wait_for_the_endpoint(tmp_path: Path) -> None:
    script, told = Script(hold=threading.Event()), Told()
    with endpoint(script) as url:
        card = model_card(url)
        stopped = lambda: "the lease is lost" if told.heard.is_set() else None  # noqa: E731
        outcome = ModelRuntime(card).run(make_job(card, tmp_path), told, stopped).outcome
    assert outcome == Failed(error="it was ended: the lease is lost")


def test_a_metered_model_is_off_unless_its_card_allows_it() -> None:
    spec = ModelSpec(model="openai/tester")
    with pytest.raises(Refused, match="costs money"):
        ModelRuntime(make_card(kind=CardKind.MODEL, model=spec, cost=Cost.METERED))
    ModelRuntime(make_card(kind=CardKind.MODEL, model=spec, cost=Cost.METERED, allow_metered=True))


def test_the_library_is_not_loaded_before_the_first_call() -> None:
    program = """
import sys
from taskfabric.domain.card import AgentCard, CardKind, ModelSpec
from taskfabric.runtimes.model import ModelRuntime
ModelRuntime(AgentCard(name="m", kind=CardKind.MODEL, model=ModelSpec(model="openai/x")))
assert not {"litellm", "httpx", "openai", "asyncio"} & set(sys.modules), set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
