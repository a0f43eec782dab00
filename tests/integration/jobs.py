"""Entry points for the tests of workers: what agents do there."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from taskfabric.domain.outcome import Outcome, Parked, Waiting, WaitingOnChildren
from taskfabric.ports.runtime import Result
from taskfabric.runtimes.python_child import Context


def echo(context: Context) -> str:
    """The task's own words, and what its refs brought."""
    found = [f"{m.ref}: {m.text or m.error}" for m in context.materials]
    said = [f"{entry.author}: {entry.text}" for entry in context.thread if not entry.kind]
    return "\n".join([context.task.title, *found, *said])


def hold(context: Context) -> str:
    """Runs until the file that the task's description names is there."""
    context.say("holding")
    while not Path(context.task.description).exists():
        time.sleep(0.01)  # a real process waits for a real file
        context.touch()
    return "let go"


def hog(context: Context) -> str:
    """Holds the interpreter lock for as many seconds as the description says."""
    until = time.monotonic() + float(context.task.description)
    while time.monotonic() < until:
        re.match(r"(a+)+$", "a" * 24 + "b")  # half a second and more, without letting go
    return "done hogging"


def silent(context: Context) -> str:
    """Says nothing and does nothing, for ever."""
    while True:
        time.sleep(1)


def chatty(context: Context) -> str:
    """Prints a great deal."""
    line = "x" * 1023 + "\n"
    for _ in range(int(context.task.description)):
        sys.stdout.write(line)
    return "said it all"


def fail(context: Context) -> str:
    raise ValueError("there is no such branch\nand a second line")


def die(context: Context) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


def nothing(context: Context) -> object:
    return None


def park(context: Context) -> Outcome:
    return Parked(until=context.task.created, reason="later")


def ask(context: Context) -> Outcome:
    return Waiting(question="Which of the two?")


def attach(context: Context) -> Result:
    path = context.workspace / "report.txt"
    path.write_text("all of it")
    from taskfabric.domain.outcome import Done

    return Result(outcome=Done(note="see the report"), attachments=(path,), usage={"input_tokens": 3})


def parent(context: Context) -> Outcome | str:
    """Makes two children, waits for them, and then puts their results together."""
    if not context.task.children:
        for name in ("left", "right"):
            context.submit(name, to=context.task.queue, description="a child")
        return WaitingOnChildren()
    return " + ".join(m.text.partition("Result")[2] for m in context.materials if m.ref.startswith("task:"))


def family(context: Context) -> Outcome | str:
    """A parent if it has no parent, else a child."""
    return context.task.title if context.task.parent else parent(context)


def environment(context: Context) -> str:
    """The names of what it finds in its environment."""
    return " ".join(sorted(os.environ)) or "nothing"


def mixed(context: Context) -> Outcome | str:
    """Does what the first word of its description says, as tasks of all kinds would."""
    task = context.task
    match task.description.partition(" ")[0]:
        case "slow":
            time.sleep(0.4)  # real work takes real time
            return task.title
        case "stumble" if task.attempts == 1:
            raise ValueError("it stumbled")
        case "fail":
            raise ValueError("it never works")
        case "ask" if not any(entry.kind == "answer" for entry in context.thread):
            return Waiting(question="Which of the two?")
        case "park" if task.parks == 0:
            return Parked(until=datetime.now(UTC) + timedelta(seconds=1), reason="not yet")
        case "family":
            return parent(context)
        case _:
            return task.title


def ask_once(context: Context) -> Outcome | str:
    """Asks, and then tells what was answered."""
    answers = [entry.text for entry in context.thread if entry.kind == "answer"]
    return answers[-1] if answers else Waiting(question="Which of the two?")
