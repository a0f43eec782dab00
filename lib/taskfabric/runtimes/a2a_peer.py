"""An A2A agent elsewhere, spoken to through the official SDK's client; what it says comes as plain ProtoJSON.

    with Peer("https://agent.example", Credential(secret=token)) as peer:
        for event in peer.send(message):   # None while it is silent
            ...

The SDK is asynchronous, so each peer has an event loop in a thread of its own; nothing of that shows here. The other
side is not trusted: its card sends us nowhere but to the address that was named, redirects are not followed, and its
answers have a size.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import queue
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeVar
from urllib.parse import urlsplit

import httpx
from a2a.client import A2ACardResolver, A2AClientError, A2AClientTimeoutError, Client, ClientConfig, ClientFactory
from a2a.client.errors import AgentCardResolutionError
from a2a.types import a2a_pb2
from a2a.utils import errors as a2a_errors
from a2a.utils.constants import TransportProtocol
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import Message as Proto

from taskfabric.domain.errors import BadInput, FabricError, NotAuthenticated, NotFound, Refused, Unavailable

Shape = Mapping[str, Any]  # a ProtoJSON object
T = TypeVar("T")

_CONNECT: Final = 10.0  # seconds
_TICK: Final = 0.5  # seconds of silence after which the reader may look around
_LARGEST: Final = 32 << 20  # bytes of all answers to one request
_SPOKEN: Final = (TransportProtocol.JSONRPC.value, TransportProtocol.HTTP_JSON.value)
_SAID: Final = 300  # characters of what the other side says about an error


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What we show to the other side."""

    secret: str = field(repr=False)
    header: str = ""  # "" = Authorization: Bearer

    @property
    def headers(self) -> dict[str, str]:
        return {self.header: self.secret} if self.header else {"Authorization": f"Bearer {self.secret}"}


class PeerFault(Exception):
    """The other side, or the way to it, did not do what was asked."""

    def __init__(
        self, said: str, *, error: str = "", status: int | None = None, headers: Shape | None = None, body: str = ""
    ) -> None:
        super().__init__(said)
        self.said = said
        self.error = error  # the protocol's name of the error; "" = it was none of the protocol's
        self.status = status  # of HTTP, where that says it; None with an empty ``error``: nobody answered
        self.headers: Shape = headers or {}
        self.body = body

    @property
    def is_silence(self) -> bool:
        """Nobody answered, or something before the agent did: whether the message arrived is not known."""
        return not self.error and (self.status is None or self.status >= 500)

    def plain(self, url: str) -> FabricError:
        """The same as an error for a person."""
        where = urlsplit(url).netloc
        match self.error:
            case "TaskNotFoundError":
                return NotFound(f"{where}: there is no such task, or it is not yours", next="check the task's id")
            case "":
                return self._of_http(where)
            case _:
                return BadInput(f"{where} refuses: {self.said}", error=self.error)

    def _of_http(self, where: str) -> FabricError:
        match self.status:
            case 401:
                return NotAuthenticated(
                    f"{where} does not accept the credential", next="name one with --token-file or A2A_TOKEN"
                )
            case 403:
                return Refused(f"{where} does not allow this", rule="remote", next="ask its owner for more rights")
            case 404:
                return NotFound(f"there is no agent at {where} under this address", next="check the URL")
            case None:
                return Unavailable(f"{where} does not answer: {self.said}", next="check the URL, or try again later")
            case _:
                return Unavailable(f"{where} answered {self.status}: {self.said}", next="try again later")


