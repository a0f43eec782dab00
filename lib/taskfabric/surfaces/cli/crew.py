"""The workers that a supervisor keeps: one for each enabled agent card, as the files of the cards say just now.

Each gets a URL and a token of its own, kept in ``<home>/workers.json`` from one start to the next, and nothing of the
database. What a worker must not lose lies in ``<home>/workers/``.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from taskfabric import assets, wiring
from taskfabric.domain.card import CardKind
from taskfabric.domain.errors import FabricError
from taskfabric.settings import Settings
from taskfabric.stores.cards import CardFolder
from taskfabric.surfaces.cli.children import ChildSpec
from taskfabric.surfaces.cli.start import write_private
from taskfabric.surfaces.cli.where import WORKERS, read

log = logging.getLogger(__name__)

PREFIX: Final = "worker-"
_GRACE: Final = 5  # seconds for runs when everything stops; the supervisor waits for ten
_SERVER_ONLY: Final = (
    "DATABASE_URL",
    "FABRIC_BOARD",
    "FABRIC_CONFIG",
    "FABRIC_SERVER_PORT",
    "FABRIC_TOKEN",
    "KANBOARD_TOKEN",
)


class Crew:
    """``env`` is what other children find, ``url`` where the server answers from this machine."""

    def __init__(self, home: Path, settings: Settings, dsn: str, *, env: Mapping[str, str], url: str) -> None:
        self._home = home
        self._settings = settings
        self._dsn = dsn
        self._url = url
        self._env = {
            name: value
            for name, value in env.items()
            if name not in _SERVER_ONLY and not name.startswith("FABRIC_BOARD_")
        }
        self._cards = CardFolder([assets.root() / "cards", home / "cards"])
        self._seen = -1  # the generation of cards that the specs are of
        self._specs: list[ChildSpec] = []

    def specs(self) -> list[ChildSpec]:
        """A worker for each enabled card. What cannot be had now is tried again at the next look."""
        deck = self._cards.deck()
        if deck.generation == self._seen:
            return self._specs
        names = [card.name for card in deck.cards.values() if card.enabled and card.kind is not CardKind.HUMAN]
        known = {spec.name for spec in self._specs}
        if {PREFIX + name for name in names} != known:
            try:
                tokens = self._tokens(names)
            except FabricError as error:
                log.warning("workers not changed reason=%s", error.message)
                return self._specs
            self._specs = [self._spec(name, token) for name, token in tokens.items()]
        self._seen = deck.generation
        return self._specs

    def _spec(self, name: str, token: str) -> ChildSpec:
        own = {"FABRIC_URL": self._url, "FABRIC_TOKEN": token, "FABRIC_WORKERS": str(self._home / "workers")}
        return ChildSpec(
            name=PREFIX + name,
            module="workers.main",
            arguments=(name, "--leash", f"--grace={_GRACE}"),
            env={**self._env, **own},
        )

    def _tokens(self, names: list[str]) -> dict[str, str]:
        """The agents exist and each has a token; those that cannot be had are left out, and said so."""
        kept = read(self._home / WORKERS) or {}
        tokens: dict[str, str] = {}
        with contextlib.closing(wiring.build(self._settings, self._dsn, home=self._home, name="crew")) as house:
            problems = wiring.sync_cards(house)
            for name in names:
                if name in problems:
                    continue
                try:
                    tokens[name] = wiring.worker_token(house, name, str(kept.get(name, "")))
                except FabricError as error:
                    log.warning("no worker for card=%s reason=%s", name, error.message)
        write_private(self._home / WORKERS, {**kept, **tokens})
        return tokens
