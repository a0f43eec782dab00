"""One call of Kanboard's API: who may, with which arguments, and what its answer looks like.

A call that may not be made is 403, one whose arguments do not fit is Invalid params. What a service refuses or does
not find is the procedure's own "no": ``false``, ``null`` or an empty list, as Kanboard has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from taskfabric.domain.errors import FabricError, NeedsHuman, NotAuthenticated, NotFound, Refused, Unavailable
from taskfabric.domain.principal import Caller, Viewer
from taskfabric.services import policy
from taskfabric.services.hallway import Hallway
from taskfabric.surfaces.fabric_rpc.protocol import METHOD_NOT_FOUND, Params
from taskfabric.surfaces.kanboard_api.arguments import Param, bound, params_of
from taskfabric.surfaces.kanboard_api.errors import FORBIDDEN, Forbidden, WrongParams, failure
from taskfabric.surfaces.kanboard_api.roles import Need

_INVALID_PARAMS: Final = -32602


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What a handler knows of the call besides its arguments."""

    caller: Caller
    base: str = ""  # the server's own URL with a slash at its end, for what links to it
    project_id: int = 0  # of what the arguments name, when the need says so; else 0

    @property
    def is_app(self) -> bool:
        """True for the app token."""
        return policy.is_app(self.caller)

    @property
    def user_id(self) -> int:
        """The caller's number as Kanboard's clients know it; 0 for the app token."""
        return 0 if self.is_app else self.caller.principal.id

    @property
    def viewer(self) -> Viewer | None:
        """Through whose eyes tasks are read; None = the app token, which sees all."""
        return policy.eyes(self.caller)


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """A procedure of the API. ``no`` is its result when the answer is no, ``missing`` when what it names is not
    there and need not be hidden."""

    name: str
    run: Callable[..., object]  # with the Call, then the arguments
    params: tuple[Param, ...]
    need: Need
    no: object
    missing: object
    places: tuple[int, ...]  # which of the parameters ``need.of`` names


_AS_NO: Final = object()


def procedure(
    name: str, run: Callable[..., object], need: Need, *, no: object = False, missing: object = _AS_NO
) -> Procedure:
    """Declare one: the parameters are those of ``run`` behind its first, which is the Call."""
    params = params_of(run)
    names = [param.name for param in params]
    return Procedure(
        name=name,
        run=run,
        params=params,
        need=need,
        no=no,
        missing=no if missing is _AS_NO else missing,
        places=tuple(names.index(of.param) for of in need.of),
    )


class KanboardApi:
    """All procedures, for every caller."""

    def __init__(self, procedures: Mapping[str, Procedure], hallway: Hallway) -> None:
        self._procedures = procedures
        self._hallway = hallway
        self._rights = hallway.rights

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._procedures)

    def answer(self, caller: Caller, id: object, method: str, params: Params | None, base: str) -> dict[str, object]:
        """The answer of one call. Raises Unavailable and NotAuthenticated, which concern the request as a whole, and
        what is a fault of ours."""
        found = self._procedures.get(method)
        if found is None:
            return failure(id, METHOD_NOT_FOUND, "Method not found", self._hint(method))
        try:
            return {"jsonrpc": "2.0", "result": self._result(found, caller, params, base), "id": id}
        except WrongParams as wrong:
            return failure(id, _INVALID_PARAMS, "Invalid params", wrong.data)
        except Forbidden:
            return failure(id, FORBIDDEN, "Forbidden")
        except (Unavailable, NotAuthenticated):
            raise
        except NeedsHuman as error:
            return failure(id, -32000 - error.code, error.message, error.to_json())
        except Refused as error:
            self._hallway.refused(caller, method, error)
            return {"jsonrpc": "2.0", "result": found.no, "id": id}
        except NotFound:
            return {"jsonrpc": "2.0", "result": found.missing, "id": id}
        except FabricError:
            return {"jsonrpc": "2.0", "result": found.no, "id": id}

    def _result(self, found: Procedure, caller: Caller, params: Params | None, base: str) -> object:
        need = found.need
        if not caller.principal.active:
            raise NotAuthenticated("this account is disabled")
        if need.person and policy.is_app(caller):
            raise Forbidden
        if need.app_role is not None and not self._rights.has_app_role(caller, need.app_role):
            raise Forbidden
        arguments = bound(found.params, params)
        if need.project_role is None:
            return found.run(Call(caller=caller, base=base), *arguments)
        project_id = self._project(found, caller, arguments)
        if project_id is None:
            if policy.is_app(caller):
                return found.missing
            raise Forbidden
        return found.run(Call(caller=caller, base=base, project_id=project_id), *arguments)

    def _project(self, found: Procedure, caller: Caller, arguments: list[Any]) -> int | None:
        """The one project of everything that the arguments name; None if there is none or the role does not reach."""
        assert found.need.project_role is not None
        projects = {
            self._rights.place(caller, of.kind, arguments[place], found.need.project_role)
            for of, place in zip(found.need.of, found.places, strict=True)
        }
        return projects.pop() if len(projects) == 1 else None

    def _hint(self, method: str) -> str:
        near = get_close_matches(method[:80], self._procedures, n=1, cutoff=0.6)
        return f"did you mean {near[0]}?" if near else "`fabric.hello` says what this server is"
