"""Values as Kanboard's clients read them: seconds since 1970, 1 and 0 for yes and no, objects keyed by numbers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

Color = dict[str, str]

DEFAULT_COLOR: Final = "yellow"
COLORS: Final[dict[str, Color]] = {
    color_id: {"name": name, "background": background, "border": border}
    for color_id, name, background, border in (
        ("yellow", "Yellow", "rgb(245, 247, 196)", "rgb(223, 227, 45)"),
        ("blue", "Blue", "rgb(219, 235, 255)", "rgb(168, 207, 255)"),
        ("green", "Green", "rgb(189, 244, 203)", "rgb(74, 227, 113)"),
        ("purple", "Purple", "rgb(223, 176, 255)", "rgb(205, 133, 254)"),
        ("red", "Red", "rgb(255, 187, 187)", "rgb(255, 151, 151)"),
        ("orange", "Orange", "rgb(255, 215, 179)", "rgb(255, 172, 98)"),
        ("grey", "Grey", "rgb(238, 238, 238)", "rgb(204, 204, 204)"),
        ("brown", "Brown", "#d7ccc8", "#4e342e"),
        ("deep_orange", "Deep Orange", "#ffab91", "#e64a19"),
        ("dark_grey", "Dark Grey", "#cfd8dc", "#455a64"),
        ("pink", "Pink", "#f48fb1", "#d81b60"),
        ("teal", "Teal", "#80cbc4", "#00695c"),
        ("cyan", "Cyan", "#b2ebf2", "#00bcd4"),
        ("lime", "Lime", "#e6ee9c", "#afb42b"),
        ("light_green", "Light Green", "#dcedc8", "#689f38"),
        ("amber", "Amber", "#ffe082", "#ffa000"),
    )
}


def color(color_id: str) -> Color:
    """How this colour looks; an unknown one looks as the default does."""
    return COLORS.get(color_id, COLORS[DEFAULT_COLOR])


def epoch(at: datetime | None) -> int | None:
    """Whole seconds since 1970; None for none."""
    return None if at is None else int(at.timestamp())


def flag(yes: bool) -> int:
    return 1 if yes else 0


def keyed(pairs: Iterable[tuple[int, object]]) -> dict[str, object]:
    """An object keyed by numbers, in this order."""
    return {str(id): value for id, value in pairs}


def etag(path: str) -> str:
    """What tells one file's content from another's; the path is its hash already."""
    return path[:32]
