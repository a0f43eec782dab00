"""The tiny offline model: takes a real task with no account and no network, or says how to switch it on."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from taskfabric.domain.card import CardKind, ModelSpec
from taskfabric.domain.errors import BadInput, Unavailable
from taskfabric.domain.outcome import Done, Parked
from taskfabric.runtimes import make, tiny
from taskfabric.runtimes.model import ModelRuntime
from tests.integration.running import Told, make_card, make_job, never

SPEC = ModelSpec(model="tiny/smollm2", context_chars=2000, max_tokens=24, temperature=0.0)


@pytest.mark.skipif(bool(tiny.missing()), reason="needs the packages of the tiny model")
def test_a_task_is_carried_out_offline(tmp_path: Path) -> None:
    card = make_card(kind=CardKind.MODEL, model=SPEC)
    told = Told()
    job = make_job(card, tmp_path, task={"title": "Write one sentence about a garden.", "description": ""})
    result = ModelRuntime(card).run(job, told, never)
    assert isinstance(result.outcome, Done), result
    assert result.outcome.note
    assert told.text().strip()
    assert result.usage["output_tokens"] > 0
    tiny.stop()


def test_without_its_packages_it_says_how_to_switch_it_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "xllamacpp" else there(name))
    assert "pip install" in tiny.missing()
    card = make_card(kind=CardKind.MODEL, model=SPEC)
    outcome = ModelRuntime(card).run(make_job(card, tmp_path), Told(), never).outcome
    assert isinstance(outcome, Parked)
    assert "xllamacpp is not installed" in outcome.reason
    with pytest.raises(BadInput, match="switch it on with: pip install"):  # a worker then is a closed agent
        make(card)


def test_another_tiny_model_is_not_made_up() -> None:
    with pytest.raises(Unavailable, match="there is no tiny model"):
        tiny.start("tiny/other")
