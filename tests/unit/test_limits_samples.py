"""Every recorded message of a provider comes out with its class, window, reset and confidence."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from taskfabric.runtimes.limits import Channel, Signal, classify

SAMPLES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "fixtures" / "quota_samples.json").read_text("utf-8")
)


@pytest.mark.parametrize("sample", SAMPLES, ids=[f"{s['provider']}: {s['name']}" for s in SAMPLES])
def test_a_recorded_message_is_classified_as_expected(sample: dict[str, Any]) -> None:
    signal = Signal(
        provider=sample["provider"],
        channel=Channel(sample["channel"]),
        status=sample["status"],
        headers=sample["headers"],
        text=sample["text"],
        failed=sample["status"] is None,
    )
    expected = sample["expected"]
    limit = classify(signal, now=datetime.fromisoformat(sample["now"]), host=ZoneInfo(sample["host"]))
    assert limit.cls.value == expected["cls"]
    assert limit.window == expected["window"]
    assert limit.reset == (datetime.fromisoformat(expected["reset"]) if expected["reset"] else None)
    assert limit.confidence.value == expected["confidence"]
