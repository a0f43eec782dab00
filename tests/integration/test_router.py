"""Judging tasks by their meaning: the encoder and the semantic router as they are installed."""

from __future__ import annotations

import pytest

from taskfabric import assets
from taskfabric.domain.tier import TIERS
from taskfabric.router import meaning
from taskfabric.router.judge import Judge

pytestmark = [
    pytest.mark.skipif(not meaning.installed(), reason="needs the extra `router`"),
    # The libraries' own; they say nothing about us.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

# None of these is an example, and the calibration has not seen them.
FRESH = [
    ("Summarise chapter two", "small"),
    ("Translate the manual into Spanish", "small"),
    ("Make a to-do list from this mail", "small"),
    ("Räume diese Liste auf und sortiere sie", "small"),
    ("Write a thank-you note to the neighbours", "medium"),
    ("Draft a message to the tax office", "medium"),
    ("Explain compound interest", "medium"),
    ("Repair the broken CSV export", "medium"),
    ("Write a function that computes Easter", "medium"),
    ("When does the pharmacy close today", "medium"),
    ("Find reviews of the new phone", "medium"),
    ("Which animal is in the picture", "medium"),
    ("Work out which broadband contract is cheapest over three years", "large"),
    ("Plan the renovation of the kitchen with budget and schedule", "large"),
    ("Untersuche, warum der Umsatz gesunken ist", "large"),
    ("Rework the storage layer to support several back ends", "large"),
    ("Implement end-to-end encryption in the chat server", "large"),
]
NOTHING = ["Feed the cat", "later", "xyz", "Clean the windows", "Remember the thing", "ok", "Ring the doctor"]


@pytest.fixture(scope="module")
def judge() -> Judge:
    made = Judge(lambda: (assets.read_text("config/routes.toml"), "routes.toml"), threshold=0.45, encoder=True)
    assert made.loaded(120)
    return made


def test_what_is_sure_is_right_and_most_of_it_is_sure(judge: Judge) -> None:
    verdicts = [(text, tier, judge.judge(text)) for text, tier in FRESH]
    sure = [(text, tier, v.route.tier) for text, tier, v in verdicts if v.sure and v.route is not None]
    wrong = [one for one in sure if one[1] != one[2]]
    assert len(wrong) <= 1, wrong
    assert len(sure) >= len(FRESH) * 0.75
    assert {tier for _, _, tier in sure} == set(TIERS)


def test_what_is_no_task_for_an_agent_is_asked_about(judge: Judge) -> None:
    assert [text for text in NOTHING if judge.judge(text).sure] == []


def test_the_reason_names_the_confidence(judge: Judge) -> None:
    assert "by its meaning (confidence 0." in judge.judge("Translate the letter into Greek").why


def test_nothing_is_waited_for_while_it_loads() -> None:
    """A submit that comes first is judged by its words."""
    made = Judge(lambda: (assets.read_text("config/routes.toml"), "routes.toml"), threshold=0.45, encoder=True)
    first = made.judge("Fix the bug in the script")
    assert first.why.startswith(("by its words", "by its meaning"))
    assert made.loaded(120)
    assert made.judge("Fix the bug in the script").why.startswith("by its meaning")
