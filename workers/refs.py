"""What a task points to, fetched: files, revisions, other tasks, pages. Text within a budget, a cut of it visible.

file:docs/plan.md      below one of the worker's roots, nothing hidden (a name that begins with a dot)
git:main:docs/plan.md  a file of a revision of a root's repository; git:4f2a91c is the commit itself
task:12                another task, with its result
https://…              a page, for cards that are granted ``web``
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from taskfabric.domain.errors import BadInput, FabricError, Unavailable
from taskfabric.domain.lease import TaskRef
from taskfabric.domain.task import Task, Thread
from taskfabric.ports.runtime import Material

_REVISION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/~^@{}-]{0,199}")
_GIT_TIME: Final = 20.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What refs of this worker may lead to."""

    roots: tuple[Path, ...]
    show: Callable[[int], Thread]  # another task; raises NotFound, Unavailable
    fetch: Callable[[str, int], str] | None = None  # a page (URL, most bytes); None: pages are not granted


def resolve(refs: Iterable[str], reach: Reach, *, budget: int) -> tuple[Material, ...]:
    """What each ref brought, in their order; all texts together are within ``budget`` characters.

    A ref that leads nowhere says why in its material. Raises Unavailable while the fabric cannot be asked.
    """
    return within(budget, [_fetched(ref, reach, budget) for ref in refs])


def of_children(children: Sequence[Task]) -> list[Material]:
    """The results of a task's own children, as if it had pointed to them."""
    return [Material(ref=f"task:{child.id}", text=_told(child)) for child in children]


def _fetched(ref: str, reach: Reach, budget: int) -> Material:
    most = 4 * budget + 4  # bytes that can matter: more than the budget would be cut anyway
    scheme, _, rest = ref.partition(":")
    try:
        match scheme.lower():
            case "file":
                text = _file(rest, reach.roots, most)
            case "git":
                text = _git(rest, reach.roots, most)
            case "task":
                text = _task(rest, reach)
            case "http" | "https":
                if reach.fetch is None:
                    raise BadInput("this agent is not granted the web")
                text = reach.fetch(ref, most)
            case _:
                raise BadInput("not a ref that a worker can follow: file:, git:, task: or https:")
    except Unavailable:
        raise
    except FabricError as error:
        return Material(ref=ref, error=error.message)
    except OSError as error:
        return Material(ref=ref, error=(error.strerror or str(error)).lower())
    return Material(ref=ref, text=text)


# ---------------------------------------------------------------- the kinds


def _file(name: str, roots: Sequence[Path], most: int) -> str:
    path = _below(name, roots)
    if path.is_dir():
        names = sorted(p.name + ("/" if p.is_dir() else "") for p in path.iterdir() if not p.name.startswith("."))
        return "\n".join(names)
    if not path.is_file():
        raise BadInput("not a plain file")
    with path.open("rb") as file:
        return _text(file.read(most))


def _below(name: str, roots: Sequence[Path]) -> Path:
    """The file of that name below a root, whatever links lead there. Raises BadInput."""
    given = Path(name.removeprefix("//") if name.startswith("//") else name)
    for root in roots:
        base = root.resolve()
        try:
            found = (base / given).resolve(strict=True)
        except (OSError, RuntimeError, ValueError):
            continue
        if found != base and base not in found.parents:
            continue
        if any(part.startswith(".") for part in found.relative_to(base).parts):
            raise BadInput("hidden files are not read")
        return found
    shown = ", ".join(str(root) for root in roots) or "no folder"
    raise BadInput(f"there is no such file below {shown}")


def _git(name: str, roots: Sequence[Path], most: int) -> str:
    revision, colon, path = name.partition(":")
    if not _REVISION.fullmatch(revision):
        raise BadInput("write it as git:REVISION:path, or git:REVISION for a commit")
    if any(part.startswith(".") for part in Path(path).parts):
        raise BadInput("hidden files are not read")
    what = ["show", "--no-color", "--no-ext-diff", "--no-textconv"]
    what += ["--end-of-options", f"{revision}:{path}"] if colon else ["--stat", "--patch", "--end-of-options", revision]
    reason = "there is no repository"
    for root in roots:
        try:
            done = subprocess.run(
                ["git", "-C", str(root), "-c", "core.fsmonitor=false", *what],
                capture_output=True,
                timeout=_GIT_TIME,
                check=False,
                stdin=subprocess.DEVNULL,
                env={"PATH": os.environ.get("PATH", os.defpath), "GIT_CONFIG_NOSYSTEM": "1", "GIT_OPTIONAL_LOCKS": "0",
                     "HOME": "/nonexistent", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
            )  # fmt: skip
        except FileNotFoundError:
            raise BadInput("there is no git here") from None
        except subprocess.TimeoutExpired:
            raise BadInput(f"git did not answer in {_GIT_TIME:.0f} s") from None
        if done.returncode == 0:
            return _text(done.stdout[:most])
        reason = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0][:200] or reason
    raise BadInput(reason)


def _task(name: str, reach: Reach) -> str:
    thread = reach.show(TaskRef.parse(name).id)
    people = [f"{entry.author}: {entry.text}" for entry in thread.entries if not entry.kind]
    return "\n\n".join([_told(thread.task), *people])


def _told(task: Task) -> str:
    parts = [f"#{task.id} {task.title} ({task.status.value})", task.description]
    if task.note:
        verdict = f" ({task.verdict})" if task.verdict else ""
        parts.append(f"Result{verdict}: {task.note}")
    elif task.error:
        parts.append(f"Failed: {task.error}")
    return "\n\n".join(part for part in parts if part)


def _text(data: bytes) -> str:
    """Raises BadInput for what is no text."""
    if b"\0" in data[:8192]:
        raise BadInput("not a text")
    return data.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")


# ---------------------------------------------------------------- the budget


def within(budget: int, materials: Sequence[Material]) -> tuple[Material, ...]:
    """The same materials, their texts together within the budget: short ones stay whole, long ones share the rest."""
    left = budget
    shortest_first = sorted(range(len(materials)), key=lambda at: len(materials[at].text))
    given: dict[int, int] = {}
    for place, at in enumerate(shortest_first):
        share = left // (len(materials) - place)
        given[at] = min(len(materials[at].text), share)
        left -= given[at]
    return tuple(_cut(material, given[at]) for at, material in enumerate(materials))


def _cut(material: Material, most: int) -> Material:
    whole = len(material.text)
    if whole <= most:
        return material
    mark = f"\n[… cut here: the first {{}} of {whole} characters are shown …]"
    kept = max(0, most - len(mark) - len(str(whole)))
    return replace(material, text=material.text[:kept] + mark.format(kept), cut=True)
