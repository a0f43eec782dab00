"""Signals are acted on where locks may be taken."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from taskfabric.signals import heard

_PATIENCE = 20.0  # seconds before a test gives up; nothing here takes that long


def test_a_signal_may_set_the_event_that_the_main_thread_is_just_handling() -> None:
    event = threading.Event()
    with heard((signal.SIGUSR1,), lambda _: event.set()):
        with event._cond:  # type: ignore[attr-defined]  # as inside wait, set and clear
            os.kill(os.getpid(), signal.SIGUSR1)
            assert threading.current_thread() is threading.main_thread()
        assert event.wait(_PATIENCE)


def test_all_that_arrived_is_acted_on_and_then_everything_is_as_before() -> None:
    before = signal.getsignal(signal.SIGUSR1), signal.getsignal(signal.SIGUSR2)
    heard_of: list[int] = []
    with heard((signal.SIGUSR1, signal.SIGUSR2), heard_of.append):
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1):
            os.kill(os.getpid(), number)
    assert heard_of == [signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1]
    assert (signal.getsignal(signal.SIGUSR1), signal.getsignal(signal.SIGUSR2)) == before
    assert signal.set_wakeup_fd(-1) == -1


def test_signals_of_others_are_left_to_them() -> None:
    heard_of: list[int] = []
    theirs: list[int] = []
    before = signal.signal(signal.SIGUSR2, lambda number, _: theirs.append(number))
    try:
        with heard((signal.SIGUSR1,), heard_of.append):
            os.kill(os.getpid(), signal.SIGUSR2)
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert (heard_of, theirs) == ([], [signal.SIGUSR2])


@pytest.mark.parametrize("failure", [KeyError, KeyboardInterrupt])
def test_an_error_inside_ends_the_hearing(failure: type[BaseException]) -> None:
    with pytest.raises(failure), heard((signal.SIGUSR1,), lambda _: None):
        raise failure
    assert not [thread for thread in threading.enumerate() if thread.name == "signals"]
