"""Tasks as people read them: a list, a card, a tree. Shapes come from the server; words in them from anybody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from taskfabric.surfaces.cli.command import Shape
from taskfabric.surfaces.cli.output import Out, clean, one_line, plural

_COLOUR: Final = {
    "ready": "green",
    "working": "cyan",
    "waiting": "yellow",
    "held": "yellow",
    "done": "blue",
    "dead": "red",
    "cancelled": "dim",
    "rejected": "dim",
    "verified": "dim",
    "backlog": "dim",
}


def task_list(out: Out, tasks: Sequence[Shape]) -> None:
    """The tasks, a table for each queue, in the order in which the queues first appear."""
    for queue in dict.fromkeys(task["queue"] for task in tasks):
        here = [task for task in tasks if task["queue"] == queue]
        out.line(out.paint(one_line(queue or "(queue not shown)"), "bold") + f"  {plural(len(here), 'task')}")
        rows = [_row(out, task) for task in here]
        out.table(rows, head=["  #", "status", "prio", "title", "who", "when"], stretch=3)
        out.line()


def _row(out: Out, task: Shape) -> list[str]:
    return [f"  {task['id']}", task["status"], str(task["priority"]), task["title"], _who(task), _when(out, task)]


def _who(task: Shape) -> str:
    if task["holder"]:
        return str(task["holder"])
    return f"? {task['asked'] or 'anybody'}" if task["status"] == "waiting" and task["asked"] else ""


def _when(out: Out, task: Shape) -> str:
    if task["lease_until"]:
        return f"until {out.when(task['lease_until'])}"
    if task["not_before"] and task["status"] == "ready":
        return f"from {out.when(task['not_before'])}"
    if task["due"]:
        return f"due {out.when(task['due'])}"
    return out.ago(task["updated_at"])


def headline(out: Out, task: Shape) -> str:
    """``#12 ready  Title``, in one line."""
    status = out.paint(task["status"], _COLOUR.get(task["status"], "bold"))
    return f"{out.paint('#' + str(task['id']), 'bold')} {status}  {one_line(task['title'])}"


def card(out: Out, task: Shape) -> None:
    """The face of a task: what it is, where it stands, who has to do with it; then its description."""
    out.line(headline(out, task))
    for name, value in facts(out, task):
        out.line(f"  {out.paint(f'{name:<11}', 'dim')} {one_line(value)}")
    if task["description"]:
        out.line()
        out.text(task["description"])


def facts(out: Out, task: Shape) -> Iterator[tuple[str, str]]:
    """What is worth saying about a task, by name; what is empty is left out."""
    holder = task["holder"]
    until = f" until {out.when(task['lease_until'], zone=True)}" if task["lease_until"] else ""
    instance = f" ({task['holder_instance']})" if task["holder_instance"] else ""
    says: list[tuple[str, Any]] = [
        ("queue", task["queue"]),
        ("held by", f"{holder}{instance}{until} · epoch {task['epoch']}" if holder else ""),
        ("waits for", task["asked"]),
        ("held back", task["hold"]),
        ("blocked by", ", ".join(f"#{blocker}" for blocker in task["blockers"])),
        ("priority", task["priority"]),
        ("score", task["score"]),
        ("tier", task["tier"]),
        ("needs", ", ".join(task["needs"])),
        ("tags", ", ".join(task["tags"])),
        ("refs", ", ".join(task["refs"])),
        ("due", out.when(task["due"], zone=True)),
        ("not before", out.when(task["not_before"], zone=True) if task["status"] in ("ready", "held") else ""),
        ("parent", f"#{task['parent']}" if task["parent"] else ""),
        ("children", f"{task['children']}, {task['open_children']} of them open" if task["children"] else ""),
        ("from", f"{task['submitter']}{_behalf(task)}, {out.when(task['created'])}"),
        ("attempts", f"{task['attempts']} of {task['max_attempts']}" if task["attempts"] else ""),
        ("key", task["key"]),
        ("reference", task["reference"]),
        ("last error", task["error"]),
        ("result", _result(task)),
    ]
    return ((name, str(value)) for name, value in says if value not in ("", None))


def _behalf(task: Shape) -> str:
    behalf = task["on_behalf"]
    return f" for {behalf}" if behalf and behalf != task["submitter"] else ""


def _result(task: Shape) -> str:
    if not task["note"]:
        return ""
    verdict = f"[{task['verdict']}] " if task["verdict"] == "fail" else ""
    return f"{verdict}{task['note']}"


def tree(out: Out, kin: Shape, lead: str = "", branch: str = "") -> None:
    """A task and its descendants, drawn with lines."""
    out.line(f"{lead}{branch}{headline(out, kin)}")
    below = lead + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
    children = kin["tree"]
    for place, child in enumerate(children, 1):
        tree(out, child, below, "└─ " if place == len(children) else "├─ ")


def entry(out: Out, shape: Shape) -> None:
    """One entry of a thread: who, when, and the words indented below."""
    head = f"{out.when(shape['at'])}  {one_line(shape['author'])}"
    text = clean(out.local(shape["text"]) if shape["kind"] else shape["text"])
    first, _, rest = text.partition("\n")
    out.line(f"{out.paint(head, 'dim')}  {first}")
    for line in rest.splitlines():
        out.line(f"    {line}")


def what_happened(shape: Shape) -> str:
    """An event of the journal in a few words."""
    data = shape["data"]
    words = [str(shape["kind"])]
    words += [f"{key}={one_line(value)}" for key, value in data.items() if isinstance(value, str | int | float | bool)]
    return " ".join(words)
