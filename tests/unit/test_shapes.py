"""The shapes in which coding programs print: read from whole, streamed, broken and foreign output."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskfabric.runtimes.shapes import Said, read, spoken

RESULT = {"type": "result", "subtype": "success", "is_error": False, "result": "Done so."}


def test_text_is_its_own_answer() -> None:
    assert read("text", "  hello\n") == Said(answer="hello")


@pytest.mark.parametrize(
    "output",
    [
        json.dumps(RESULT),
        json.dumps(RESULT, indent=2),
        json.dumps([{"type": "system"}, RESULT]),
        f"a warning first\n{json.dumps({'type': 'system'})}\n{json.dumps(RESULT)}\n",
    ],
    ids=["one line", "indented", "array", "stream"],
)
def test_the_result_of_a_claude_is_found_in_each_of_its_formats(output: str) -> None:
    assert read("claude-json", output).answer == "Done so."


def test_the_last_of_several_results_counts() -> None:
    later = RESULT | {"result": "And this."}
    assert read("claude-json", f"{json.dumps(RESULT)}\n{json.dumps(later)}").answer == "And this."


def test_an_error_of_a_kimi_is_an_error() -> None:
    said = read("kimi-json", '{"error": {"type": "rate_limit_reached_error", "message": "slow down"}}')
    assert "rate_limit_reached_error" in said.error


def test_thinking_and_tools_are_not_shown_to_a_watcher() -> None:
    assert spoken("claude-json", '{"type":"assistant","message":{"content":[{"type":"tool_use"}]}}\n') == ""
    assert spoken("kimi-json", '{"role":"tool","content":"secret"}\n') == ""
    assert spoken("kimi-json", '{"role":"assistant","content":"Hello."}\n') == "Hello.\n"
    assert spoken("kimi-json", "a plain line\n") == "a plain line\n"


@given(st.sampled_from(["text", "claude-json", "kimi-json"]), st.text(max_size=300))
def test_no_output_whatsoever_makes_it_fall(shape: str, output: str) -> None:
    read(shape, output)
    spoken(shape, output)


@given(
    st.sampled_from(["claude-json", "kimi-json"]),
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "role", "content", "message", "result", "usage", "error", "errors", "is_error", "text",
                 "rate_limit_info", "num_turns", "subtype"]
            ),
            inner | st.sampled_from(["result", "assistant", "rate_limit_event", "text"]),
            max_size=5,
        ),
        max_leaves=12,
    ),
)  # fmt: skip
def test_no_json_whatsoever_makes_it_fall(shape: str, message: object) -> None:
    read(shape, json.dumps(message))
    spoken(shape, json.dumps(message))
