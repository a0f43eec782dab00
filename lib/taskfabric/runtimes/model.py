"""The model runtime: carries out a task with one streamed completion of any model that LiteLLM speaks to.

LiteLLM is large (three seconds of import, 190 MB), so it is loaded inside the first call, once for each process. What
the endpoint says goes into the journal while it comes; the persona is the system prompt. An error of the provider is
classified once: a limit, an overload or an endpoint that is away gives the task back without an attempt spent.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import logging
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final

from taskfabric.domain.card import AgentCard, Cost, ModelSpec
from taskfabric.domain.errors import BadInput, FabricError, Refused, Unavailable
from taskfabric.domain.limit import Limit, LimitClass
from taskfabric.domain.outcome import Done, Failed, Outcome, Parked
from taskfabric.ports.runtime import Job, Progress, Result
from taskfabric.runtimes import limits, prompt, tiny

log = logging.getLogger(__name__)

_TICK: Final = 0.5  # seconds between two looks at whether the run must end
_CONNECT: Final = 10.0  # seconds
_REST: Final = timedelta(minutes=1)  # after an overload that names no time
_KEY_REST: Final = timedelta(minutes=10)  # a refused key is not mended within a moment
_ERROR: Final = 300  # characters of a provider's words in the log
_PREFIX: Final = re.compile(r"^(?:litellm\.)?\w*(?:Error|Exception|Timeout):\s*|^\w+Exception - ")
_SYSTEM: Final = "You carry out one task of a shared board. " + prompt.RULES
_AWAY: Final = frozenset({"APIConnectionError", "InternalServerError", "ServiceUnavailableError", "BadGatewayError"})


@dataclass(slots=True)
class _Heard:
    """What came of one call."""

    text: list[str] = field(default_factory=list)
    finish: str = ""
    usage: dict[str, int] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    error: BaseException | None = None


class ModelRuntime:
    """Runs the card's model. Raises BadInput for a card without one, Refused for a metered one that was not allowed."""

    def __init__(
        self,
        card: AgentCard,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        host: tzinfo | None = None,
    ) -> None:
        if card.model is None:
            raise BadInput(f"the card '{card.name}' has no [model]", field="model")
        if card.cost is Cost.METERED and not card.allow_metered:
            raise Refused(
                f"'{card.name}' costs money per use, and its card does not allow that",
                next="set allow_metered = true in the card",
                rule="metered",
            )
        self._spec: ModelSpec = card.model
        self._clock = clock
        self._host = host or datetime.now().astimezone().tzinfo or UTC

    def run(self, job: Job, progress: Progress, stopped: Callable[[], str | None]) -> Result:
        """The model's answer as the note; or why there is none."""
        heard = _Heard()
        told, ended = threading.Event(), threading.Event()
        caller = threading.Thread(
            target=self._call, args=(job, heard, progress, told, ended), name=f"model-{job.fence}", daemon=True
        )
        caller.start()
        while not told.wait(_TICK):
            if why := stopped():
                ended.set()  # the caller closes the stream at the next piece, or at its time-out
                return Result(outcome=Failed(error=f"it was ended: {why}"), usage=heard.usage)
        return self._refused(heard, job) if heard.error is not None else self._answered(heard)

    def close(self) -> None:
        """Nothing is kept between runs; a tiny model's server ends with the process."""

    # ---------------------------------------------------------------- the call

    def _call(self, job: Job, heard: _Heard, progress: Progress, told: threading.Event, ended: threading.Event) -> None:
        """Tells each piece itself: handed to another thread, the first words would wait for the library's next ones."""
        try:
            for chunk in self._stream(job, heard):
                if ended.is_set():
                    return
                piece = _take(chunk, heard)
                progress.chunk(piece) if piece else progress.touch()
        except Exception as error:
            heard.error = error
        finally:
            told.set()

    def _stream(self, job: Job, heard: _Heard) -> Iterator[Any]:
        patience = job.card.watchdog.total_seconds()
        if self._spec.model.startswith(
            tiny.PREFIX
        ):  # a known server beside us: half a gigabyte of adapters for nothing
            return tiny.complete(
                tiny.start(self._spec.model),
                self._messages(job),
                max_tokens=self._spec.max_tokens,
                temperature=self._spec.temperature,
                timeout=patience,
            )
        litellm = _litellm()
        extra: dict[str, Any] = {}
        if self._spec.temperature is not None:
            extra["temperature"] = self._spec.temperature
        if self._spec.endpoint:
            extra["api_base"] = self._spec.endpoint
        httpx = importlib.import_module("httpx")
        stream = litellm.completion(
            model=self._spec.model,
            messages=self._messages(job),
            api_key=self._key(),
            max_tokens=self._spec.max_tokens,
            stream=True,
            stream_options={"include_usage": True},
            timeout=httpx.Timeout(patience, connect=_CONNECT),
            max_retries=0,
            num_retries=0,
            drop_params=True,
            **extra,
        )
        heard.headers |= _headers_of(stream)
        return iter(stream)

    def _messages(self, job: Job) -> list[dict[str, str]]:
        system = "\n\n".join(part for part in (job.persona.strip(), _SYSTEM) if part)
        system = prompt.cut(system, self._spec.context_chars // 2, "the persona")
        budget = max(1000, self._spec.context_chars - len(system))
        return [
            {"role": "system", "content": system},
            {"role": "user", "content": prompt.compose(job, budget=budget)},
        ]

    def _key(self) -> str | None:
        """The key; None = as the provider's own variables say. An endpoint of one's own gets a word in its place."""
        if not self._spec.key_env:
            return "none" if self._spec.endpoint else None
        key = os.environ.get(self._spec.key_env)
        if not key:
            raise Unavailable(
                f"{self._spec.key_env} is not set where the worker runs", next="set it, or remove key_env from the card"
            )
        return key

    # ---------------------------------------------------------------- what it comes to

    def _answered(self, heard: _Heard) -> Result:
        text = "".join(heard.text).strip()
        limit = limits.classify(
            limits.Signal(provider=_provider(self._spec.model), status=200, headers=heard.headers),
            now=self._clock(),
            host=self._host,
        )
        seen = limit if limit.evidence or limit.learned else None
        if not text:
            return Result(outcome=Failed(error="the model said nothing"), limit=seen, usage=heard.usage)
        if heard.finish == "length":
            text += f"\n\n[cut: the model stopped at its limit of {self._spec.max_tokens} tokens]"
        return Result(outcome=Done(note=text), limit=seen, usage=heard.usage)

    def _refused(self, heard: _Heard, job: Job) -> Result:
        """What is told of a refusal is ours: a provider's own words may hold anything, and are in the log only."""
        error = heard.error
        kind, status = type(error).__name__, _status(error)
        said = _said(error)
        if isinstance(error, FabricError):
            until = self._clock() + _KEY_REST
            return Result(outcome=Parked(until=until, reason=f"{error.message}; {error.next}".rstrip("; ")))
        log.warning(
            "model refused task=%s endpoint=%s kind=%s status=%s said=%s",
            job.fence,
            self._spec.endpoint or _provider(self._spec.model),
            kind,
            status,
            said[:_ERROR],
        )
        limit = limits.classify(
            limits.Signal(
                provider=_provider(self._spec.model),
                status=status,
                headers=_headers_of(error),
                text=_body(error) or said,
                failed=True,
            ),
            now=self._clock(),
            host=self._host,
        )
        if limit.cls is LimitClass.UNKNOWN and (kind in _AWAY or (status or 0) >= 500):
            limit = Limit(cls=LimitClass.OVERLOAD, evidence=f"the model's endpoint does not answer ({status or kind})")
        if limit.cls in {LimitClass.EXHAUSTED, LimitClass.THROTTLE, LimitClass.OVERLOAD}:
            until = limit.reopens or self._clock() + _REST
            return Result(outcome=Parked(until=until, reason=limit.evidence), limit=limit, usage=heard.usage)
        return Result(outcome=self._failed(kind, status), usage=heard.usage)

    def _failed(self, kind: str, status: int | None) -> Outcome:
        if kind == "ContextWindowExceededError":
            error = "the prompt is longer than the model reads; set a smaller context_chars in the card"
            return Failed(error=error, retry=False)
        if kind == "Timeout" or status == 408:
            return Failed(error="the model did not answer in time")
        if status in {401, 403}:
            # Not the task's failure: it would spend the attempts of every task that waits.
            key = self._spec.key_env or "the key"
            return Parked(until=self._clock() + _KEY_REST, reason=f"the endpoint refuses {key} ({status})")
        return Failed(error=f"the model's endpoint refuses ({status or kind})", retry=status not in {400, 404, 422})


def _take(chunk: object, heard: _Heard) -> str:
    """The words of one piece of the stream; "" for one that only shows that the model is at work."""
    if usage := _part(chunk, "usage"):
        for name, to in (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens")):
            if isinstance(count := _part(usage, name), int):
                heard.usage[to] = count
    choices = _part(chunk, "choices")
    for choice in choices if isinstance(choices, list) else ():
        heard.finish = str(_part(choice, "finish_reason") or heard.finish)
        words = _part(_part(choice, "delta"), "content")
        if isinstance(words, str) and words:
            heard.text.append(words)
            return words
    return ""


def _part(of: object, name: str) -> object:
    return of.get(name) if isinstance(of, dict) else getattr(of, name, None)


# ---------------------------------------------------------------- at the library's edge

_loading: Final = threading.Lock()


def absent(card: AgentCard) -> str:
    """What must be installed before this card's model can be called, and how; "" when all of it is there."""
    if card.model is not None and card.model.model.startswith(tiny.PREFIX):
        return tiny.missing()
    if importlib.util.find_spec("litellm") is None:
        return "LiteLLM is not installed; switch it on with: pip install 'litellm>=1.110,<1.111'"
    return ""


def _litellm() -> Any:
    """The library, loaded by the first call. Raises Unavailable when it is not installed."""
    with _loading:
        if importlib.util.find_spec("litellm") is None:
            raise Unavailable("LiteLLM is not installed here", next="pip install 'litellm>=1.110,<1.111'")
        # Else it asks the network for a price list while it is loaded.
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a library's own affairs
            litellm: Any = importlib.import_module("litellm")
        litellm.suppress_debug_info = True
        litellm.telemetry = False
        return litellm


def _provider(model: str) -> str:
    return model.partition("/")[0] if "/" in model else ""


def _status(error: object) -> int | None:
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else None


def _headers_of(answer: object) -> dict[str, str]:
    """The provider's headers under their own names, wherever the library keeps them."""
    hidden = getattr(answer, "_hidden_params", None)
    found: dict[str, str] = {}
    for source in (
        hidden.get("additional_headers") if isinstance(hidden, dict) else None,
        getattr(answer, "_response_headers", None),
        getattr(getattr(answer, "response", None), "headers", None),
        getattr(answer, "litellm_response_headers", None),
    ):
        if isinstance(source, Mapping) or hasattr(source, "items"):
            found |= {str(k).lower().removeprefix("llm_provider-"): str(v) for k, v in source.items()}  # type: ignore[union-attr]
    return found


def _body(error: object) -> str:
    body = getattr(error, "body", None)
    if isinstance(body, dict) and body:
        return json.dumps(body, default=str)
    text = getattr(getattr(error, "response", None), "text", "")
    return text if isinstance(text, str) and text.lstrip().startswith("{") else ""


def _said(error: object) -> str:
    """The provider's own words, without the names of the library's classes before them."""
    text = str(getattr(error, "message", None) or error).strip()
    while (shorter := _PREFIX.sub("", text)) != text:
        text = shorter
    return text.partition("\n")[0].strip() or type(error).__name__
