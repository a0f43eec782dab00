"""What the command line prints."""

from __future__ import annotations

import io
import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from taskfabric.domain.errors import HeldBy
from taskfabric.surfaces.cli.output import Out, clean, dumps, fit, one_line, width

ANYTHING = st.text(st.characters(blacklist_categories=()))


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def printer(
    *, as_json: bool = False, stream: io.StringIO | None = None, **env: str
) -> tuple[Out, io.StringIO, io.StringIO]:
    out, err = stream or io.StringIO(), io.StringIO()
    return Out(as_json=as_json, env={"FABRIC_ZONE": "Europe/Berlin", **env}, stdout=out, stderr=err), out, err


@given(ANYTHING)
def test_nothing_that_a_terminal_obeys_is_left_in_cleaned_text(text: str) -> None:
    shown = clean(text)
    assert all(unicodedata.category(char) not in ("Cc", "Cs") or char in "\t\n" for char in shown)
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")


def test_an_escape_sequence_is_shown_and_not_obeyed() -> None:
    assert clean("\x1b[2Jgone\x9b1m\u202etxt") == "\\u001b[2Jgone\\u009b1m\\u202etxt"


def test_plain_text_of_any_language_stays_as_it_is() -> None:
    for text in ("Zwölf Boxkämpfer", "日本語", "שלום", "🌱 ok", "tab\tand\nline"):
        assert clean(text) == text


@given(ANYTHING)
def test_json_reads_back_as_the_same_value_and_is_one_line(text: str) -> None:
    shown = dumps({"title": text})
    assert json.loads(shown) == {"title": text}
    assert len(shown.splitlines()) == 1
    shown.encode()


def test_wide_characters_take_two_columns_and_marks_take_none() -> None:
    assert width("日本") == 4
    assert width("e\u0301") == 1
    assert width("ab") == 2


@given(ANYTHING, st.integers(1, 80))
def test_what_is_fitted_never_takes_more_columns_than_it_may(text: str, columns: int) -> None:
    assert width(fit(one_line(text), columns)) <= columns


def test_a_table_fits_a_terminal_of_any_width_by_cutting_the_column_that_gives_way() -> None:
    out, stream, _ = printer(stream=Terminal(), COLUMNS="60")
    out.__dict__["columns"] = 60
    out.table([["1", "日本語" * 30, "kimi"], ["2", "short", "bob"]], head=["#", "title", "who"], stretch=1)
    assert all(
        width(line) <= 60 for line in stream.getvalue().replace("\x1b[2m", "").replace("\x1b[0m", "").splitlines()
    )
    assert "kimi" in stream.getvalue()


def test_a_table_that_no_terminal_shows_is_never_cut() -> None:
    out, stream, _ = printer()
    out.table([["1", "x" * 500]], head=["#", "title"], stretch=1)
    assert "x" * 500 in stream.getvalue()


def test_colours_appear_on_a_terminal_only_and_never_when_no_color_is_set() -> None:
    assert "\x1b" in printer(stream=Terminal())[0].paint("x", "red")
    assert printer()[0].paint("x", "red") == "x"
    assert printer(stream=Terminal(), NO_COLOR="1")[0].paint("x", "red") == "x"
    assert printer(stream=Terminal(), TERM="dumb")[0].paint("x", "red") == "x"


def test_an_error_for_people_says_reason_and_next_step_on_stderr_in_their_zone() -> None:
    out, stdout, stderr = printer()
    out.error(HeldBy("#12 is held by kimi until 2020-11-30T17:10:00Z"))
    assert stdout.getvalue() == ""
    assert stderr.getvalue().startswith("fabric: #12 is held by kimi until Mon 30 Nov 2020 18:10 (CET)\n  next: ")


def test_an_error_for_programs_is_the_one_document_on_stdout() -> None:
    out, stdout, stderr = printer(as_json=True)
    out.error(HeldBy("#12 is held by kimi", task=12, holder="kimi"))
    error = json.loads(stdout.getvalue())["error"]
    assert (error["code"], error["name"], error["facts"]["holder"]) == (4, "held", "kimi")
    assert set(error) == {"code", "name", "message", "facts", "next"}
    assert stderr.getvalue() == ""


def test_an_error_is_told_even_when_the_callers_zone_is_wrong() -> None:
    out, _, stderr = printer(FABRIC_ZONE="Mars/Olympus")
    out.error(HeldBy("held until 2026-11-30T17:10:00Z"))
    assert "held until 2026-11-30T17:10:00Z" in stderr.getvalue()


def test_others_text_is_cleaned_on_a_terminal_and_word_for_word_in_a_pipe() -> None:
    terminal, shown, _ = printer(stream=Terminal())
    pipe, raw, _ = printer()
    for out in (terminal, pipe):
        out.text("a\x1b[31mb")
    assert shown.getvalue() == "a\\u001b[31mb\n"
    assert raw.getvalue() == "a\x1b[31mb\n"
