"""Who acts, and who may decide."""

from __future__ import annotations

from itertools import product

import pytest

from taskfabric.domain.principal import Caller, Kind, Principal, RunRef, Trust, Via, Viewer


def principal(kind: Kind = Kind.HUMAN) -> Principal:
    return Principal(id=7, name="sam", kind=kind, trust=Trust.HUMAN)


def test_trust_is_ordered_from_untrusted_to_human() -> None:
    assert Trust.UNTRUSTED < Trust.SANDBOXED < Trust.TRUSTED < Trust.HUMAN
    assert all(Trust.of(trust.word) is trust for trust in Trust)


@pytest.mark.parametrize("word", ["", "friend", "human "])
def test_another_word_is_no_trust_class(word: str) -> None:
    with pytest.raises(KeyError):
        Trust.of(word)


def test_only_a_proven_human_outside_any_run_may_decide() -> None:
    """Invariants 4 and 5, G10: neither a token, nor the file on the owner's machine, nor the fabric decides."""
    for kind, via, run in product(Kind, Via, (None, RunRef(task_id=12, epoch=3))):
        decides = Caller(principal=principal(kind), via=via, run=run).may_decide
        assert decides == (kind is Kind.HUMAN and via in (Via.SESSION, Via.PIN) and run is None)


def test_a_stamp_says_who_did_it_through_which_door_and_in_which_run() -> None:
    run = RunRef(task_id=12, epoch=3)
    stamp = Caller(principal=principal(), via=Via.TOKEN, run=run, instance="sam@box").stamp()
    assert (stamp.principal_id, stamp.name, stamp.via, stamp.run) == (7, "sam", Via.TOKEN, run)
    assert stamp.instance == "sam@box"


def test_a_tokens_scope_limits_what_its_bearer_sees() -> None:
    """G13"""
    scope = frozenset({3})
    assert Viewer.of(Caller(principal=principal(), via=Via.TOKEN, queues=scope)).queues == scope
