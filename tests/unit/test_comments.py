"""The grammar of the fabric's comments: what is written can be read back, and nothing that is read can break it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from taskfabric.domain.comments import Line, LineKind, parse, render

FIVE = datetime(2026, 11, 30, 17, 0, tzinfo=UTC)
TEN_PAST = FIVE + timedelta(minutes=10)
LEASE = Line(kind=LineKind.CLAIMED, agent="kimi", instance="kimi@box-7f3a", at=FIVE, epoch=3, until=TEN_PAST)
LEASE_TEXT = "🔒 claimed by `kimi` (kimi@box-7f3a) at 2026-11-30T17:00:00Z · epoch 3 · lease until 2026-11-30T17:10:00Z"

# One line of each kind, with all its fields, and the same with as few as it may have.
FULL = {
    LineKind.CLAIMED: LEASE,
    LineKind.RENEWED: Line(kind=LineKind.RENEWED, agent="kimi", at=FIVE),
    LineKind.RELEASED: Line(kind=LineKind.RELEASED, agent="kimi", text="shutting down"),
    LineKind.PARKED: Line(kind=LineKind.PARKED, until=TEN_PAST, text="quota spent"),
    LineKind.QUESTION: Line(kind=LineKind.QUESTION, agent="sam", text="Which of the two?"),
    LineKind.WAITING: Line(kind=LineKind.WAITING, number=2, text="first the drafts"),
    LineKind.ANSWER: Line(kind=LineKind.ANSWER, agent="sam", text="the second"),
    LineKind.SAID: Line(kind=LineKind.SAID, text="First the drafts."),
    LineKind.NOTE: Line(kind=LineKind.NOTE, text="All **three** are in.\n\n- a\n- b"),
    LineKind.FAILED: Line(kind=LineKind.FAILED, number=2, of=3, text="no such file"),
    LineKind.DEAD: Line(kind=LineKind.DEAD, text="no such file"),
    LineKind.EXPIRED: Line(kind=LineKind.EXPIRED, agent="kimi", epoch=3, text="try again"),
    LineKind.VERIFIED: Line(kind=LineKind.VERIFIED, agent="sam", text="read it all"),
    LineKind.REJECTED: Line(kind=LineKind.REJECTED, agent="sam", text="the sums are wrong"),
    LineKind.CANCELLED: Line(kind=LineKind.CANCELLED, agent="sam", text="not needed now"),
    LineKind.DECLINED: Line(kind=LineKind.DECLINED, agent="kimi", text="against its rules"),
    LineKind.HELD: Line(kind=LineKind.HELD, text="#7 was cancelled"),
    LineKind.RESUMED: Line(kind=LineKind.RESUMED, text="#7 no longer blocks it"),
    LineKind.REDRIVEN: Line(kind=LineKind.REDRIVEN, agent="sam", text="the disk has room again"),
    LineKind.MOVED: Line(kind=LineKind.MOVED, agent="sam", text="from Ready to Done"),
    LineKind.LATE: Line(kind=LineKind.LATE, agent="kimi", epoch=3, text="what it would have said"),
}
WRITTEN = {
    LineKind.CLAIMED: LEASE_TEXT,
    LineKind.RENEWED: "lease renewed by `kimi` at 2026-11-30T17:00:00Z",
    LineKind.RELEASED: "🔓 released by `kimi`: shutting down",
    LineKind.PARKED: "⏸ parked until 2026-11-30T17:10:00Z: quota spent",
    LineKind.QUESTION: "❓ `sam`: Which of the two?",
    LineKind.WAITING: "⏳ waiting for its children (2 open): first the drafts",
    LineKind.ANSWER: "💬 answered by `sam`: the second",
    LineKind.SAID: "💭 First the drafts.",
    LineKind.NOTE: "✅ All **three** are in.\n\n- a\n- b",
    LineKind.FAILED: "❌ attempt 2/3: no such file",
    LineKind.DEAD: "☠ dead letter: no such file",
    LineKind.EXPIRED: "⏰ lease expired, swept · held by `kimi` · epoch 3: try again",
    LineKind.VERIFIED: "✔ verified by `sam`: read it all",
    LineKind.REJECTED: "↩ rejected by `sam`: the sums are wrong",
    LineKind.CANCELLED: "🚫 cancelled by `sam`: not needed now",
    LineKind.DECLINED: "🛑 declined by `kimi`: against its rules",
    LineKind.HELD: "⛔ held: #7 was cancelled",
    LineKind.RESUMED: "▶ resumed: #7 no longer blocks it",
    LineKind.REDRIVEN: "♻ redriven by `sam`: the disk has room again",
    LineKind.MOVED: "👉 moved by `sam` from Ready to Done",
    LineKind.LATE: "📎 late result kept of `kimi` · epoch 3: what it would have said",
}
BARE = {
    "🔓 released": Line(kind=LineKind.RELEASED),
    "⏸ parked until 2026-11-30T17:10:00Z": Line(kind=LineKind.PARKED, until=TEN_PAST),
    "❓ Which of the two?": Line(kind=LineKind.QUESTION, text="Which of the two?"),
    "⏳ waiting for its children": Line(kind=LineKind.WAITING),
    "💬 answered": Line(kind=LineKind.ANSWER),
    "💭": Line(kind=LineKind.SAID),
    "✅": Line(kind=LineKind.NOTE),
    "❌ attempt 1/1": Line(kind=LineKind.FAILED, number=1, of=1),
    "☠ dead letter": Line(kind=LineKind.DEAD),
    "⏰ lease expired, swept": Line(kind=LineKind.EXPIRED),
    "↩ rejected: no": Line(kind=LineKind.REJECTED, text="no"),
    "🚫 cancelled": Line(kind=LineKind.CANCELLED),
    "🛑 declined": Line(kind=LineKind.DECLINED),
    "⛔ held": Line(kind=LineKind.HELD),
    "♻ redriven": Line(kind=LineKind.REDRIVEN),
    "📎 late result kept": Line(kind=LineKind.LATE),
}

names = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,62}", fullmatch=True)
instances = st.text(st.characters(exclude_characters="()\r\n"), min_size=1, max_size=40)
instants = st.datetimes(
    datetime(1970, 1, 1),  # noqa: DTZ001 - hypothesis takes naive bounds and adds the zone
    datetime(9999, 12, 31, 23, 59, 59),  # noqa: DTZ001
    timezones=st.just(UTC),
)
lookalikes = st.sampled_from(
    [*WRITTEN.values(), *BARE, "`sam`: hi", " by `sam`: hi", ": ", "\n", " (2 open): x", " · epoch 9", "\ufe0f x"]
)
texts = st.one_of(st.text(max_size=60), lookalikes, st.builds(lambda a, b: a + b, lookalikes, st.text(max_size=9)))


epochs = st.integers(0, 10**18 - 1)
counts = st.integers(0, 10**9 - 1)
agents = st.just("") | names


def valid_lines() -> st.SearchStrategy[Line]:
    """Every line that can be made: for each kind its fields, the optional ones present or not, and any text."""
    build, kinds = st.builds, LineKind
    some_epoch, by = st.none() | epochs, agents
    bare = (kinds.SAID, kinds.DEAD, kinds.HELD, kinds.RESUMED)
    plain = (kinds.RELEASED, kinds.ANSWER, kinds.REJECTED, kinds.CANCELLED, kinds.DECLINED, kinds.REDRIVEN)
    return st.one_of(
        build(
            Line,
            kind=st.just(kinds.CLAIMED),
            agent=names,
            instance=st.just("") | instances,
            at=instants,
            epoch=some_epoch,
            until=st.none() | instants,
            text=texts,
        ),
        build(Line, kind=st.just(kinds.RENEWED), agent=names, at=instants, text=texts),
        build(Line, kind=st.sampled_from(plain), agent=by, text=texts),
        build(Line, kind=st.just(kinds.PARKED), until=instants, text=texts),
        build(Line, kind=st.just(kinds.QUESTION), agent=by, text=texts),
        build(Line, kind=st.just(kinds.WAITING), number=st.none() | counts, text=texts),
        build(Line, kind=st.sampled_from((*bare, kinds.NOTE)), text=texts),
        build(Line, kind=st.just(kinds.FAILED), number=counts, of=counts, text=texts),
        build(Line, kind=st.sampled_from((kinds.EXPIRED, kinds.LATE)), agent=by, epoch=some_epoch, text=texts),
        build(Line, kind=st.sampled_from((kinds.VERIFIED, kinds.MOVED)), agent=names, text=texts),
    )


def test_the_lease_line_is_written_exactly_so() -> None:
    """The line that everybody sees while a task is worked on (G1)."""
    assert render(LEASE) == LEASE_TEXT


@pytest.mark.parametrize("kind", LineKind)
def test_each_kind_is_written_in_its_one_form(kind: LineKind) -> None:
    assert render(FULL[kind]) == WRITTEN[kind]


@pytest.mark.parametrize("text", BARE)
def test_what_a_kind_may_leave_out_leaves_no_trace(text: str) -> None:
    assert render(BARE[text]) == text
    assert parse(text) == BARE[text]


@given(line=valid_lines())
@example(Line(kind=LineKind.QUESTION, text="`sam`: hi"))
@example(Line(kind=LineKind.QUESTION, text="`sam`:"))
@example(Line(kind=LineKind.QUESTION, text="\n`sam`: hi"))
@example(Line(kind=LineKind.NOTE, text="\ufe0f"))
@example(Line(kind=LineKind.NOTE, text=LEASE_TEXT))
@example(Line(kind=LineKind.RELEASED, text=" by `sam`"))
@example(Line(kind=LineKind.CLAIMED, agent="kimi", at=FIVE, text=" · epoch 3"))
def test_every_line_is_read_back_as_it_was_written(line: Line) -> None:
    assert parse(render(line)) == line


def test_each_kind_has_a_mark_of_its_own() -> None:
    """Reading is by the first form that fits; that is only right if at most one can."""
    assert len({text.split(" ")[0] for text in WRITTEN.values()}) == len(LineKind)


@given(line=valid_lines(), zone=st.sampled_from(["UTC", "Europe/Madrid", "Pacific/Kiritimati", "Africa/Monrovia"]))
def test_a_line_shown_in_another_zone_names_the_same_instants(line: Line, zone: str) -> None:
    assert parse(render(line, ZoneInfo(zone))) == line


def test_a_line_shown_in_a_zone_carries_its_offset() -> None:
    shown = render(FULL[LineKind.PARKED], ZoneInfo("Europe/Madrid"))
    assert shown == "⏸ parked until 2026-11-30T18:10:00+01:00: quota spent"


@given(text=st.text() | lookalikes | st.builds(lambda a, b: a + b, lookalikes, st.text()))
@example("🔒 claimed by `kimi` at 2026-02-30T17:00:00Z")
@example("🔒 claimed by `kimi` at 0001-01-01T00:00:00+14:00")
@example("⏸ parked until 9999-12-31T23:59:59-12:00")
@example("⏸ parked until 2026-11-30T17:00+99:99")
@example("\ud800\x00")
def test_reading_never_raises(text: str) -> None:
    line = parse(text)
    assert line is None or parse(render(line)) == line


@pytest.mark.parametrize(
    "text",
    [
        "",
        "please look at this",
        "I saw 🔒 claimed by `kimi` at 2026-11-30T17:00:00Z yesterday",
        "🔒 claimed by `Kimi the Great` at 2026-11-30T17:00:00Z",
        "🔒 claimed by `kimi` at five o'clock",
        "🔒 claimed by `kimi` at 2026-02-30T17:00:00Z",
        "🔒 claimed by `kimi` (a) (b) at 2026-11-30T17:00:00Z",
        "❌ attempt two/3: no",
        "🔓 released by `kimi` and then some",
        "> " + LEASE_TEXT,
    ],
)
def test_what_is_not_quite_a_line_is_a_persons_words(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    "stamp",
    [
        "2026-11-30T17:00:00Z",
        "2026-11-30 17:00:00",
        "2026-11-30 17:00 UTC",
        "2026-11-30T18:00:00+01:00",
        "2026-11-30T17:00:00.250Z",
    ],
)
def test_the_older_lines_are_understood(stamp: str) -> None:
    assert parse(f"🔒 claimed by `kimi` at {stamp}") == Line(kind=LineKind.CLAIMED, agent="kimi", at=FIVE)
    assert parse(f"lease renewed by `kimi` at {stamp}") == Line(kind=LineKind.RENEWED, agent="kimi", at=FIVE)


def test_the_coloured_emoji_is_the_same_mark() -> None:
    assert parse("☠\ufe0f dead letter: no") == Line(kind=LineKind.DEAD, text="no")
    assert parse("⏸\ufe0f parked until 2026-11-30T17:10:00Z: quota spent") == FULL[LineKind.PARKED]


def test_only_the_first_line_is_grammar() -> None:
    text = "✅ done, see below\n" + LEASE_TEXT + "\n☠ dead letter: not really"
    line = parse(text)
    assert line is not None
    assert (line.kind, line.epoch) == (LineKind.NOTE, None)
    assert line.text.endswith("☠ dead letter: not really")


def test_an_instant_is_kept_to_the_second_in_utc() -> None:
    there = FIVE.astimezone(timezone(timedelta(hours=5))) + timedelta(microseconds=999_999)
    line = Line(kind=LineKind.PARKED, until=there)
    assert line.until == FIVE
    assert line.until is not None
    assert line.until.tzinfo is UTC


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"kind": LineKind.CLAIMED, "agent": "kimi"}, "needs at"),
        ({"kind": LineKind.FAILED, "number": 1}, "needs of"),
        ({"kind": LineKind.NOTE, "agent": "kimi"}, "has no agent"),
        ({"kind": LineKind.VERIFIED, "agent": "Kimi!"}, "not a name"),
        ({"kind": LineKind.VERIFIED, "agent": "k" * 64}, "not a name"),
        ({"kind": LineKind.VERIFIED, "agent": "kimi\n"}, "not a name"),
        ({"kind": LineKind.CLAIMED, "agent": "kimi", "at": FIVE, "instance": "a)b"}, "parentheses"),
        ({"kind": LineKind.CLAIMED, "agent": "kimi", "at": FIVE, "instance": "a\nb"}, "line breaks"),
        ({"kind": LineKind.CLAIMED, "agent": "kimi", "at": FIVE, "epoch": -1}, "out of range"),
        ({"kind": LineKind.CLAIMED, "agent": "kimi", "at": FIVE, "epoch": 10**18}, "out of range"),
        ({"kind": LineKind.PARKED, "until": FIVE.replace(tzinfo=None)}, "has a zone"),
        ({"kind": LineKind.PARKED, "until": datetime(1969, 12, 31, tzinfo=UTC)}, "1970"),
        ({"kind": LineKind.PARKED, "until": datetime.min.replace(tzinfo=timezone(timedelta(hours=2)))}, "1970"),
    ],
)
def test_a_line_that_could_not_be_read_back_cannot_be_made(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Line(**fields)
