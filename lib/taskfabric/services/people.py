"""People's verbs: answer, judge, cancel, redrive, edit, move, comment, attach."""

from __future__ import annotations

from collections.abc import Callable

from taskfabric.domain.errors import BadInput, FabricError, IllegalMove, NotFound, Refused, not_found
from taskfabric.domain.principal import Caller
from taskfabric.domain.status import Status
from taskfabric.domain.target import checked_tier
from taskfabric.domain.task import Attachment, Entry, Task
from taskfabric.domain.tier import tier_of
from taskfabric.ports.board import Edit, Place
from taskfabric.services import policy, text, verbs
from taskfabric.services.desk import Desk
from taskfabric.services.drain import decoded
from taskfabric.services.routing import Routing


class Deciding:
    """The verbs by which people (and, where it is theirs to say, agents) act on tasks that they do not hold."""

    def __init__(self, desk: Desk, decides: Callable[[Caller, int, str], bool], take_back: Callable[[], int]) -> None:
        self._desk = desk
        self._take_back = take_back  # questions whose time with somebody else is over
        self._decides = decides  # whether a comment is a decision, which it then is

    def answer(self, caller: Caller, verb: verbs.Answer) -> Task:
        self._take_back()
        task = self._desk.see(caller, verb.task)
        policy.refuse_in_run(caller, "answering a question")
        policy.refuse_service(caller, "answer a question")
        policy.refuse_gate(self._desk, caller, task.id, "answering")
        me = caller.principal
        asked = task.asked == me.name
        if not asked and not (me.is_human and policy.has_part(self._desk, caller, task)):
            raise Refused(
                f"this question is for {task.asked or 'a human member of the queue'}",
                next="leave the answer to them",
                rule="not-asked",
                task=task.id,
            )
        words = text.needed_note(verb.note, self._desk.rules, "an answer")
        return self._desk.board.answer(task.id, words, caller.stamp())

    # -- judging results -----------------------------------------------------------------------------

    def verify(self, caller: Caller, verb: verbs.Verify) -> Task:
        task = self._judged(caller, verb.task, "verifying")
        return self._desk.board.verify(task.id, text.note(verb.note, self._desk.rules), caller.stamp())

    def verify_many(self, caller: Caller, verb: verbs.VerifyMany) -> list[Task | FabricError]:
        """Each is judged by itself; what is refused keeps nothing back."""
        ends: list[Task | FabricError] = []
        for task in text.different(verb.tasks, "tasks"):
            try:
                ends.append(self.verify(caller, verbs.Verify(task=task, note=verb.note)))
            except (Refused, NotFound, IllegalMove) as error:
                ends.append(error)
        return ends

    def reject(self, caller: Caller, verb: verbs.Reject) -> Task:
        task = self._judged(caller, verb.task, "rejecting")
        words = text.needed_note(verb.note, self._desk.rules, "a rejection")
        return self._desk.board.reject(task.id, words, caller.stamp())

    def _judged(self, caller: Caller, task_id: int, what: str) -> Task:
        """The task, if this caller may judge its result (invariants 3 and 5). Raises Refused."""
        task = self._desk.see(caller, task_id)
        policy.need_judge(self._desk, caller, task, what)
        return task

    # -- ending and reviving -------------------------------------------------------------------------

    def cancel(self, caller: Caller, verb: verbs.Cancel) -> Task:
        task = self._desk.see(caller, verb.task)
        me = caller.principal
        policy.refuse_own_line(self._desk, caller, task.id, "cancelling")
        if task.submitter_id != me.id:
            policy.need_human(caller, "cancelling what somebody else submitted", "not-submitter")
            policy.need_part(self._desk, caller, task, "cancelling")
        if task.submitter_id == 0:
            policy.refuse_gate(self._desk, caller, task.id, "cancelling")
        return self._desk.board.cancel(task.id, text.note(verb.note, self._desk.rules), caller.stamp())

    def redrive(self, caller: Caller, verb: verbs.Redrive) -> Task:
        task = self._desk.see(caller, verb.task)
        policy.need_human(caller, "redriving", "redrive")
        policy.need_part(self._desk, caller, task, "redriving")
        return self._desk.board.redrive(task.id, text.note(verb.note, self._desk.rules), caller.stamp())

    # -- words and places ----------------------------------------------------------------------------

    def edit(self, caller: Caller, verb: verbs.EditTask) -> Task:
        task = self._desk.see(caller, verb.task)
        policy.need_editor(self._desk, caller, task, rates=verb.score is not None or verb.tier is not None)
        rules = self._desk.rules
        if verb.due is not None and verb.clear_due:
            raise BadInput("a new due date and none at all are asked for at once", field="due")
        added = text.tags(verb.add_tags, rules)
        if len({*task.tags, *added}) > rules.tags:
            raise BadInput(f"a task has at most {rules.tags} tags", field="tags", limit=rules.tags)
        change = Edit(
            title=None if verb.title is None else text.title(verb.title, rules),
            description=None if verb.description is None else text.description(verb.description, rules),
            priority=verb.priority,
            score=verb.score,
            tier=self._tier(task, verb),
            due=text.instant(verb.due, "due"),
            clear_due=verb.clear_due,
            add_tags=added,
            remove_tags=text.tags(verb.remove_tags, rules),
        )
        if change == Edit():
            raise BadInput("nothing to change was given", next="give --title, --priority, --score, --due or --tag")
        edited = self._desk.board.edit(task.id, change, caller.stamp())
        if task.status is Status.HELD and (change.score or change.tier):
            Routing(self._desk).rated(edited)
        return edited

    def _tier(self, task: Task, verb: verbs.EditTask) -> str | None:
        """The tier that the edit brings: the one named, else what the new score says unless one was chosen before."""
        thresholds = self._desk.rules.thresholds
        if verb.tier:
            return checked_tier(verb.tier)
        score = task.score if verb.score is None else verb.score
        if verb.tier == "":
            return tier_of(score, "", thresholds)
        by_score = task.tier == tier_of(task.score, "", thresholds)
        return tier_of(score, "", thresholds) if verb.score is not None and by_score else None

    def move(self, caller: Caller, verb: verbs.Move) -> Task:
        task = self._desk.see(caller, verb.task)
        policy.need_human(caller, "moving a card by hand", "hand-move")
        places = [verb.top, verb.after is not None, verb.position is not None]
        within = any(places) or verb.column is not None or verb.swimlane is not None
        if verb.queue is not None:
            if within:
                raise BadInput("to another queue, or within its board: one at a time", next="move it twice")
            return self._transfer(caller, task, verb.queue)
        if sum(places) > 1:
            raise BadInput("--top, --after and --position name three different places", field="position")
        if not within:
            raise BadInput("no place was given", next="give --column, --swimlane, --top, --after or --queue")
        policy.need_part(self._desk, caller, task, "moving")
        if verb.after is not None:
            self._desk.see(caller, verb.after)
        place = Place(
            column=verb.column, swimlane=verb.swimlane, top=verb.top, after=verb.after, position=verb.position
        )
        return self._desk.board.move(task.id, place, caller.stamp())

    def _transfer(self, caller: Caller, task: Task, name: str) -> Task:
        policy.need_part(self._desk, caller, task, "moving it to another queue")
        queue = self._desk.named(caller, name)
        if queue is None:
            raise not_found("queue")
        refusal = policy.may_submit(self._desk, caller, queue)
        if refusal is not None:
            raise refusal if isinstance(refusal, Refused) else not_found("queue")
        return self._desk.board.transfer(task.id, queue.project_id, caller.stamp())

    def comment(self, caller: Caller, verb: verbs.Comment) -> Entry:
        task = self._desk.see(caller, verb.task)
        if not verb.text.strip():
            raise BadInput("a comment says something", field="text")
        words = text.note(verb.text, self._desk.rules, "comment")
        self._decides(caller, task.id, words)
        return self._desk.board.comment(task.id, words, caller.stamp())

    def attach(self, caller: Caller, verb: verbs.Attach) -> Attachment:
        data = decoded(verb.file, self._desk.rules.attachment)
        fence = None
        if verb.fence is not None:
            fence = verb.fence.value
            if fence.task_id != verb.task:
                raise BadInput("the task and the fence name two different tasks", field="task")
            if policy.outside(self._desk, caller, [fence.task_id], "attach"):
                raise not_found("task")
        else:
            task = self._desk.see(caller, verb.task)
            policy.need_part(self._desk, caller, task, "attaching a file")
        sha256 = self._desk.files.put(data)
        return self._desk.board.attach(verb.task, verb.file.name, len(data), sha256, caller.stamp(), fence)
