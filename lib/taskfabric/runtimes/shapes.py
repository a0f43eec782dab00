"""How a program's output is read: as text, or in the shapes that coding programs print for other programs.

    text         what it prints is the answer
    claude-json  one JSON object, or one a line (stream-json): the last of type "result" is the answer
    kimi-json    one message a line: the last one of the assistant is the answer; one object with the same is too

What such a program says about a limit of its account comes out apart, as the signal it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_SHOWN: Final = 120  # characters of garbage in an error


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What the output comes to."""

    answer: str = ""
    error: str = ""  # the program says that it failed, and why
    garbage: str = ""  # it is not in the shape; the beginning of what it is
    headers: dict[str, str] = field(default_factory=dict)  # limits, in the words of the provider's headers
    usage: dict[str, int] = field(default_factory=dict)


def read(shape: str, output: str) -> Said:
    """What ``output`` (its beginning and its end are enough) says in this shape."""
    match shape:
        case "text":
            return Said(answer=output.strip())
        case "claude-json":
            return _claude(output)
        case "kimi-json":
            return _kimi(output)
        case _:
            raise ValueError(f"no such shape: {shape}")


def spoken(shape: str, line: str) -> str:
    """What a line of output says to somebody who watches the run; "" for a line that is only for programs."""
    if shape == "text":
        return line
    for message in _objects(line):
        inner = message.get("message")
        content = inner.get("content") if isinstance(inner, dict) else message.get("content")
        if message.get("role", message.get("type")) == "assistant":
            return text if (text := _text(content)).endswith("\n") or not text else f"{text}\n"
    return "" if line.lstrip().startswith(("{", "[")) else line


def _claude(output: str) -> Said:
    results: list[Mapping[str, Any]] = []
    headers: dict[str, str] = {}
    seen = False
    for message in _objects(output):
        seen = True
        match message.get("type"):
            case "result":
                results.append(message)
            case "rate_limit_event":
                headers |= _limits(message.get("rate_limit_info"))
            case _:
                continue
    if not results:
        return Said(garbage=_beginning(output), headers=headers) if not seen else Said(headers=headers)
    last = results[-1]
    text = last.get("result")
    answer = text.strip() if isinstance(text, str) else ""
    usage = _counts(last.get("usage"), {"input_tokens": "input_tokens", "output_tokens": "output_tokens"})
    if isinstance(turns := last.get("num_turns"), int):
        usage["turns"] = turns
    if last.get("is_error") or str(last.get("subtype", "success")).startswith("error"):
        why = answer or "; ".join(str(e) for e in last.get("errors") or []) or str(last.get("subtype") or "an error")
        return Said(error=why, headers=headers, usage=usage)
    return Said(answer=answer, headers=headers, usage=usage)


def _limits(info: object) -> dict[str, str]:
    """The event's fields under the names that the provider's headers have."""
    if not isinstance(info, dict):
        return {}
    names = {"status": "status", "resetsAt": "reset", "rateLimitType": "representative-claim"}
    return {f"anthropic-ratelimit-unified-{to}": str(info[name]) for name, to in names.items() if info.get(name)}


def _kimi(output: str) -> Said:
    answer, seen = "", False
    usage: dict[str, int] = {}
    for message in _objects(output):
        seen = True
        usage |= _counts(
            message.get("usage"),
            {
                "prompt_tokens": "input_tokens",
                "completion_tokens": "output_tokens",
                "input_tokens": "input_tokens",
                "output_tokens": "output_tokens",
            },
        )
        if isinstance(error := message.get("error"), dict | str) and error:
            return Said(error=json.dumps(message) if isinstance(error, dict) else error, usage=usage)
        if message.get("role") == "assistant" and (text := _text(message.get("content")).strip()):
            answer = text
    return Said(answer=answer, usage=usage) if seen else Said(garbage=_beginning(output))


def _objects(output: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in the output: the whole of it, or one a line; an array's members."""
    for piece in (output, *output.splitlines()):
        if not piece.strip().startswith(("{", "[")):
            continue
        try:
            found = json.loads(piece)
        except (ValueError, RecursionError):
            continue
        yield from (entry for entry in (found if isinstance(found, list) else [found]) if isinstance(entry, dict))
        if piece is output:
            return


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(
        str(part.get("text", "")) for part in parts if isinstance(part, dict) and part.get("type", "text") == "text"
    )


def _counts(usage: object, names: Mapping[str, str]) -> dict[str, int]:
    if not isinstance(usage, dict):
        return {}
    return {to: usage[name] for name, to in names.items() if isinstance(usage.get(name), int)}


def _beginning(output: str) -> str:
    line = next((line.strip() for line in output.splitlines() if line.strip()), "")
    return line[:_SHOWN]