class Peer:
    """One agent elsewhere. ``patience`` in seconds is how long it may be silent."""

    def __init__(self, url: str, credential: Credential | None = None, *, patience: float = 60.0) -> None:
        check_url(url)
        for noisy in ("httpx", "httpcore", "a2a"):
            logging.getLogger(noisy).setLevel(logging.WARNING)
        self._url = url.rstrip("/")
        self._patience = patience
        self._headers = {"Accept-Encoding": "identity", **(credential.headers if credential else {})}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="a2a-peer", daemon=True)
        self._thread.start()
        self._http: httpx.AsyncClient | None = None
        self._card: a2a_pb2.AgentCard | None = None
        self._clients: dict[bool, Client] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing of it is left."""
        if self._loop.is_closed():
            return
        with contextlib.suppress(Exception):
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(5.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5.0)
        if not self._thread.is_alive():
            self._loop.close()

    # ---------------------------------------------------------------- what it can be asked

    def card(self) -> dict[str, Any]:
        """Its agent card. Raises PeerFault, BadInput for a card that leads elsewhere."""
        return _shape(self._ask(self._known_card))

    @property
    def streams(self) -> bool:
        """Whether it can tell while it works. Raises as ``card``."""
        return bool(self._ask(self._known_card).capabilities.streaming)

    def send(
        self, message: Shape, *, stream: bool = True, immediately: bool = False, key: str = ""
    ) -> Iterator[dict[str, Any] | None]:
        """What comes of a message: StreamResponses, None in between while it is silent. Raises PeerFault.

        ``key`` makes a repetition harmless where the other side knows such keys."""
        shape = {**message, "metadata": {**message.get("metadata", {}), "idempotencyKey": key}} if key else message
        request = a2a_pb2.SendMessageRequest(message=_proto(shape, a2a_pb2.Message()))
        request.configuration.return_immediately = immediately

        async def events() -> AsyncIterator[Proto]:
            client = await self._client(stream)
            async for event in client.send_message(request):
                yield event

        return self._listen(events)

    def subscribe(self, task_id: str) -> Iterator[dict[str, Any] | None]:
        """The task as it is, then what happens to it. Raises PeerFault, also for a task that has ended."""

        async def events() -> AsyncIterator[Proto]:
            client = await self._client(True)
            async for event in client.subscribe(a2a_pb2.SubscribeToTaskRequest(id=task_id)):
                yield event

        return self._listen(events)

    def get(self, task_id: str) -> dict[str, Any]:
        """The task. Raises PeerFault."""

        async def ask() -> a2a_pb2.Task:
            client = await self._client(False)
            return await client.get_task(a2a_pb2.GetTaskRequest(id=task_id))

        return _shape(self._ask(ask))

    def cancel(self, task_id: str, *, within: float | None = None) -> dict[str, Any]:
        """The task as it is afterwards; ``within`` so many seconds. Raises PeerFault."""

        async def ask() -> a2a_pb2.Task:
            client = await self._client(False)
            return await client.cancel_task(a2a_pb2.CancelTaskRequest(id=task_id))

        return _shape(self._ask(ask, within))

    # ---------------------------------------------------------------- between the colours

    def _ask(self, work: Callable[[], Coroutine[Any, Any, T]], within: float | None = None) -> T:
        future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return future.result(self._patience + _CONNECT if within is None else within)
        except TimeoutError:
            future.cancel()
            raise PeerFault("it took too long") from None
        except (FabricError, PeerFault):
            raise
        except Exception as error:
            raise _fault(error) from error

    def _listen(self, events: Callable[[], AsyncIterator[Proto]]) -> Iterator[dict[str, Any] | None]:
        heard: queue.SimpleQueue[dict[str, Any] | BaseException | None] = queue.SimpleQueue()

        async def pump() -> None:
            try:
                async for event in events():
                    heard.put(_shape(event))
                heard.put(None)
            except BaseException as error:
                heard.put(error)
                if not isinstance(error, Exception):
                    raise

        future = asyncio.run_coroutine_threadsafe(pump(), self._loop)
        try:
            while True:
                try:
                    one = heard.get(timeout=_TICK)
                except queue.Empty:
                    yield None
                    continue
                if one is None:
                    return
                if isinstance(one, FabricError | PeerFault):
                    raise one
                if isinstance(one, BaseException):
                    raise _fault(one) from one
                yield one
        finally:
            future.cancel()

    async def _known_card(self) -> a2a_pb2.AgentCard:
        if self._card is None:
            card = await A2ACardResolver(self._web(), self._url).get_agent_card()
            ours = [i for i in card.supported_interfaces if _same_site(i.url, self._url)]
            spoken = [i for i in ours if i.protocol_binding in _SPOKEN]
            if not spoken:
                raise _no_way_in(card, self._url, ours)
            del card.supported_interfaces[:]
            card.supported_interfaces.extend(spoken)
            self._card = card
        return self._card

    async def _client(self, streaming: bool) -> Client:
        if streaming not in self._clients:
            card = await self._known_card()
            config = ClientConfig(
                streaming=streaming, httpx_client=self._web(), supported_protocol_bindings=list(_SPOKEN)
            )
            self._clients[streaming] = ClientFactory(config).create(card)
        return self._clients[streaming]

    def _web(self) -> httpx.AsyncClient:
        if self._http is None:
            self._http = httpx.AsyncClient(
                headers=self._headers,
                timeout=httpx.Timeout(self._patience, connect=_CONNECT),
                transport=_Bounded(),
                trust_env=False,
            )
        return self._http

    async def _end(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._http is not None:
            await self._http.aclose()
        await self._loop.shutdown_asyncgens()


class _Bounded(httpx.AsyncHTTPTransport):
    """Answers have a size, and are what was sent: nothing is unpacked, so that little cannot become much."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await super().handle_async_request(request)
        headers = [(name, value) for name, value in answer.headers.raw if name.lower() != b"content-encoding"]
        assert isinstance(answer.stream, httpx.AsyncByteStream)
        return httpx.Response(
            answer.status_code, headers=headers, stream=_Counted(answer.stream), extensions=answer.extensions
        )


