"""The level of an action, computed by the host: from the action, the recipient, the amount, the label, and whether it
can be undone. A request may raise it and nothing lowers it.

``read_policy`` reads ``policy.toml`` strictly; everything that is wrong with it is told at once.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from taskfabric.domain.approval import Level, matches
from taskfabric.domain.card_values import Table
from taskfabric.domain.errors import BadInput

ACTION: Final = re.compile(r"[a-z0-9][a-z0-9_-]*(\.[a-z0-9][a-z0-9_-]*)*")
_PATTERN: Final = re.compile(rf"\*|{ACTION.pattern}(\.\*)?")
_RECIPIENT: Final = frozenset(
    {"to", "cc", "bcc", "recipient", "recipients", "channel", "channels", "address", "addresses", "email", "emails"}
)
_AMOUNT: Final = frozenset({"amount", "amounts", "price", "total", "sum", "cost"})


class ActionKind(StrEnum):
    """What an action does, which bounds its level."""

    READ = "read"
    WRITE = "write"  # can be undone
    SEND = "send"  # leaves the house
    FINAL = "final"  # cannot be undone
    SECURE = "secure"


LEAST: Final[Mapping[ActionKind, Level]] = {
    ActionKind.READ: Level.AUTO,
    ActionKind.WRITE: Level.AUTO,
    ActionKind.SEND: Level.LOGGED,
    ActionKind.FINAL: Level.CONFIRM,
    ActionKind.SECURE: Level.CONFIRM,
}
MOST: Final[Mapping[ActionKind, Level]] = {kind: Level.SECURE for kind in ActionKind} | {ActionKind.READ: Level.AUTO}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of the policy."""

    pattern: str
    kind: ActionKind
    level: Level


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionPolicy:
    """A policy file."""

    rules: tuple[Rule, ...]
    confirm_expires: timedelta = timedelta(days=2)
    secure_expires: timedelta = timedelta(days=1)
    grant_lasts: timedelta = timedelta(days=30)
    household: tuple[str, ...] = ()
    amount_secure: float = 50.0
    private_secure: bool = True

    def rule_for(self, action: str) -> Rule:
        """The most specific rule; a policy always has one for ``*``."""
        fits = [rule for rule in self.rules if matches(rule.pattern, action)]
        return max(fits, key=lambda rule: (not rule.pattern.endswith("*"), len(rule.pattern)))

    def level_of(self, action: str, *, recipient: str | None, amount: float | None, label: str) -> Level:
        """What the house asks for."""
        rule = self.rule_for(action)
        if rule.kind is ActionKind.READ:  # whatever its arguments say: reading is never above auto
            return rule.level
        level = rule.level
        if amount is not None and amount > self.amount_secure:
            level = Level.SECURE
        if self.private_secure and label == "private" and recipient is not None:
            level = Level.SECURE
        return level

    def expires(self, level: Level) -> timedelta:
        return self.secure_expires if level is Level.SECURE else self.confirm_expires


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the host reads out of the arguments by itself."""

    recipient: str | None = field(default=None)
    amount: float | None = field(default=None)


def facts_of(args: Mapping[str, Any]) -> Facts:
    """Recipient and amount, wherever in the arguments, in whatever case, something is usually named so. Several
    recipients are one text; of several amounts under one name the sum counts, and of several names the largest.

    An amount that is no plain number counts as more than any bound: what cannot be judged is not let through."""
    recipients: set[str] = set()
    amounts: dict[str, float] = {}
    for name, value in _named(args):
        if name in _RECIPIENT:
            recipients |= {str(leaf).strip() for leaf in _leaves(value)}
        elif name in _AMOUNT and (leaves := list(_leaves(value))):
            amounts[name] = amounts.get(name, 0.0) + _amount(leaves)
    return Facts(recipient=", ".join(sorted(recipients - {""})) or None, amount=max(amounts.values(), default=None))


def _named(value: object) -> Iterator[tuple[str, object]]:
    """Everything that has a name, at any depth; the name in lower case."""
    match value:
        case Mapping():
            for name, inner in value.items():
                yield str(name).lower(), inner
                yield from _named(inner)
        case list() | tuple():
            for inner in value:
                yield from _named(inner)


def _leaves(value: object) -> Iterator[object]:
    """What is no list and no object, at any depth."""
    match value:
        case Mapping():
            for inner in value.values():
                yield from _leaves(inner)
        case list() | tuple():
            for inner in value:
                yield from _leaves(inner)
        case None:
            return
        case _:
            yield value


def _amount(leaves: list[object]) -> float:
    """What these come to; a word beside numbers is their currency."""
    numbers = [_number(leaf) for leaf in leaves if not (isinstance(leaf, str) and leaf.strip().isalpha())]
    return sum(abs(number) for number in numbers) if numbers else math.inf


def _number(value: object) -> float:
    """The number that it says; what says none, and what is none that one can count with, is endless."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.inf
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return math.inf
    return found if math.isfinite(found) else math.inf


