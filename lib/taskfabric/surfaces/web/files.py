"""Attachments, as downloads."""

from __future__ import annotations

from typing import Final

from taskfabric.domain.errors import not_found
from taskfabric.services.verbs import Download
from taskfabric.surfaces.web.visit import Visit

_PLAIN: Final = b"application/octet-stream"


def download(visit: Visit, number: str) -> tuple[bytes, str, bytes]:
    """The media type, name and bytes of an attachment. Raises NotFound."""
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        raise not_found("attachment")
    file = visit.fabric.call(Download(attachment=int(number)))
    return _PLAIN, file.name, file.bytes