class _Counted(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = _LARGEST
        async for piece in self._inner:
            left -= len(piece)
            if left < 0:
                raise httpx.ReadError(f"it says more than {_LARGEST >> 20} MiB")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


# ---------------------------------------------------------------- shapes and faults


def check_url(url: str) -> None:
    """Raises BadInput for what is no address of an agent."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise BadInput(
            f"{url[:80]!r} is not the address of an agent", next="write it as https://host/path", field="url"
        )


def _same_site(one: str, other: str) -> bool:
    return _site(one) == _site(other)


def _site(url: str) -> tuple[str, str, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ("", url, None)
    host = "127.0.0.1" if parts.hostname == "localhost" else parts.hostname or ""
    return parts.scheme, host, port or {"http": 80, "https": 443}.get(parts.scheme)


def _no_way_in(card: a2a_pb2.AgentCard, url: str, ours: list[a2a_pb2.AgentInterface]) -> BadInput:
    if ours or not card.supported_interfaces:
        return BadInput(
            f"the agent at {urlsplit(url).netloc} speaks neither JSON-RPC nor HTTP+JSON", next="ask its owner"
        )
    there = urlsplit(card.supported_interfaces[0].url)
    return BadInput(
        f"the card at {urlsplit(url).netloc} leads to {there.scheme}://{there.netloc[:100]}, and nothing is sent"
        " to an address that another one named",
        next="use that address itself, if you trust it",
    )


def _proto(shape: Shape, into: a2a_pb2.Message) -> a2a_pb2.Message:
    try:
        parsed: a2a_pb2.Message = ParseDict(dict(shape), into)
    except ParseError as cause:
        raise BadInput(f"this is no A2A message: {str(cause)[:_SAID]}") from cause
    return parsed


def _shape(proto: Proto) -> dict[str, Any]:
    shape: dict[str, Any] = MessageToDict(proto)
    return shape


def _fault(error: BaseException) -> PeerFault:
    """What went wrong, as ours."""
    cause = error.__cause__
    if isinstance(cause, httpx.HTTPStatusError):
        answer = cause.response
        body = answer.text[:10_000] if answer.is_stream_consumed else ""
        said = _message_in(body) or answer.reason_phrase or f"status {answer.status_code}"
        return PeerFault(said, status=answer.status_code, headers=dict(answer.headers), body=body)
    if isinstance(error, AgentCardResolutionError):
        return PeerFault(_short(cause or error), status=error.status_code)
    if isinstance(error, A2AClientTimeoutError | httpx.TimeoutException | TimeoutError):
        return PeerFault("it took too long")
    if isinstance(error, httpx.HTTPError) or (isinstance(error, A2AClientError) and isinstance(cause, httpx.HTTPError)):
        return PeerFault(_short(cause if isinstance(cause, httpx.HTTPError) else error))
    if isinstance(error, A2AClientError):
        return PeerFault(_short(error), error="A2AClientError")
    if isinstance(error, a2a_errors.A2AError):
        return PeerFault(_short(error), error=type(error).__name__)
    if isinstance(error, asyncio.CancelledError):
        return PeerFault("it was ended")
    return PeerFault(f"its answer cannot be read ({type(error).__name__})", error="InvalidAgentResponseError")


def _message_in(body: str) -> str:
    try:
        shape = json.loads(body)
        said = shape["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return ""
    return said[:_SAID] if isinstance(said, str) else ""


def _short(error: BaseException) -> str:
    return (str(error).partition("\n")[0].strip() or type(error).__name__)[:_SAID]


__all__ = ["Credential", "Peer", "PeerFault", "Shape", "check_url"]
