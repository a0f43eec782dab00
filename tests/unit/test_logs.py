"""Logging: one line a record, facts as key=value, UTC, no secrets."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskfabric import logs
from taskfabric.logs import JsonFormatter, LogFormat, LogLevel, TextFormatter, redact


def record(message: str, **facts: object) -> logging.LogRecord:
    made = logging.getLogger("taskfabric.test").makeRecord(
        "taskfabric.test", logging.INFO, __file__, 1, message, (), None, extra=facts
    )
    made.created = 1_796_000_000.25
    return made


@pytest.fixture
def _root_logger_as_it_was() -> Iterator[None]:
    top = logging.getLogger()
    level, handlers = top.level, list(top.handlers)
    yield
    for handler in [one for one in top.handlers if one not in handlers]:
        top.removeHandler(handler)
        handler.close()
    top.setLevel(level)


def test_a_text_line_has_the_time_in_utc_the_level_and_the_facts() -> None:
    line = TextFormatter().format(record("claimed", task=12, holder="kimi", title='say "hi" = 1', nothing=""))
    assert line == (
        '2026-11-30T00:53:20.250Z info taskfabric.test claimed task=12 holder=kimi title="say \\"hi\\" = 1" nothing=""'
    )


def test_a_json_line_is_one_object() -> None:
    line = JsonFormatter().format(record("claimed\ntwice", task=12, level="mine", title="\ud800é"))
    assert "\n" not in line
    assert json.loads(line) == {
        "at": "2026-11-30T00:53:20.250Z",
        "level": "info",
        "logger": "taskfabric.test",
        "message": "claimed\ntwice",
        "task": 12,
        "level_": "mine",
        "title": "\ud800é",
    }


def test_a_line_break_in_a_value_does_not_make_a_second_record() -> None:
    line = TextFormatter().format(record("title: a\nb\r\u2028c", title="x\ny"))
    assert "\n" not in line
    assert "\r" not in line
    assert "\u2028" not in line


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_a_traceback_is_written_without_its_secrets(formatter: logging.Formatter) -> None:
    made = record("failed")
    try:
        raise ValueError("token=s3cr3t")
    except ValueError:
        made.exc_info = sys.exc_info()
    line = formatter.format(made)
    assert "ValueError" in line
    assert "s3cr3t" not in line


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer s3cr3t",
        "authorization: basic s3cr3t",
        "postgresql://me:s3cr3t@db/fabric",
        "token=s3cr3t",
        '{"password": "s3cr3t"}',
        "FABRIC_TOKEN=s3cr3t",
        "api_key: s3cr3t",
        "pin=s3cr3t",
    ],
)
def test_secrets_are_hidden_and_the_rest_stays(text: str) -> None:
    assert redact(f"before {text} after") == f"before {text.replace('s3cr3t', '***')} after"


@pytest.mark.parametrize("text", ["the spinning=wheel", "http://host:8420/x", "5 tokens left", "pinned to 3"])
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
@pytest.mark.parametrize("name", ["token", "fence_token", "password", "pin", "Authorization", "client_secret"])
def test_a_fact_with_the_name_of_a_secret_is_hidden(formatter: logging.Formatter, name: str) -> None:
    assert "s3cr3t" not in formatter.format(record("x", **{name: "s3cr3t"}))


@pytest.mark.usefixtures("_root_logger_as_it_was")
def test_a_log_file_is_private_rotated_and_replaced_by_a_second_call(tmp_path: Path) -> None:
    file = tmp_path / "logs/server.log"
    logs.configure(LogLevel.INFO, LogFormat.TEXT, file=file, rotate_bytes=1000, keep=2)
    for number in range(40):
        logging.getLogger("taskfabric.test").info("line", extra={"number": number, "pad": "x" * 60})
    logging.getLogger("taskfabric.test").debug("not this")
    assert sorted(one.name for one in file.parent.iterdir()) == ["server.log", "server.log.1", "server.log.2"]
    assert all(one.stat().st_mode & 0o777 == 0o600 for one in file.parent.iterdir())
    assert "number=39" in file.read_text()

    logs.configure(LogLevel.DEBUG, LogFormat.JSON, file=tmp_path / "other.log")
    logging.getLogger("taskfabric.test").debug("this")
    assert json.loads((tmp_path / "other.log").read_text())["message"] == "this"
    assert "this" not in file.read_text().replace("not this", "")


@pytest.mark.usefixtures("_root_logger_as_it_was")
def test_without_a_file_records_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(LogLevel.WARNING, LogFormat.TEXT)
    logging.getLogger("taskfabric.test").warning("seen", extra={"task": 1})
    logging.getLogger("taskfabric.test").info("unseen")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("warning taskfabric.test seen task=1\n")
    assert "unseen" not in err
