"""References to tasks, fences, and how often a lease is renewed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskfabric.domain.errors import BadInput
from taskfabric.domain.lease import Fence, TaskRef, renew_every

ids = st.integers(1, 10**18 - 1)
epochs = st.integers(0, 10**18 - 1)


@given(task=ids, epoch=st.none() | epochs)
def test_a_reference_is_read_back_as_it_was_written(task: int, epoch: int | None) -> None:
    ref = TaskRef(id=task, epoch=epoch)
    assert TaskRef.parse(str(ref)) == ref


@pytest.mark.parametrize("text", ["12", "#12", " 12 ", 12])
def test_a_task_is_written_with_or_without_the_hash(text: str | int) -> None:
    assert TaskRef.parse(text) == TaskRef(id=12)


def test_the_epoch_of_a_lease_follows_the_at() -> None:
    assert TaskRef.parse("#12@3") == TaskRef(id=12, epoch=3)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "#",
        "0",
        "-1",
        "012",
        "1.0",
        "12@",
        "@3",
        "12@-1",
        "12@3@4",
        "twelve",
        "##12",
        "12 13",
        "\u0661\u0662",
        "12\x00",
        "\ud800",
        "9" * 19,
        "9" * 10_000,
        "1e3",
        "0x12",
    ],
)
def test_anything_else_is_not_a_task(text: str) -> None:
    with pytest.raises(BadInput, match="is not a task") as caught:
        TaskRef.parse(text)
    assert len(caught.value.message) < 300


@given(text=st.text() | st.integers())
def test_any_text_is_a_task_or_bad_input(text: str | int) -> None:
    try:
        ref = TaskRef.parse(text)
    except BadInput:
        return
    assert 0 < ref.id < 2**63


@given(task=ids, epoch=epochs, token=st.integers(0, 2**64 - 1))
def test_a_fence_is_read_back_from_its_token(task: int, epoch: int, token: int) -> None:
    """G2: a token is 64 bits, and none of them is lost on the way."""
    fence = Fence(task_id=task, epoch=epoch, token=token)
    assert len(fence.hex) == 16
    assert Fence.parse(task, epoch, fence.hex) == fence


@pytest.mark.parametrize("token", ["", "0", "g" * 16, "A" * 16, "0" * 15, "0" * 17, "0" * 16 + "\n", "\u0660" * 16])
def test_a_token_that_was_not_drawn_is_refused(token: str) -> None:
    with pytest.raises(BadInput, match="16 hexadecimal digits"):
        Fence.parse(12, 3, token)


def test_a_fence_shows_the_lease_but_not_its_token() -> None:
    """What is printed can be read by anybody, and must not let him write."""
    assert str(Fence(task_id=12, epoch=3, token=2**64 - 1)) == "12@3"


@given(lease=st.timedeltas(timedelta(seconds=1), timedelta(days=1)))
def test_two_renewals_may_fail_before_a_lease_is_lost(lease: timedelta) -> None:
    """G8"""
    assert renew_every(lease) * 2 < lease
