"""The arguments of the verb that shows what hangs on a card besides its thread."""

from __future__ import annotations

from typing import Any, ClassVar

from taskfabric.ports.fabric import Verb
from taskfabric.services.answers import plain
from taskfabric.services.args import TaskId


class ShowAnnex(Verb[dict[str, Any]]):
    """``subtasks`` (title, status, who), ``links`` to other tasks that the caller may see (label, task, title, open),
    ``external_links`` (title, url, label). Raises NotFound, and Refused for whoever sees only state and result."""

    method: ClassVar[str] = "fabric.annex"
    result = plain()

    task: TaskId
