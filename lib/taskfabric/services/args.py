"""The pieces of which the verbs' arguments are made: what a text, a task, a fence and a file look like on arrival."""

from __future__ import annotations

import base64
import re
from datetime import datetime
from typing import Annotated, Final

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from taskfabric.domain.lease import Fence, TaskRef


def sound(text: str) -> str:
    if "\x00" in text:
        raise ValueError("a text may not contain NUL")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("a text may not contain half of a surrogate pair") from None
    return text


def _task_id(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("a task is written as 12, '#12' or 12@3")  # noqa: TRY004 - pydantic reports ValueErrors only
    return TaskRef.parse(value).id


# What it looks like only: whether there is such a day, and a zone, is asked afterwards.
_ISO: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|[+-]\d\d(:?\d\d)?)?", re.ASCII)


def _instant(value: object) -> object:
    if isinstance(value, datetime) or (isinstance(value, str) and _ISO.fullmatch(value)):
        return value
    raise PydanticCustomError("datetime_type", "an instant is written as 2026-12-01T09:00:00+01:00")


Instant = Annotated[AwareDatetime, BeforeValidator(_instant)]
Seconds = Annotated[float, Field(strict=True)]
Text = Annotated[str, AfterValidator(sound)]
Word = Annotated[str, AfterValidator(sound), Field(max_length=255)]
TaskId = Annotated[int, BeforeValidator(_task_id)]
Priority = Annotated[int, Field(ge=0, le=3, strict=True)]
Score = Annotated[int, Field(ge=0, le=1000, strict=True)]
Page = Annotated[int, Field(ge=1, le=1000, strict=True)]


class FenceArg(BaseModel):
    """A fence as it travels."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: TaskId
    epoch: Annotated[int, Field(ge=0, lt=2**62, strict=True)]
    token: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]

    @property
    def value(self) -> Fence:
        return Fence.parse(self.task, self.epoch, self.token)

    @classmethod
    def of(cls, fence: Fence) -> FenceArg:
        return cls(task=fence.task_id, epoch=fence.epoch, token=fence.hex)


class FileArg(BaseModel):
    """A file as it travels: its name and its bytes in base64."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Word
    data: str

    @property
    def bytes(self) -> bytes:
        """Raises ValueError if the text is not base64."""
        return base64.b64decode(self.data, validate=True)
