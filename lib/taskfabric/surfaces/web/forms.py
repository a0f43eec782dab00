"""The forms of the pages: each one asks for one verb of the hallway, with its fields for the verb's arguments.

Nothing is decided here. A field that is left empty is left out, so that the verb's own default holds; where the page
had put something into it, emptying it says so (``clears``).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any, Final

from taskfabric.domain.errors import BadInput
from taskfabric.domain.times import parse_when
from taskfabric.ports.fabric import Verb
from taskfabric.services import approval_verbs, fleet_verbs, house_verbs, inbox_verbs, verbs
from taskfabric.surfaces.fabric_rpc.arguments import verb_of
from taskfabric.surfaces.web.visit import Form, Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """With what the texts of a form are read."""

    now: datetime
    zone: tzinfo
    form: Form


Convert = Callable[[str, Reading], Any]


def text(value: str, _: Reading) -> str:
    return value


def whole(value: str, _: Reading) -> int:
    try:
        return int(value)
    except ValueError:
        raise BadInput(f"{value[:40]!r} is not a whole number", next="write it in digits") from None


def flag(value: str, _: Reading) -> bool:
    return value in ("on", "true", "1")


def words(value: str, _: Reading) -> list[str]:
    """Words apart by commas or spaces."""
    return value.replace(",", " ").split()


def lines(value: str, _: Reading) -> list[str]:
    return [line.strip() for line in value.splitlines() if line.strip()]


def moment(value: str, reading: Reading) -> str:
    """An instant as people write it, in the reader's zone."""
    return parse_when(value.replace("T", " ").replace(" ", "T", 1) if value[:2] == "20" else value,
                      now=reading.now, zone=reading.zone).isoformat()  # fmt: skip


def shape(value: str, _: Reading) -> Any:
    """A JSON object."""
    try:
        found = json.loads(value)
    except ValueError as error:
        raise BadInput(f"that is not JSON: {error}", next="correct it; the old text was a JSON object") from None
    if not isinstance(found, dict):
        raise BadInput("that is no JSON object", next="begin with { and end with }")
    return found


def items(value: str, reading: Reading) -> list[dict[str, str]]:
    """Every ticked approval: its task and the hash of what was shown."""
    pairs = [one.partition(":") for one in reading.form.all("items")]
    return [{"task": task, "seen": seen} for task, _, seen in pairs]


