"""The addresses that people may name for their letters: which services, and what may stand in an address.

What whoever keeps the server writes into notify.toml is not asked here; that may be anything that apprise knows.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, urlsplit

from taskfabric.domain.errors import BadInput

LONGEST: Final = 2048  # characters
# What stands behind the scheme is a secret of the service's, whose own address is in apprise.
_SERVICES: Final = frozenset({"discord", "gchat", "join", "pbul", "pover", "prowl", "slack", "tgram"})
_PLAIN: Final = frozenset(
    {"apprise", "bark", "form", "gotify", "hassio", "json", "mastodon", "matrix", "mmost", "nctalk", "ntfy", "rocket"}
)
_MAIL: Final = frozenset({"mailto", "mailtos"})
_SECURE: Final = frozenset({"mailtos", *(f"{name}s" for name in _PLAIN)})
# Nothing that names a file of this machine, another place to ask, or a weaker check of who answers there.
_PARAMETERS: Final = frozenset(
    {"bcc", "cc", "channel", "click", "delay", "email", "format", "from", "group", "icon", "image", "level", "mode"}
    | {"msgtype", "name", "overflow", "pass", "preview", "priority", "reply", "silent", "smtp", "sound", "tag", "tags"}
    | {"thread", "to", "token", "topic", "user", "version", "visibility"}
)
_HEADER: Final = ("+", " ")  # +Name=value is a header of the request; read as a form, the plus is a space
_HINT: Final = "write one address such as ntfys://ntfy.sh/topic"
_ELSEWHERE: Final = "have whoever keeps the server write it into notify.toml"


def read(url: str) -> tuple[str, str]:
    """What of the address is no secret, and the web address of the host that it names; "" = it is the service's own.
    Raises BadInput, without the address in its words."""
    if len(url) > LONGEST:
        raise BadInput(f"an address has at most {LONGEST} characters", field="address")
    two = url.count("://") != 1 or url.count("?") > 1
    if two or not url.isascii() or any(c <= " " or c == "\x7f" or c in '\\"<>^`{|},' for c in url):
        raise BadInput(
            "the address contains characters that belong into none, or is two",
            next=f"{_HINT}, and what is unusual in it percent-encoded",
            field="address",
        )
    scheme = url.partition("://")[0].lower()
    secure = scheme in _SECURE
    if not secure and scheme not in _SERVICES | _PLAIN | _MAIL:
        raise BadInput(
            "letters do not go to this kind of address",
            next=f"known are {', '.join(sorted(_SERVICES | _PLAIN | _MAIL))}; {_ELSEWHERE} if it is another",
            field="address",
        )
    given = {name.lower(): value for name, value in parse_qsl(url.partition("?")[2], keep_blank_values=True)}
    if strange := [name for name in given if name not in _PARAMETERS and not name.startswith(_HEADER)]:
        raise BadInput(
            f"the address has a parameter {strange[0][:40]!r}, which it may not have",
            next=f"leave it out, or {_ELSEWHERE}",
            field="address",
        )
    if scheme in _SERVICES:
        return f"{scheme}://…", ""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        raise BadInput("the address names no host, or its port is none", next=_HINT, field="address")
    place = given.get("smtp", "").lower() or (f"[{host}]" if ":" in host else host)
    usual = "" if port is None else f":{port}"
    return f"{scheme}://{host}/…", f"{'https' if secure else 'http'}://{place}{usual}/"
