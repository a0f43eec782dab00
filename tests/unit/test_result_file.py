"""The result file: what a program may say with it, and that nothing is read which is not its own."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskfabric.domain.errors import BadInput
from taskfabric.domain.outcome import Done, Failed
from taskfabric.runtimes import result_file
from taskfabric.runtimes.result_file import NAME, read


def write(folder: Path, said: object) -> Path:
    (folder / NAME).write_text(json.dumps(said), "utf-8")
    return folder


def test_no_file_is_no_word(tmp_path: Path) -> None:
    assert read(tmp_path, said="x") is None


def test_a_result_without_a_note_takes_the_output_for_it(tmp_path: Path) -> None:
    told = read(write(tmp_path, {"outcome": "done"}), said="it works\n")
    assert told is not None
    assert told.outcome == Done(note="it works")


@pytest.mark.parametrize(
    ("shape", "complaint"),
    [
        ({"outcome": "fail", "note": "x"}, "did you mean 'failed'"),
        ({"note": "x"}, "outcome is None"),
        ({"outcome": ["done"], "note": "x"}, "outcome is"),
        ({"outcome": "done", "note": "x", "verdickt": "pass"}, "did you mean 'verdict'"),
        ({"outcome": "done", "note": "x", "until": "2026"}, "unknown key 'until'"),
        ({"outcome": "done", "note": "x", "verdict": "maybe"}, "write pass or fail"),
        ({"outcome": "done", "note": 7}, "'note' is 7"),
        ({"outcome": "done"}, "without a note"),
        ({"outcome": "parked", "note": "x"}, "no instant"),
        ({"outcome": "parked", "note": "x", "until": "2026-12-01T08:00:00"}, "no instant"),
        ({"outcome": "failed", "note": "x", "retry": "no"}, "'retry' is 'no'"),
        ({"outcome": "done", "note": "x", "attachments": "report.md"}, "'attachments' is"),
        ({"outcome": "done", "note": "x", "attachments": ["absent.md"]}, "no plain file"),
        ({"outcome": "done", "note": "x", "attachments": ["../outside.md"]}, "no plain file"),
        ({"outcome": "done", "note": "x", "attachments": ["/etc/passwd"]}, "no plain file"),
        ({"outcome": "done", "note": "x", "attachments": ["folder"]}, "no plain file"),
        ({"outcome": "done", "note": "x", "attachments": ["link/secret"]}, "no plain file"),
        ({"outcome": "done", "note": "x", "attachments": ["a"] * 21}, "more than 20"),
        (["done"], "not a JSON object"),
    ],
)
def test_an_unclear_file_is_refused_with_what_is_wrong(tmp_path: Path, shape: object, complaint: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("x")
    workspace = tmp_path / "run"
    (workspace / "folder").mkdir(parents=True)
    (workspace / "link").symlink_to(outside)
    (tmp_path / "outside.md").write_text("x")
    with pytest.raises(BadInput, match=complaint):
        read(write(workspace, shape), said="")


def test_a_result_file_that_is_a_link_a_pipe_or_huge_is_not_read(tmp_path: Path) -> None:
    for name, make in (
        ("link", lambda path: path.symlink_to("/etc/passwd")),
        ("pipe", lambda path: os.mkfifo(path)),
        ("folder", lambda path: path.mkdir()),
        ("huge", lambda path: path.write_text('{"note": "' + "x" * (1 << 20) + '"}')),
        ("binary", lambda path: path.write_bytes(b"\xff\xfe")),
        ("deep", lambda path: path.write_text("[" * 100_000)),
    ):
        folder = tmp_path / name
        folder.mkdir()
        make(folder / NAME)
        with pytest.raises(BadInput, match="the result file"):
            read(folder, said="")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=10),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["outcome", "note", "until", "retry", "attachments", "verdict", "x"]), inner, max_size=4
            )
        ),
        max_leaves=8,
    )
)
def test_whatever_json_it_holds_is_understood_or_refused(shape: object) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            told = read(write(Path(folder), shape), said="said")
        except BadInput:
            return
        assert told is not None


def test_a_failure_may_be_tried_again_unless_it_says_otherwise(tmp_path: Path) -> None:
    told = read(write(tmp_path, {"outcome": "failed", "note": "no"}), said="")
    assert told is not None
    assert told.outcome == Failed(error="no", retry=True)


def test_the_documented_outcomes_are_those_it_reads() -> None:
    documented = {line.split()[0] for line in (result_file.__doc__ or "").splitlines() if line.startswith("    ")}
    assert set(result_file._KEYS) <= documented
