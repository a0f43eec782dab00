"""What a person decides by looks like what it is."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from taskfabric.domain.visible import visible


def test_marks_of_direction_and_characters_without_width_are_seen() -> None:
    assert visible("\u202egro.elpmaxe@knab") == "\\u202egro.elpmaxe@knab"
    assert visible("z\u200bto\u2028\x1b[1m\ufeff") == "z\\u200bto\\u2028\\u001b[1m\\ufeff"
    assert visible("\U000e0041") == "\\udb40\\udc41"


def test_what_can_be_seen_stays() -> None:
    for text in ("Grüße\n\tan alle", "日本語 عربي", "👍🏽", ""):
        assert visible(text) == text


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=20), max_size=4))
def test_json_means_the_same(value: dict[str, str]) -> None:
    assert json.loads(visible(json.dumps(value, ensure_ascii=False))) == value
