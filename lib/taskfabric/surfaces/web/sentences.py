"""The journal's events as short sentences for people. Whatever an event says of itself stands there as plain text.

A sentence is a template: what stands in brackets is left out when the event does not say it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from taskfabric.domain.journal import Event

SENTENCES: Final[Mapping[str, str]] = {
    # -- the life of a task
    "submitted": "made the task",
    "claimed": "took it",
    "done": "finished it[, verdict {verdict}]",
    "parked": "put it back[ until {until}][: {reason}]",
    "waiting": "waits for its children[ ({open} open)]",
    "asked": "asked a question[ of {of}]",
    "answered": "answered",
    "failed": "failed at it[, attempt {attempt}][, again at {retry_at}][: {error}]",
    "dead": "ended as a dead letter[: {error}]",
    "released": "gave it back[: {reason}]",
    "expired": "took the lease back[ from {holder}]: it had run out",
    "verified": "verified the result",
    "rejected": "sent the result back[: {reason}]",
    "cancelled": "cancelled it",
    "refused": "was refused[ {verb}][: {message}]",
    "redriven": "put it back to work",
    "resumed": "made it ready again: what it waited for has ended",
    "unblocked": "released it: what blocked it is done",
    "blocked": "holds it: something blocks it again",
    "held": "holds it until a human decides[: {reason}]",
    "restored": "ended its lease when the backup was restored",
    "told": "told people about it[: {matter}]",
    # -- its card
    "edited": "changed its words",
    "moved": "moved the card[ from {from}][ to {to}]",
    "shifted": "moved the card within its column",
    "transferred": "moved it to another queue[, from {from}]",
    "passed-on": "passed the question on[ to {to}]",
    "passed-back": "gave the question back[ to {to}]",
    "removed": "removed the task[ “{title}”]",
    "commented": "said something",
    "comment-changed": "changed a comment",
    "comment-removed": "removed a comment",
    "attached": "attached[ “{name}”]",
    "file-removed": "removed the file[ “{name}”]",
    "subtask-created": "added a subtask",
    "subtask-changed": "changed a subtask",
    "subtask-removed": "removed a subtask",
    "external-link-created": "added a link to elsewhere",
    "external-link-changed": "changed a link to elsewhere",
    "external-link-removed": "removed a link to elsewhere",
    "linked": "linked it[: it {label}][ #{to}]",
    "unlinked": "removed a link[: it {label}][ #{from}]",
    "closed": "closed it",
    "reopened": "opened it again[: it was {from}]",
    "metadata-saved": "changed its metadata",
    "metadata-removed": "removed metadata",
    # -- approvals
    "approval-asked": "asks whether it may do[ {action}]",
    "approval-approved": "approved",
    "approval-edited-approved": "approved, after an edit",
    "approval-denied": "denied",
    "approval-expired": "let an approval expire: nothing was decided",
    "approval-superseded": "asked anew: the older request counts no more",
    "approval-withdrawn": "withdrew a request",
    "approval-passed-on": "passed an approval on",
    "approval-granted": "allowed it by a standing grant",
    "approval-used": "used an approval up",
    "action-allowed": "did[ {action}] without asking, at level[ {level}]",
    "grant-made": "made a standing grant[ for {action}]",
    "grant-revoked": "revoked a standing grant",
    "policy-accepted": "accepted the policy",
    # -- people and how they sign in
    "signed-in": "signed in",
    "session-rotated": "proved a browser by PIN",
    "session-ended": "signed a browser out",
    "sessions-ended": "signed all browsers of somebody out",
    "sign-in-link-made": "made a sign-in link",
    "pin-set": "set a PIN",
    "pin-forgotten": "forgot somebody's PIN",
    "zone-set": "changed the zone[ to {zone}]",
    "quiet-set": "changed quiet hours",
    "channel-added": "added a channel for letters",
    "channel-removed": "removed a channel for letters",
    "left": "is away[ until {until}]",
    "came-back": "is back",
    "user-added": "added[ {name}]",
    "user-changed": "changed the account[ of {name}]",
    "user-removed": "removed the account[ of {name}]",
    "user-enabled": "switched the account[ of {name}] on",
    "user-disabled": "switched the account[ of {name}] off",
    "token-created": "made a token[ for {principal}][, “{name}”]",
    "token-revoked": "revoked a token",
    "tokens-revoked": "revoked all tokens of an account",
    "group-created": "made the group[ {name}]",
    "group-changed": "renamed a group[ to {name}]",
    "group-removed": "removed a group",
    "group-member": "changed who is in a group",
    "group-set": "changed a group's part in the project",
    # -- the fleet
    "agent-described": "described the agent[ {name}] by its card",
    "agent-paused": "paused[ {name}][ until {until}][: {note}]",
    "agent-resumed": "resumed[ {name}]",
    "account-closed": "closed the account[ {account}][ until {until}]",
    "account-opened": "opened the account[ {account}]",
    # -- projects
    "queue-created": "made the queue[ {name}]",
    "queue-adopted": "made the project[ {name}] a queue",
    "queue-rules": "changed the queue's rules",
    "project-created": "made the project[ {name}]",
    "project-changed": "changed the project",
    "project-removed": "removed the project[ {name}]",
    "project-metadata": "changed the project's metadata",
    "project-file-added": "attached[ “{name}”] to the project",
    "project-file-removed": "removed a file of the project",
    "member-set": "changed who belongs to it",
    "column-added": "added the column[ {title}]",
    "column-changed": "changed a column",
    "column-moved": "moved a column",
    "column-removed": "removed the column[ {title}]",
    "swimlane-added": "added the swimlane[ {name}]",
    "swimlane-changed": "changed a swimlane",
    "swimlane-moved": "moved a swimlane",
    "swimlane-removed": "removed the swimlane[ {name}]",
    "category-added": "added the category[ {name}]",
    "category-changed": "changed a category",
    "category-removed": "removed the category[ {name}]",
    "tag-created": "added the tag[ {name}]",
    "tag-changed": "renamed a tag[ to {name}]",
    "tag-removed": "removed the tag[ {name}]",
    "label-created": "added a kind of link[, {label}]",
    "label-changed": "renamed a kind of link[ to {label}]",
    "label-removed": "removed a kind of link",
    "action-added": "added an automatic action",
    "action-removed": "removed an automatic action",
}
_PART: Final = re.compile(r"\[([^\]{]*)\{([a-z_]+)\}([^\]]*)\]")
_LONGEST: Final = 160  # characters of one fact


def sentence(event: Event) -> str:
    """What happened, without the name of who did it."""
    template = SENTENCES.get(event.kind, re.sub(r"[-_.]", " ", event.kind))
    data = event.data if event.data.get("verdict") != "pass" else {**event.data, "verdict": None}
    return _PART.sub(lambda part: _said(part, data), template)


def _said(part: re.Match[str], data: Mapping[str, Any]) -> str:
    fact = _fact(data.get(part[2]))
    return f"{part[1]}{fact}{part[3]}" if fact else ""


def _fact(value: object) -> str:
    if value is None or isinstance(value, bool | dict | list):
        return ""
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
