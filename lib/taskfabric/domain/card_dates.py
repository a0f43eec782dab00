"""Dates as Kanboard's API takes them: ``2026-12-24``, ``2026-12-24 18:30``, ``12/24/2026``, ``12/24/2026 18:30``."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from typing import Final

_FORMS: Final = (
    re.compile(r"(?P<m>[0-9]{1,2})/(?P<d>[0-9]{1,2})/(?P<y>[0-9]{4})(?: (?P<H>[0-9]{1,2}):(?P<M>[0-9]{2}))?"),
    re.compile(r"(?P<y>[0-9]{4})-(?P<m>[0-9]{1,2})-(?P<d>[0-9]{1,2})(?: (?P<H>[0-9]{1,2}):(?P<M>[0-9]{2}))?"),
    re.compile(r"(?P<y>[0-9]{4})_(?P<m>[0-9]{1,2})_(?P<d>[0-9]{1,2})(?: (?P<H>[0-9]{1,2}):(?P<M>[0-9]{2}))?"),
)


def card_instant(text: str, now: datetime, zone: tzinfo) -> datetime | None:
    """The instant in UTC that the text names in ``zone``, or None: it is in none of the forms, or no real date.

    A date without a time means the present time of that day, as in Kanboard."""
    for form in _FORMS:
        found = form.fullmatch(text)
        if found is None:
            continue
        local = now.astimezone(zone)
        hour, minute = (local.hour, local.minute) if found["H"] is None else (int(found["H"]), int(found["M"]))
        second = local.second if found["H"] is None else 0
        try:
            moment = datetime(int(found["y"]), int(found["m"]), int(found["d"]), hour, minute, second, tzinfo=zone)
            exact = moment.astimezone(UTC)
        except (ValueError, OverflowError):
            return None
        return exact if exact.year >= 1970 else None
    return None
