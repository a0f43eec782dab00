"""What a provider's sentence says about its limits: which class, which window."""

from __future__ import annotations

import re
from typing import Final

from taskfabric.domain.limit import LimitClass

# Several of a kind beside each other, because providers reword; the order of the questions is what decides.
_WARNING: Final = re.compile(
    r"\b(?:you(?:'ve|’ve| have)?\s+)?used\s+\d{1,2}(?:\.\d+)?\s?%|\bapproaching\b.{0,40}\b(?:limit|quota)"
    r"|\b(?:close to|nearing|almost at)\b.{0,30}\b(?:limit|quota)"
    r"|\b\d{1,2}\s?% of (?:your|the)\b.{0,30}\b(?:limit|quota)"
    r"|\b(?:limit|quota)\b.{0,20}\b(?:nearly|almost) (?:reached|used|spent|exhausted)",
    re.I,
)
_OVERLOAD: Final = re.compile(
    r"\boverload(?:ed)?(?:_error)?\b|\bengine_overloaded|\bat capacity\b|\bover capacity\b|\bhigh (?:demand|load)\b"
    r"|\btemporarily unavailable\b|\bservice unavailable\b|\bserver is busy\b",
    re.I,
)
_PLAN: Final = re.compile(
    r"\binsufficient_quota\b|\baccess_terminated|\bbilling[ -]cycle\b|\bexceeded your current quota\b"
    r"|\bcredit balance is too low\b|\bout of (?:credits?|quota|extra usage)\b|\busage_limit_(?:reached|exceeded)\b"
    r"|\b(?:quota|credits?)\b.{0,30}\b(?:exhausted|used up|depleted|spent)\b|\bquota_exceeded\b",
    re.I,
)
_DAY_BUDGET: Final = re.compile(r"\b[TR]PD\b|\b(?:requests|tokens|messages) (?:per|a) day\b|per[ _]?day\b|PerDay", re.I)
_BURST: Final = re.compile(
    r"\b[TR]PM\b|\b[TR]PS\b|per[ _](?:min(?:ute)?|second)\b|PerMinute|\brate[ _-]?limit|\btoo many requests\b"
    r"|\bmax(?:imum)? concurren(?:t|cy)\b|\bslow down\b",
    re.I,
)
_REACHED: Final = re.compile(
    r"\blimit(?:s)?\s+(?:has been |have been |was |is )?(?:reached|exceeded|hit|exhausted)\b"
    r"|\b(?:hit|reached|exceeded|exhausted|at)\s+(?:your|the|its)\b.{0,40}\b(?:limit|quota|allowance)\b"
    r"|\bquota (?:has been |is )?exceeded\b|\byou(?:'re|’re| are) out of\b.{0,30}\b(?:messages|usage|requests)\b",
    re.I,
)
# A fragment of the message above that some programs print alone. In the usage screen the same begins a line: "Resets".
_BARE_RESET: Final = re.compile(r"(?:^|[·∙•|]\s*)resets\s", re.MULTILINE)
_SCREEN: Final = re.compile(r"\AResets\s")

_NAMED: Final = (
    ("five_hour", re.compile(r"\b(?:5|five)[- _]?h(?:ours?)?\b|\bsession\b", re.I)),
    ("weekly", re.compile(r"\bweek(?:ly)?\b|\b(?:7|seven)[- _]?days?\b", re.I)),
    ("daily", re.compile(r"\bdaily\b|\b[TR]PD\b|\bper ?day\b|\ba day\b|PerDay", re.I)),
    ("hourly", re.compile(r"\bhourly\b|\b(?:per|an|1|one)[- ]hour\b", re.I)),
    ("monthly", re.compile(r"\bmonth(?:ly)?\b|\bbilling[ -]cycle\b", re.I)),
    ("minute", re.compile(r"\b[TR]PM\b|per[ _]min(?:ute)?\b|PerMinute", re.I)),
)


def class_of(sentence: str) -> LimitClass | None:
    """What the sentence says, or None when it speaks of no limit."""
    if _WARNING.search(sentence):
        return LimitClass.WARNING
    if _PLAN.search(sentence) or _DAY_BUDGET.search(sentence):
        return LimitClass.EXHAUSTED
    if _OVERLOAD.search(sentence):
        return LimitClass.OVERLOAD
    if _BURST.search(sentence):
        return LimitClass.THROTTLE
    if _REACHED.search(sentence) or _BARE_RESET.search(sentence):
        return LimitClass.EXHAUSTED
    return LimitClass.OK if _SCREEN.search(sentence) else None


def window_in(sentence: str) -> str:
    """The one window that the sentence names; "" for none, and for several."""
    named = [window for window, pattern in _NAMED if pattern.search(sentence)]
    return named[0] if len(named) == 1 else ""


# What may stand before a program's own message: a mark, a level, a status, its own name or that of an error.
_LEAD: Final = (
    r"[^\w\"'`\u201c\u2018(\[{>+]*"
    r"(?:\[?(?:error|fatal|warning|warn)\]?\b[:\s!-]*|(?:api|llm|stream|request|(?:llm )?provider)[ _]error\b[:\s]*"
    r"|[\w.]*(?:RateLimit|API|Status|Provider|HTTP)\w*Error:\s*|(?:claude|codex|kimi)\s*:\s*|error code:\s*"
    r"|(?:http )?\b[45]\d\d\b[\s:-]*)*"
)
_SPEAKS: Final = re.compile(
    rf"{_LEAD}(?:(?P<structure>\{{)|you\b|your\b|claude\b|the\b|this request\b|limit\b|usage\b|session\b|weekly\b"
    r"|hourly\b|daily\b|monthly\b|opus\b|sonnet\b|rate\b|too many\b|quota\b|resets?\b|\d+-hour\b|five-hour\b|request\b"
    r"|overloaded|credit balance\b|approaching\b|insufficient_quota|exceeded\b|service\b|server\b|out of\b|we'?re\b)",
    re.I,
)
_ERROR: Final = re.compile(r"[\"']error[\"']\s*:")
# The marks and verbs with which a program or a model reports what somebody else said.
_QUOTES: Final = re.compile(
    r"[\"\u201c\u201d'\u2018`][^\"\u201c\u201d`]{0,80}\blimit\b[^\"\u201c\u201d`]{0,80}[\"\u201c\u201d\u2019'`]"
    r"|\b(?:said|says|printed|prints|shows|showed|reads|message|phrase|wording|log line|string|text|example|tests?"
    r"|assert\w*|expected|parsers?|regex|documentation|docs|means|when)\b.{0,60}\b(?:limit|quota)",
    re.I,
)


def own_words(line: str) -> bool:
    """Whether a line of output is the program's own complaint and not one that it mentions."""
    found = _SPEAKS.match(line)
    if found is None:
        return False
    return bool(_ERROR.search(line)) if found["structure"] else not _QUOTES.search(line)
