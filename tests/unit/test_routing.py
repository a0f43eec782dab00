"""What ``auto`` decides without an encoder, and how that fits the agents that there are."""

from __future__ import annotations

import re

import pytest

from taskfabric import assets
from taskfabric.domain.errors import BadInput
from taskfabric.domain.routing import Offer, Route, Verdict, by_words, fitted, matters, rating, told
from taskfabric.router.judge import Judge
from taskfabric.router.routes import read

ROUTES = (
    Route(name="errand", tier="small", needs=("text",), words=("translat*", "summar*", "list")),
    Route(name="fix", tier="medium", needs=("code",), words=("bug", "fix", "script")),
    Route(name="build", tier="large", needs=("code",), words=("refactor*", "architecture")),
)
SMALL = Offer(tiers=("small",), capabilities=("text",))
CODER = Offer(tiers=("medium", "large"), capabilities=("code", "text"))


@pytest.mark.parametrize(
    ("text", "name"),
    [("Translate the letter", "errand"), ("FIX the bug in the script", "fix"), ("Refactoring of the core", "build")],
)
def test_a_text_is_what_most_of_its_words_say(text: str, name: str) -> None:
    verdict = by_words(text, ROUTES)
    assert verdict.sure
    assert verdict.route is not None
    assert verdict.route.name == name


@pytest.mark.parametrize("text", ["Water the tomatoes", "", "Translate the bug", "???"])
def test_words_that_say_nothing_or_two_things_are_not_sure(text: str) -> None:
    assert not by_words(text, ROUTES).sure


def test_a_very_long_text_is_large() -> None:
    verdict = by_words("so it goes on " * 400, ROUTES)
    assert verdict.sure
    assert verdict.route is not None
    assert verdict.route.tier == "large"


def test_where_all_agents_take_the_same_nothing_is_decided() -> None:
    assert not matters([])
    assert not matters([SMALL, SMALL])
    assert matters([SMALL, CODER])


def test_a_tier_that_nobody_takes_moves_to_the_nearest_and_says_so() -> None:
    choice = fitted(ROUTES[2], [SMALL])
    assert (choice.tier, choice.needs) == ("small", ())
    assert choice.notes == ("no agent here takes large", "no agent of that tier offers code")
    assert fitted(ROUTES[0], [CODER]).tier == "medium"


def test_what_the_submitter_said_stands_whatever_anybody_offers() -> None:
    choice = fitted(ROUTES[0], [SMALL], tier="large", asked=("vision",))
    assert (choice.tier, choice.needs) == ("large", ("vision",))


def test_an_agent_without_limits_takes_everything() -> None:
    assert fitted(ROUTES[2], [Offer(tiers=None, capabilities=None)]).needs == ("code",)


def test_the_card_says_what_was_decided_and_why() -> None:
    verdict = Verdict(route=ROUTES[1], sure=True, why="by its words (bug, fix)")
    said = told(fitted(ROUTES[1], [CODER]), verdict, sure=True)
    assert said == "auto: medium, needs code, by its words (bug, fix); it is like 'fix'"


@pytest.mark.parametrize(("answer", "tier"), [("large", "large"), ("Medium, I think.", "medium"), ("no idea", None)])
def test_an_answer_names_a_tier_or_none(answer: str, tier: str | None) -> None:
    assert rating(answer) == tier


# ---------------------------------------------------------------- routes.toml


def test_the_routes_that_ship_are_sound() -> None:
    found = read(assets.read_text("config/routes.toml"), "routes.toml")
    assert {route.tier for route in found.routes} == {"small", "medium", "large"}
    assert all(route.words and len(route.examples) >= 9 for route in found.routes)
    examples = {example for route in found.routes for example in route.examples}
    assert not examples & {text for text, _ in found.known}, "an example would vouch for itself"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[routes", "not valid TOML"),
        ("", "has no \\[routes.NAME\\]"),
        ("[route.a]\ntier = 'small'", "did you mean 'routes'"),
        ("[routes.a]\ntear = 'small'\nexamples = ['x']", "did you mean 'tier'"),
        ("[routes.a]\ntier = 'huge'\nexamples = ['x']", "'huge' is not a tier"),
        ("[routes.a]\ntier = 'small'", "needs examples"),
        ("[routes.a]\ntier = 'small'\nexamples = ['x']\n[calibration]\nb = ['y']", "has no 'b'"),
        ("[routes.a]\ntier = 'small'\nexamples = [1]", "a list of texts"),
    ],
)
def test_a_wrong_routes_file_says_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        read(text, "routes.toml")
    assert re.search(said, f"{caught.value.message}; {caught.value.next}")


def test_with_a_wrong_file_nothing_is_sure_and_the_card_says_why() -> None:
    verdict = Judge(lambda: ("[routes", "routes.toml"), threshold=0.5, encoder=True).judge("Fix the bug")
    assert not verdict.sure
    assert "not valid TOML" in verdict.why


def test_the_doctor_is_told_how_texts_are_judged() -> None:
    assert not Judge(lambda: ("[routes", "routes.toml"), threshold=0.5, encoder=True).state()[0]
    shipped = assets.read_text("config/routes.toml")
    assert Judge(lambda: (shipped, "routes.toml"), threshold=0.5, encoder=False).state() == (
        True,
        "tasks for `auto` are judged by their words; router.encoder is off",
        "",
    )


def test_without_an_encoder_the_words_decide() -> None:
    judge = Judge(lambda: (assets.read_text("config/routes.toml"), "routes.toml"), threshold=0.5, encoder=False)
    assert not judge.loaded(0)
    verdict = judge.judge("Refactor the architecture of the scheduler")
    assert verdict.sure
    assert verdict.route is not None
    assert verdict.route.tier == "large"
