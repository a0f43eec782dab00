"""The table of procedures: a method's name, and what runs when it is called.

A procedure gets the caller and the raw parameters, and returns what travels as the result. It runs in a thread; it may
return ``Pending`` instead, when only time will bring the result.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from taskfabric.domain.errors import BadInput, FabricError
from taskfabric.domain.principal import Caller
from taskfabric.ports.fabric import Verb
from taskfabric.services.hallway import Hallway
from taskfabric.services.verbs import BY_METHOD, Awaited, Wait
from taskfabric.surfaces.fabric_rpc.arguments import verb_of
from taskfabric.surfaces.fabric_rpc.protocol import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    Params,
    ProtocolError,
    Request,
    refusal,
    result,
)
from taskfabric.surfaces.fabric_rpc.waiters import WaitRoom

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """The result is not there yet: wait for it on the event loop, holding no thread."""

    caller: Caller
    verb: Wait
    queues: frozenset[int]  # whose changes concern it
    heard: int  # the wait room's count of changes before the look that found nothing


Procedure = Callable[[Caller, Params | None], Any]
Concerned = Callable[[Caller, Wait], frozenset[int]]


def fabric_procedures(hallway: Hallway, room: WaitRoom, concerned: Concerned) -> Mapping[str, Procedure]:
    """``fabric.*``: each verb of the services under its own name. ``concerned`` names the queues a wait hangs on."""

    def of(kind: type[Verb[Any]]) -> Procedure:
        encode, call = kind.result.encode, hallway.call

        def run(caller: Caller, params: Params | None) -> Any:
            return encode(call(caller, verb_of(kind, params)))

        return run

    def wait(caller: Caller, params: Params | None) -> Any:
        verb = verb_of(Wait, params)
        heard = room.heard
        got = room.look(caller, verb)
        if got is None and verb.timeout > 0:
            return Pending(caller=caller, verb=verb, queues=concerned(caller, verb), heard=heard)
        return Wait.result.encode(got or Awaited(happened=False))

    return {**{name: of(kind) for name, kind in BY_METHOD.items()}, Wait.method: wait}


def answer(procedures: Mapping[str, Procedure], caller: Caller, request: Request) -> dict[str, object] | Pending:
    """Run one call. Never raises: what goes wrong is its answer."""
    if request.wrong is not None:
        return refusal(request.id, request.wrong)
    try:
        procedure = procedures.get(request.method)
        if procedure is None:
            raise _unknown(procedures, request.method)
        got = procedure(caller, request.params)
        return got if isinstance(got, Pending) else result(request.id, got)
    except (FabricError, ProtocolError) as error:
        return refusal(request.id, error)
    except Exception as error:
        return refusal(request.id, incident(error, request.method))


def incident(error: BaseException, what: str) -> ProtocolError:
    """A fault of ours: the log has the whole, the caller a number to ask for."""
    number = secrets.token_hex(4)
    log.error("call failed incident=%s what=%r", number, what[:80], exc_info=error)
    return ProtocolError(
        INTERNAL_ERROR,
        FabricError(
            f"the server failed at this; it is incident {number}",
            next=f"look for {number} in the server's log (`fabric logs server`)",
            incident=number,
        ),
    )


def _unknown(procedures: Mapping[str, Procedure], method: str) -> ProtocolError:
    near = get_close_matches(method[:80], procedures, n=1, cutoff=0.6)
    return ProtocolError(
        METHOD_NOT_FOUND,
        BadInput(
            f"there is no procedure {method[:40]!a}",
            next=f"did you mean {near[0]}?" if near else "`fabric.hello` says what this is",
        ),
    )