def ticked(value: str, reading: Reading) -> list[int]:
    """Every ticked task."""
    return [whole(one, reading) for one in reading.form.all("tasks")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What a form asks for."""

    verb: type[Verb[Any]]
    fields: Mapping[str, Convert] = field(default_factory=dict)
    clears: Mapping[str, tuple[str, Any]] = field(
        default_factory=dict
    )  # field -> argument and value when it is emptied
    said: str = "Done."
    shows: bool = False  # the answer is shown once, on the page that asked
    opens: bool = False  # the task in the answer is shown next
    ticks: str = ""  # the field of which something must be ticked


_TASK: Final[Mapping[str, Convert]] = {"task": text}
_NOTE: Final[Mapping[str, Convert]] = {"task": text, "note": text}
_PIN: Final[Mapping[str, Convert]] = {"pin": text}

ACTS: Final[Mapping[str, Act]] = {
    # -- tasks
    "submit": Act(
        verb=verbs.Submit,
        fields={"title": text, "description": text, "to": text, "priority": whole, "score": whole, "due": moment,
                "not_before": moment, "tags": words, "needs": words, "refs": lines, "after": words, "parent": text,
                "backlog": flag, "human_verify": flag},
        said="Submitted.",
        opens=True,
    ),
    "take": Act(verb=verbs.Take, fields=_TASK, said="It is yours."),
    "done": Act(verb=verbs.Done, fields={**_NOTE, "verdict": text}, said="Done."),
    "park": Act(verb=verbs.Park, fields={**_NOTE, "until": moment}, said="Parked."),
    "fail": Act(verb=verbs.Fail, fields={**_NOTE, "final": flag}, said="Noted as failed."),
    "release": Act(verb=verbs.Release, fields=_NOTE, said="Given back."),
    "answer": Act(verb=verbs.Answer, fields=_NOTE, said="Answered."),
    "verify": Act(verb=verbs.Verify, fields=_NOTE, said="Verified."),
    "reject": Act(verb=verbs.Reject, fields=_NOTE, said="Sent back."),
    "cancel": Act(verb=verbs.Cancel, fields=_NOTE, said="Cancelled."),
    "redrive": Act(verb=verbs.Redrive, fields=_NOTE, said="Back to work."),
    "comment": Act(verb=verbs.Comment, fields={"task": text, "text": text}, said="Said."),
    "edit": Act(
        verb=verbs.EditTask,
        fields={"task": text, "title": text, "description": text, "priority": whole, "score": whole, "due": moment,
                "clear_due": flag, "add_tags": words, "remove_tags": words},
        clears={"title": ("title", ""), "description": ("description", "")},
        said="Changed.",
    ),
    "move": Act(
        verb=verbs.Move,
        fields={"task": text, "queue": text, "column": text, "swimlane": text, "top": flag, "after": text,
                "position": whole},
        said="Moved.",
    ),
    # -- the inbox
    "approve": Act(
        verb=approval_verbs.Approve,
        fields={**_NOTE, **_PIN, "seen": text, "args": shape, "always": flag, "until": moment},
        said="Approved.",
    ),
    "approve-many": Act(
        verb=approval_verbs.ApproveMany, fields={"items": items, **_PIN}, said="Approved.", ticks="items"
    ),
    "verify-many": Act(
        verb=verbs.VerifyMany, fields={"tasks": ticked, "note": text}, said="Verified.", ticks="tasks"
    ),
    "deny": Act(verb=approval_verbs.Deny, fields={**_NOTE, **_PIN, "seen": text}, said="Denied."),
    "delegate": Act(verb=inbox_verbs.Delegate, fields={**_NOTE, "to": text, "until": moment}, said="Passed on."),
    "snooze": Act(verb=inbox_verbs.Snooze, fields={"task": text, "until": moment}, said="Out of the list for now."),
    "snooze-many": Act(
        verb=inbox_verbs.SnoozeMany,
        fields={"tasks": ticked, "until": moment},
        said="Out of the list for now.",
        ticks="tasks",
    ),
    # -- oneself
    "vacation": Act(
        verb=inbox_verbs.Vacation,
        fields={"until": moment, "to": text, "note": text, "off": flag},
        said="Noted.",
    ),
    "settings": Act(
        verb=inbox_verbs.SetMe,
        fields={"zone": text, "quiet_begin": text, "quiet_end": text, "no_quiet": flag},
        clears={"zone": ("zone", ""), "quiet_begin": ("no_quiet", True), "quiet_end": ("no_quiet", True)},
        said="Saved.",
    ),
    "pin": Act(verb=house_verbs.SetPin, fields={"pin": text, "old": text, "code": text}, said="The PIN is set."),
    "session-revoke": Act(verb=inbox_verbs.RevokeSession, fields={"id": whole}, said="That browser is signed out."),
    "session-link": Act(verb=inbox_verbs.SignInLink, fields={"name": text, **_PIN}, said="Made.", shows=True),
    "channel-add": Act(verb=inbox_verbs.AddChannel, fields={"address": text, **_PIN}, said="Letters go there, too."),
    "channel-remove": Act(
        verb=inbox_verbs.RemoveChannel, fields={"id": whole, **_PIN}, said="No letter goes there any more."
    ),
    "channel-test": Act(verb=inbox_verbs.TryChannel, fields={"id": whole}, said="A letter went there: look for it."),
    "grant-create": Act(
        verb=approval_verbs.MakeGrant,
        fields={"agent": text, "action": text, "recipient": text, "until": moment, **_PIN},
        said="Granted.",
    ),
    "grant-revoke": Act(verb=approval_verbs.RevokeGrant, fields={"id": whole}, said="Revoked."),
    "policy-accept": Act(verb=approval_verbs.AcceptPolicy, fields=_PIN, said="The policy holds."),
    # -- tokens and people
    "token-create": Act(
        verb=house_verbs.CreateToken,
        fields={"name": text, "queues": words, "trust": text, "needs": words, "expires": moment, "label": text,
                **_PIN},
        said="Made.",
        shows=True,
    ),
    "token-revoke": Act(verb=house_verbs.RevokeToken, fields={"id": whole}, said="The token is worth nothing now."),
    "user-add": Act(
        verb=house_verbs.AddUser,
        fields={"name": text, "full_name": text, "email": text, "zone": text, "role": text, **_PIN},
        said="Added.",
        shows=True,
    ),
    "user-disable": Act(verb=house_verbs.DisableUser, fields={"name": text, "enable": flag, **_PIN}, said="Noted."),
    "user-reset": Act(
        verb=house_verbs.ResetUser, fields={"name": text, "forget_pin": flag, **_PIN}, said="Reset.", shows=True
    ),
    # -- the fleet
    "pause": Act(verb=fleet_verbs.Pause, fields={"name": text, "until": moment, "note": text}, said="Paused."),
    "resume": Act(verb=fleet_verbs.Resume, fields={"name": text, "account": flag}, said="Resumed."),
    "queue-limit": Act(
        verb=house_verbs.SetLimit,
        fields={"queue": text, "column": text, "limit": whole},
        said="The limit holds from now on.",
    ),
    "queue-create": Act(verb=house_verbs.CreateQueue, fields={"name": text, "kind": text, "owner": text}, said="Made."),
}  # fmt: skip


def asked(act: Act, visit: Visit, form: Form) -> Verb[Any]:
    """The verb that the form asks for. Raises BadInput."""
    reading = Reading(now=visit.now, zone=visit.zone, form=form)
    given: dict[str, Any] = {}
    if act.ticks and not form.all(act.ticks):
        raise BadInput("nothing is ticked", next="tick what is meant, then send it again")
    for name, convert in act.fields.items():
        values = [value for value in form.all(name) if value.strip()]
        if values:
            given[name] = convert(values[0], reading)
        elif form.all(name) and name in act.clears:
            argument, value = act.clears[name]
            given[argument] = value
    if act.verb is verbs.Comment and "text" not in given:
        given["text"] = ""
    return verb_of(act.verb, given)


def attachment(form: Form) -> verbs.Attach:
    """The verb of the form that sends a file along. Raises BadInput."""
    upload = form.files.get("file")
    if upload is None or not upload.data:
        raise BadInput("no file was chosen", next="choose one, then attach it")
    data = base64.b64encode(upload.data).decode()
    return verb_of(verbs.Attach, {"task": form.get("task"), "file": {"name": upload.name, "data": data}})
