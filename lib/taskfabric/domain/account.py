"""The account that a quota belongs to: closed by a provider's limit for every card on it, and opened again.

A reset that the provider named opens it by itself, a little later. Where none was named it is tried after a quarter
of an hour, then after twice as long, at most an hour: one worker tries, all others wait for what it finds. A named one
that is an hour away or more is tried once half-way: providers restart windows early, and what they show drifts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, assert_never

from taskfabric.domain.availability import Part
from taskfabric.domain.limit import Confidence, Limit, LimitClass

JITTER: Final = (timedelta(seconds=30), timedelta(seconds=120))
FIRST_PROBE: Final = timedelta(minutes=15)
LONGEST_PROBE: Final = timedelta(minutes=60)
EARLY: Final = timedelta(hours=1)  # a known reset at least this far away is tried once before
PROBE_START: Final = timedelta(minutes=2)  # within which the chosen worker has to begin its run
PROBE_RUN: Final = timedelta(minutes=15)  # after which another may try, if nothing was heard of it
WARNING: Final = timedelta(minutes=30)
THROTTLE: Final = timedelta(seconds=20)
OVERLOAD: Final = timedelta(seconds=15)
LONGEST_OVERLOAD: Final = timedelta(minutes=10)
TELL_PROBES: Final = 6  # fruitless tries before a human is told
TELL_AFTER: Final = timedelta(days=8)  # a reset that far away is told at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What is known of an account."""

    name: str
    closed_until: datetime | None = None  # None = open
    closed_since: datetime | None = None
    known: bool = False  # the provider named the reset
    window: str = ""
    evidence: str = ""
    probes: int = 0
    prober: str = ""  # the worker that tries now
    probe_until: datetime | None = None
    warned_until: datetime | None = None
    overloads: int = 0  # in a row
    told: bool = False

    def closed(self, now: datetime) -> bool:
        """Nothing may start at ``now``, a try aside."""
        if self.closed_until is None:
            return False
        return now < self.closed_until or not self.known

    def part(self, now: datetime, *, who: str = "") -> Part:
        """The account's part in a(t), for the worker ``who``."""
        if not self.closed(now):
            return self._warned(now)
        assert self.closed_until is not None
        spent = (
            f"the {self.window} quota of account {self.name}" if self.window else f"the quota of account {self.name}"
        )
        if self._early(now) and who and self.may_probe(who, now):
            return self._warned(now)
        if now < self.closed_until:
            until = self.closed_until
            how = "is spent" if self.known else "is spent; its reset is not known, so it is tried again then"
        elif self.may_probe(who, now):
            return self._warned(now)
        else:
            assert self.probe_until is not None
            until, how = self.probe_until, "was spent; one worker tries whether it is back"
        return Part(
            name="account",
            open=False,
            until=until,
            reason=f"{spent} {how}",
            next="`fabric resume NAME --account` opens it now"
            + (f"; what was met: {self.evidence[:120]}" if self.evidence else ""),
        )

    def _warned(self, now: datetime) -> Part:
        if self.warned_until is None or now >= self.warned_until:
            return Part(name="account")
        reason = f"the provider warns that account {self.name} nears its limit"
        return Part(name="account", open=False, until=self.warned_until, reason=reason, background=True)

    def _early(self, now: datetime) -> bool:
        """Half of the way to a reset that the provider named, which nobody has tried yet."""
        since, until = self.closed_since, self.closed_until
        if not self.known or self.probes or since is None or until is None or until - since < EARLY:
            return False
        return since + (until - since) / 2 <= now < until

    def may_probe(self, who: str, now: datetime) -> bool:
        """True for the worker that tries, and for any while nobody does."""
        return self.probe_until is None or now >= self.probe_until or (bool(who) and who == self.prober)


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """What follows from a limit: the account after it, how long this worker keeps away, whether a human is to know."""

    account: Account
    until: datetime
    closes: bool
    tell: bool = False


def met(account: Account, limit: Limit, now: datetime, jitter: timedelta) -> Met:
    """A worker met this limit. ``jitter`` is between 30 and 120 seconds."""
    match limit.cls:
        case LimitClass.EXHAUSTED:
            return _exhausted(account, limit, now, jitter)
        case LimitClass.WARNING:
            until = limit.reset if limit.reset is not None and limit.reset > now else now + WARNING
            return Met(account=replace(account, warned_until=until), until=until, closes=False)
        case LimitClass.THROTTLE:
            rest = limit.reset if limit.reset is not None and limit.reset > now else now + THROTTLE
            return Met(account=account, until=rest, closes=False)
        case LimitClass.OVERLOAD | LimitClass.UNKNOWN:
            pause = min(LONGEST_OVERLOAD, OVERLOAD * 2 ** min(account.overloads, 10))
            known = limit.reset if limit.reset is not None and limit.reset > now else now
            after = replace(account, overloads=account.overloads + 1)
            return Met(account=after, until=max(now + pause, known), closes=False)
        case LimitClass.OK:
            return Met(account=account, until=now, closes=False)
        case _:
            assert_never(limit.cls)


def _exhausted(account: Account, limit: Limit, now: datetime, jitter: timedelta) -> Met:
    reset = None if limit.confidence is Confidence.UNKNOWN else limit.reopens
    known = reset is not None and reset > now
    still = account.closed_until is not None and now < account.closed_until
    if known:
        assert reset is not None
        until = reset + jitter
        if still and account.known and account.closed_until is not None:
            until = max(until, account.closed_until)  # two windows are spent: the later reset counts
        probes = account.probes if still and account.known else 0
    elif still:
        # Runs that were under way meet the same wall: that is no further try.
        assert account.closed_until is not None
        return Met(account=account, until=account.closed_until, closes=True)
    else:
        probes = account.probes + 1
        until = now + min(LONGEST_PROBE, FIRST_PROBE * 2 ** min(probes - 1, 10))
    since = account.closed_since if account.closed_until is not None and account.closed_since else now
    tell = not account.told and (probes >= TELL_PROBES or until - now > TELL_AFTER)
    after = replace(
        account,
        closed_until=until,
        closed_since=since,
        known=known,
        window=limit.window,
        evidence=limit.evidence[:200],
        probes=probes,
        prober="",
        probe_until=None,
        told=account.told or tell,
    )
    return Met(account=after, until=until, closes=True, tell=tell)


def begin_probe(account: Account, who: str, now: datetime) -> Account:
    """This worker tries next: it has two minutes to begin."""
    return replace(account, prober=who, probe_until=now + PROBE_START)


def start_run(account: Account, now: datetime) -> Account:
    """The worker that tries has begun its run; until something is heard of it everybody waits, itself included."""
    early = account.known and account.closed_until is not None and now < account.closed_until
    return replace(account, prober="", probe_until=now + PROBE_RUN, probes=account.probes + early)


def reopened(account: Account) -> Account:
    """The provider answered, or a human says so: nothing of the closing is left."""
    return Account(name=account.name, warned_until=account.warned_until)
