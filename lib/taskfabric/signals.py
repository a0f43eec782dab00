"""Signals, acted on by a thread of their own.

Python runs a signal's handler inside whatever its main thread is doing. If that is an ``Event.wait`` or ``set``, a
handler that sets the same event waits for ever for a lock that its own thread holds. So the handlers here do nothing,
and a thread that reads the wake-up pipe does what there is to do, where locks may be taken like anywhere else.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator


@contextlib.contextmanager
def heard(numbers: Iterable[int], act: Callable[[int], None]) -> Iterator[None]:
    """Within, ``act`` is called with the number of each of these signals that arrives, one after the other.

    To be entered in the main thread, and not twice at once. Afterwards everything is as it was before; a signal that
    arrived before the end has been acted on.
    """
    wanted = frozenset(numbers)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)  # a full pipe must not stop the interpreter; what fills it wakes us anyway
    reader = threading.Thread(target=_read, args=(reading, wanted, act), name="signals", daemon=True)
    reader.start()
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    before = {number: signal.signal(number, _nothing) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
        os.close(writing)
        reader.join()
        os.close(reading)


def _nothing(number: int, frame: object) -> None:
    """A handler must be there, or the signal would end the process."""


def _read(pipe: int, wanted: frozenset[int], act: Callable[[int], None]) -> None:
    while arrived := os.read(pipe, 512):
        for number in arrived:
            if number in wanted:  # the pipe also tells of signals that others handle
                act(number)
