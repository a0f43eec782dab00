"""What is said of an approval: its face in the inbox, how it ended, and the refusal of what comes too late."""

from __future__ import annotations

import json

from taskfabric.domain.approval import Approval, State, canonical
from taskfabric.domain.errors import Refused
from taskfabric.domain.times import iso
from taskfabric.domain.visible import visible


def decided(approval: Approval) -> Refused:
    """The refusal of a decision that comes too late."""
    by = f" by {approval.decided_by}" if approval.decided_by else ""
    return Refused(
        f"approval {approval.id} is {approval.state.value}{by}; that is final",
        next="`fabric inbox` shows what is open",
        rule="expired" if approval.state is State.EXPIRED else "decided",
        state=approval.state.value,
        by=approval.decided_by,
    )


def headline(approval: Approval) -> str:
    """What is asked for in a few words, as they are seen."""
    to = visible(approval.recipient or "")
    return f"{approval.action} to {to[:80]}" if to else approval.action


def face(approval: Approval) -> str:
    """The request in Markdown: who asks, what exactly, and why. The arguments stand in a fence that they cannot end."""
    shown = visible(json.dumps(approval.args, indent=2, ensure_ascii=False, sort_keys=True))
    fence = "`" * max(3, 1 + _longest_run(shown))
    lines = [
        f"**{approval.requester}** asks: `{approval.action}` ({approval.level.word})",
        f"\n{fence}json\n{shown}\n{fence}",
    ]
    if approval.why:
        quoted = "\n".join(f"> {line}" for line in visible(approval.why).splitlines())
        lines.append(f"\nIt says why:\n\n{quoted}")
    if approval.task_id is not None:
        lines.append(f"\nTask #{approval.task_id} waits for it.")
    return "\n".join(lines)


def ending(approval: Approval) -> str:
    gate = approval.ref
    return (
        f"`fabric approve {gate}` or `fabric deny {gate} --note …`, or in the browser. At {iso(approval.expires)} it"
        " expires: then nothing is done."
    )


def said(approval: Approval) -> str:
    """How it ended, in a sentence that the next run reads, too."""
    head = f"approval {approval.id} of {approval.action}"
    whose = f" for {approval.for_whom}" if approval.for_whom else ""
    by = f"by {approval.decided_by}{whose}"
    note = f": {approval.note}" if approval.note else ""
    match approval.state:
        case State.APPROVED if approval.grant_id is not None:
            return f"{head}: yes, {by}'s standing grant {approval.grant_id}"
        case State.APPROVED:
            return f"{head}: yes, {by}{note}"
        case State.EDITED:
            args = canonical(approval.decided_args or {})
            return f"{head}: yes, {by}, but with these arguments: {args}{note}"
        case State.DENIED:
            return f"{head}: no, {by}{note}"
        case State.EXPIRED:
            return f"{head} has expired: nobody decided, and nothing is done"
        case State.SUPERSEDED:
            return f"{head} is superseded by a later request of the same task"
        case State.WITHDRAWN:
            return f"{head} is withdrawn: nobody asks for it any more"
        case State.PENDING:
            return f"{head} is pending"


def _longest_run(text: str) -> int:
    longest = run = 0
    for char in text:
        run = run + 1 if char == "`" else 0
        longest = max(longest, run)
    return longest