def checked_action(word: str) -> str:
    """An action's name, such as ``mail.send``. Raises BadInput."""
    if not ACTION.fullmatch(word) or len(word) > 100:
        raise BadInput(
            f"{word[:40]!r} is no action",
            next="write words of a-z, 0-9, '-' and '_' with dots between them: mail.send",
            field="action",
        )
    return word


def checked_pattern(word: str) -> str:
    """An action's name, or a family such as ``mail.*``. Raises BadInput."""
    if not _PATTERN.fullmatch(word) or len(word) > 100:
        raise BadInput(
            f"{word[:40]!r} means no action", next="write mail.send, or mail.* for all below", field="action"
        )
    return word


def example_of(pattern: str) -> str:
    """An action that this pattern means."""
    return "x" if pattern == "*" else pattern.replace("*", "x")


def read_policy(text: str, source: str) -> ActionPolicy:
    """The policy that this text is. Raises BadInput with everything that is wrong, one point a line."""
    try:
        shape = tomllib.loads(text)
    except ValueError as cause:
        raise BadInput(f"{source} is not valid TOML: {cause}", source=source) from cause
    plain = ActionPolicy(rules=())
    top = Table(shape, "")
    rules = _rules(top)
    made = ActionPolicy(
        rules=rules,
        confirm_expires=top.length("confirm_expires", plain.confirm_expires, least=timedelta(minutes=1)),
        secure_expires=top.length("secure_expires", plain.secure_expires, least=timedelta(minutes=1)),
        grant_lasts=top.length("grant_lasts", plain.grant_lasts, least=timedelta(minutes=1)),
        household=top.words("household", ()),
        amount_secure=top.number("amount_secure", least=0, most=1e12, default=plain.amount_secure),
        private_secure=top.flag("private_secure", True),
    )
    top.unknown()
    if not any(rule.pattern == "*" for rule in rules):
        top.wrong("actions", 'has no rule "*" for everything else')
    if top.problems:
        raise BadInput(f"{source}: " + "\n".join(top.problems), source=source)
    return made


def _rules(top: Table) -> tuple[Rule, ...]:
    actions = top.table("actions")
    if actions is None:
        return ()
    rules: list[Rule] = []
    for pattern in actions.names():
        table = actions.table(pattern)
        if not _PATTERN.fullmatch(pattern):
            actions.wrong(pattern[:60], "is no pattern such as mail.send, mail.* or *")
        if table is None:
            continue
        kind = ActionKind(table.one_of("kind", list(ActionKind), default="send", required=True) or "send")
        level = Level.of(
            table.one_of("level", [lv.word for lv in Level], default="confirm", required=True) or "confirm"
        )
        if not LEAST[kind] <= level <= MOST[kind]:
            table.wrong("level", f"is {level.word}; kind {kind.value} has {_bounds(kind)}")
        table.unknown()
        rules.append(Rule(pattern=pattern, kind=kind, level=level))
    return tuple(rules)


def _bounds(kind: ActionKind) -> str:
    least, most = LEAST[kind], MOST[kind]
    return least.word if least is most else f"{least.word} to {most.word}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Two policies at once: what the stricter of them asks for."""

    now: ActionPolicy  # the file as it is
    accepted: ActionPolicy  # the file as an administrator last accepted it

    def level_of(self, action: str, *, recipient: str | None, amount: float | None, label: str) -> Level:
        return max(
            policy.level_of(action, recipient=recipient, amount=amount, label=label)
            for policy in (self.now, self.accepted)
        )

    def expires(self, level: Level) -> timedelta:
        return min(self.now.expires(level), self.accepted.expires(level))

    @property
    def grant_lasts(self) -> timedelta:
        return min(self.now.grant_lasts, self.accepted.grant_lasts)

    @property
    def household(self) -> tuple[str, ...]:
        """To whom requests go on. Whom a file adds is nobody until it is accepted: he would see what is another's."""
        return tuple(name for name in self.now.household if name in self.accepted.household)
