"""Logging of the programs: standard ``logging``, one line a record, key=value, UTC, without secrets.

Only a program's main calls ``configure``. Everything else asks for ``logging.getLogger(__name__)`` and passes facts
as ``extra={"task": 12}`` or writes them into the message as ``task=12``.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from datetime import UTC, datetime
from enum import StrEnum
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final


class LogLevel(StrEnum):
    """From which severity on records are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a record looks: a line for people, or an object for machines."""

    TEXT = "text"
    JSON = "json"


HIDDEN: Final = "***"

_SECRET_NAME: Final = re.compile(
    r"token|secret|password|passwd|api[_-]?key|authorization|cookie|\bpin\b|^pin$", re.IGNORECASE
)
_SECRETS: Final = (
    # Authorization: Bearer abc / Basic abc, wherever it is quoted
    re.compile(r"(?P<keep>\b(?:bearer|basic)\s+)(?P<hide>[A-Za-z0-9._~+/=-]{4,})", re.IGNORECASE),
    # token=abc, "password": "abc", api_key: abc
    re.compile(
        r"""(?P<keep>(?:token|secret|password|passwd|api[_-]?key|\bpin)["']?\s*[=:]\s*["']?)(?P<hide>[^\s"',;&}]+)""",
        re.IGNORECASE,
    ),
    # scheme://user:password@host
    re.compile(r"(?P<keep>\b[a-z][a-z0-9+.-]*://[^\s/:@]*:)(?P<hide>[^\s/@]+)(?=@)", re.IGNORECASE),
)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_PLAIN_VALUE: Final = re.compile(r"[^\s\"=]+")
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


def redact(text: str) -> str:
    """The text with bearer tokens, passwords (also inside URLs), keys and PINs replaced by ``***``."""
    for pattern in _SECRETS:
        text = pattern.sub(lambda match: match["keep"] + HIDDEN, text)
    return text


def _one_line(text: str) -> str:
    # A line break in somebody's title must not look like another record.
    return _CONTROL.sub(lambda match: repr(match[0])[1:-1], text)


def _at(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def _facts(record: logging.LogRecord) -> dict[str, object]:
    """What the call passed as ``extra``, secrets hidden by their names."""
    extra = {key: value for key, value in vars(record).items() if key not in _STANDARD}
    return {key: HIDDEN if _SECRET_NAME.search(key) else value for key, value in extra.items()}


class TextFormatter(logging.Formatter):
    """``2026-11-30T17:00:00.000Z info taskfabric.x claimed task=12 holder=kimi``; a traceback follows indented."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_at(record)} {record.levelname.lower()} {record.name} {_one_line(record.getMessage())}"
        for key, value in _facts(record).items():
            shown = _one_line(str(value))
            line += f" {key}={shown if _PLAIN_VALUE.fullmatch(shown) else json.dumps(shown, ensure_ascii=False)}"
        if record.exc_info:
            trace = self.formatException(record.exc_info)
            line += "".join(f"\n    {_one_line(part)}" for part in trace.split("\n"))
        return redact(line)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: at, level, logger, message, the facts, and the traceback as one string."""

    def format(self, record: logging.LogRecord) -> str:
        shape: dict[str, object] = {
            "at": _at(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        for key, value in _facts(record).items():
            plain = value is None or isinstance(value, bool | int | float)
            # A fact never replaces one of the four above.
            shape[f"{key}_" if key in shape else key] = value if plain else redact(str(value))
        if record.exc_info:
            shape["traceback"] = redact(self.formatException(record.exc_info))
        # ASCII only: a lone surrogate in a title must not make the line unwritable.
        return json.dumps(shape)


class PrivateRotatingFile(RotatingFileHandler):
    """A rotating log file that only its owner can read."""

    def _open(self) -> TextIOWrapper:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        return open(descriptor, "a", encoding="utf-8", errors="backslashreplace")  # noqa: PTH123 (a descriptor)


def configure(
    level: LogLevel,
    fmt: LogFormat,
    *,
    file: Path | None = None,
    rotate_bytes: int = 10 * 2**20,
    keep: int = 5,
) -> None:
    """Records from ``level`` on go to ``file`` (made with its folder, rotated at ``rotate_bytes``), else to stderr.

    Replaces what an earlier call set up. Raises OSError when the file cannot be opened.
    """
    handler: logging.Handler
    if file is None:
        handler = logging.StreamHandler(sys.stderr)
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        handler = PrivateRotatingFile(file, maxBytes=rotate_bytes, backupCount=keep, encoding="utf-8")
    match fmt:
        case LogFormat.TEXT:
            handler.setFormatter(TextFormatter())
        case LogFormat.JSON:
            handler.setFormatter(JsonFormatter())
    handler.set_name("taskfabric")
    top = logging.getLogger()
    for old in [one for one in top.handlers if one.get_name() == "taskfabric"]:
        top.removeHandler(old)
        old.close()
    top.addHandler(handler)
    top.setLevel(level.upper())
