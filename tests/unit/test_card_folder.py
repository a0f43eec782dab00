"""Card files are read again when they change; a broken one never costs the card that was good."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskfabric import assets
from taskfabric.domain.card import CardKind
from taskfabric.domain.card_file import lint, lint_together
from taskfabric.stores.cards import CardFolder

GOOD = 'kind = "command"\ndescription = "{}"\n[command]\nargv = ["cat"]\n'


class Clock:
    """Goes on by two seconds at each look."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        self.at += 2
        return self.at


def put(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f".{name}.new"
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(folder / f"{name}.toml")


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    return tmp_path / "shipped"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return tmp_path / "home" / "cards"


@pytest.fixture
def folder(shipped: Path, own: Path) -> CardFolder:
    return CardFolder([shipped, own], clock=Clock())


def test_a_file_of_the_home_takes_the_place_of_a_shipped_one(folder: CardFolder, shipped: Path, own: Path) -> None:
    put(shipped, "a", GOOD.format("shipped"))
    put(shipped, "b", GOOD.format("shipped"))
    put(own, "a", GOOD.format("own"))
    put(own, "c", GOOD.format("own"))
    assert {n: c.description for n, c in folder.deck().cards.items()} == {"a": "own", "b": "shipped", "c": "own"}


def test_a_changed_file_is_read_anew_and_an_unchanged_folder_has_its_generation(folder: CardFolder, own: Path) -> None:
    put(own, "a", GOOD.format("one"))
    first = folder.deck()
    assert folder.deck() is first
    put(own, "a", GOOD.format("two"))
    second = folder.deck()
    assert second.cards["a"].description == "two"
    assert second.generation != first.generation


@pytest.mark.parametrize("text", ["kind =", 'kind = "comand"', "\x00", 'kind = "command"\n'])
def test_a_broken_file_is_reported_and_its_last_good_card_stays(folder: CardFolder, own: Path, text: str) -> None:
    put(own, "a", GOOD.format("good"))
    assert folder.deck().problems == {}
    put(own, "a", text)
    deck = folder.deck()
    assert deck.cards["a"].description == "good"
    assert "a" in deck.problems
    put(own, "a", GOOD.format("better"))
    deck = folder.deck()
    assert (deck.cards["a"].description, deck.problems) == ("better", {})


def test_a_broken_file_that_never_was_good_leaves_the_shipped_card(
    folder: CardFolder, shipped: Path, own: Path
) -> None:
    put(shipped, "a", GOOD.format("shipped"))
    put(own, "a", "nonsense")
    deck = folder.deck()
    assert deck.cards["a"].description == "shipped"
    assert "not TOML" in deck.problems["a"]


def test_a_removed_file_removes_its_card(folder: CardFolder, own: Path) -> None:
    put(own, "a", GOOD.format("x"))
    assert "a" in folder.deck().cards
    (own / "a.toml").unlink()
    assert folder.deck().cards == {}


def test_a_file_that_cannot_be_read_is_reported(folder: CardFolder, own: Path) -> None:
    own.mkdir(parents=True)
    (own / "a.toml").symlink_to(own / "nowhere")
    (own / "b.toml").mkdir()
    deck = folder.deck()
    assert deck.cards == {}
    assert "cannot be read" in deck.problems["b"]


def test_the_persona_of_the_home_goes_before_the_shipped_one(folder: CardFolder, shipped: Path, own: Path) -> None:
    put(own, "a", 'persona = "p"\n' + GOOD.format("x"))
    card = folder.deck().cards["a"]
    assert folder.persona(card) == ""
    for where, text in ((shipped, "shipped"), (own, "own")):
        (where / "personas" / "p").mkdir(parents=True)
        (where / "personas" / "p" / "SOUL.md").write_text(text)
        assert folder.persona(card) == text


def test_the_cards_that_ship_are_in_order_and_only_what_needs_nothing_is_on() -> None:
    folder = CardFolder([assets.path("cards")])
    deck = folder.deck()
    assert deck.problems == {}
    assert [(name, text) for name, card in deck.cards.items() for text in lint(card)] == []
    assert lint_together(deck.cards) == []
    assert {card.kind for card in deck.cards.values()} >= set(CardKind) - {CardKind.PYTHON}
    assert [name for name, card in deck.cards.items() if card.enabled] == ["local", "tiny"]
    assert all(folder.persona(card) for card in deck.cards.values() if card.persona)
