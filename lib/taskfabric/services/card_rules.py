"""What may be done to a card through Kanboard's API, beside what roles say.

In a project that is no queue the board is just a board, and its members do as in Kanboard. In a queue only a human who
acts himself moves a card against the fabric: his move is a fact. For everybody else a leased card stays where it is,
and an unleased one goes only where he could have put it when he submitted it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

from taskfabric.domain.errors import BadInput, Refused
from taskfabric.domain.principal import Caller
from taskfabric.domain.queue import Queue
from taskfabric.domain.status import RESERVED_PREFIXES, ColumnRole, Status, is_reserved
from taskfabric.domain.task import Task
from taskfabric.services import policy, text
from taskfabric.services.desk import Desk, Rules

_LONGEST_TITLE = 65_535  # characters, in a project that is no queue
_TAGS = 500  # of a card there


@contextlib.contextmanager
def about(task_id: int) -> Iterator[None]:
    """A refusal inside names the task, so that the journal has it there."""
    try:
        yield
    except Refused as error:
        error.facts.setdefault("task", task_id)
        raise


def acts_himself(caller: Caller) -> bool:
    """True for a human outside any run."""
    return caller.principal.is_human and caller.run is None


def leased(task: Task) -> bool:
    return task.lease_until is not None


def refuse_leased(caller: Caller, task: Task, what: str) -> None:
    """Raises Refused for a leased card, unless a human acts himself."""
    if leased(task) and not acts_himself(caller):
        raise Refused(
            f"{what} a card that {task.holder} holds is for humans",
            next="wait until the lease ends, or ask a human",
            rule="leased",
            task=task.id,
        )


def need_mover(desk: Desk, caller: Caller, task: Task, role: ColumnRole | None, *, stays: bool) -> None:
    """Raises Refused unless this caller may move the card of a queue to a column with this role; ``stays``: within its
    column."""
    refuse_leased(caller, task, "moving")
    if acts_himself(caller):
        policy.need_part(desk, caller, task, "moving")
        return
    if stays:
        return
    from_there = task.status in (Status.BACKLOG, Status.READY)
    mine = task.submitter_id == caller.principal.id
    if not from_there or role in (ColumnRole.WORKING, ColumnRole.DONE) or not mine:
        raise Refused(
            "only a human moves work by hand; others claim it, and finish what they claimed",
            next="claim it, or ask a human to move it",
            rule="hand-move",
            task=task.id,
        )


def need_creator(caller: Caller, role: ColumnRole | None) -> None:
    """Raises Refused unless this caller may begin a card of a queue in a column with this role."""
    if role in (ColumnRole.WORKING, ColumnRole.DONE) and not acts_himself(caller):
        raise Refused(
            "a task begins in Backlog or Ready; only a human puts one among what is worked on or done",
            next="submit it to Ready and claim it",
            rule="hand-move",
        )


def need_closer(desk: Desk, caller: Caller, task: Task) -> None:
    """Raises Refused unless this caller may close the card of a queue: what is done is verified by it, and all else is
    cancelled. A human closes what he did himself, if nobody else wanted it."""
    refuse_leased(caller, task, "closing")
    if task.status is Status.DONE:
        if not (acts_himself(caller) and _did_own(caller, task)):
            policy.need_judge(desk, caller, task, "closing")
        return
    policy.refuse_own_line(desk, caller, task.id, "closing")
    if task.status is Status.DEAD or task.submitter_id != caller.principal.id:
        policy.need_human(caller, "closing what somebody else submitted, or what is dead", "not-submitter")
        policy.need_part(desk, caller, task, "closing")


def _did_own(caller: Caller, task: Task) -> bool:
    """True for the producer of what he submitted himself, or an agent of his on his behalf."""
    me = caller.principal
    return task.producer_id == me.id and (task.submitter_id == me.id or task.on_behalf == me.name)


def need_hand(desk: Desk, caller: Caller, task: Task, what: str) -> None:
    """Raises Refused unless a human with a part in the task acts himself."""
    policy.need_human(caller, what, "hand-move")
    policy.need_part(desk, caller, task, what)


# -- words -----------------------------------------------------------------------------------------------


def title(words: str, queue: Queue | None, rules: Rules) -> str:
    """A title as a queue takes it, or, in any other project, one as long as Kanboard has them."""
    return text.title(words, rules if queue is not None else replace(rules, title=_LONGEST_TITLE))


def people_tags(given: Iterable[object], present: Iterable[str], queue: Queue | None, rules: Rules) -> tuple[str, ...]:
    """People's tags among those given, each once whatever its case. Those of a rule that the card has already may be
    named, and are left out: they stay anyway. Raises Refused for one that it has not."""
    has = {tag.casefold() for tag in present}
    found: dict[str, str] = {}
    for word in given:
        if not isinstance(word, str | int | float):
            raise BadInput("a tag is a text", field="tags")
        tag = str(word).strip()
        if not tag or (queue is not None and tag.casefold() in has and _is_rule(tag)):
            continue
        found.setdefault(tag.casefold(), tag)
    tags = tuple(found.values())
    if queue is not None:
        return text.tags(tags, rules)
    if len(tags) > _TAGS or any(len(tag) > rules.tag_length or len(tag.splitlines()) > 1 for tag in tags):
        raise BadInput(f"at most {_TAGS} tags, each one line of at most {rules.tag_length} characters", field="tags")
    for tag in tags:
        text.plain(tag, "tags")
    return tags


def refuse_reserved(name: str, queue: Queue | None) -> None:
    """Raises Refused for the name of a tag that a rule uses, in a queue."""
    if queue is not None and _is_rule(name):
        raise Refused(
            f"{name[:40]!r} is a tag that a rule uses", next="use the verb that stands for it", rule="reserved-tag"
        )


def _is_rule(tag: str) -> bool:
    return is_reserved(tag) or tag.strip().lower().startswith(RESERVED_PREFIXES)
