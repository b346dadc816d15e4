"""Kafka requests made inside of this process for a client of another protocol, such as REST.

A request passes the same handlers and the same authorization rules as one that came over a connection, with the principal and the
address of the client that it is made for. Client quotas and the limits of connections do not hold for it, so callers bound what
they ask for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from bmq.aio.answers import awaited_answer
from bmq.protocol.apis import APIS, ApiKey, Route
from bmq.protocol.codec import decode, decode_request, decode_response, encode_request, parse_request_header
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.parts import MEMORY, FilePart, Part
from bmq.protocol.request_context import NO_HOSTS, Received, RequestContext
from bmq.proxy.batch_opener import RunAside
from bmq.proxy.dispatch import HANDLERS, HOT_HANDLERS, EncodedBody, EncodedPieces
from bmq.proxy.services import Services

BY_NAME: Final = {ApiKey.PRODUCE: 12, ApiKey.FETCH: 12, ApiKey.OFFSET_COMMIT: 9, ApiKey.OFFSET_FETCH: 9}
"""The newest versions that name topics; newer ones have ids."""
_CORRELATION_ID: Final = 1
_ANY_HOST: Final = "0.0.0.0"
"""The host of a client without an address: its request does not count as one of this server itself (is_own)."""


class LocalRequests:
    """Answers requests by the services of this process. `client_id`, `listener`: as handlers see them.

    `run_aside`: reads files away from the event loop.
    """

    def __init__(
        self,
        services: Services,
        *,
        client_id: str = "bmq-rest",
        listener: str = "REST",
        run_aside: RunAside = asyncio.to_thread,
    ) -> None:
        self._services = services
        self._client_id = client_id
        self._listener = listener
        self._run_aside = run_aside

    def now_ms(self) -> int:
        """Wall time, as the broker sees it."""
        return self._services.clock.now_ms()

    async def ask(self, api_key: ApiKey, request: Any, *, principal: str, host: str) -> Any:
        """The response to a request, both messages of bmq.protocol.messages.

        `principal`: TYPE:NAME. `host`: the client's address, which ACLs may name. Raises BmqError when the whole request
        was refused and its response has no field for that.
        """
        version = BY_NAME.get(api_key, APIS[api_key].version_max)
        frame = bytearray(encode_request(api_key, version, _CORRELATION_ID, self._client_id, request))
        header = parse_request_header(frame)
        context = RequestContext(
            version,
            self._client_id,
            _ANY_HOST if host in NO_HOSTS else host,
            principal=principal,
            listener=self._listener,
        )
        if api_key in HOT_HANDLERS:
            return await self._ask_hot(api_key, frame, context)
        message = decode_request(header, frame)
        if APIS[api_key].route is not Route.LOCAL:
            context = _with(context, Received(frame, message))
        response = await HANDLERS[api_key](message, context, self._services)
        if isinstance(response, EncodedPieces):
            response = EncodedBody(b"".join(response.pieces))
        if isinstance(response, EncodedBody):
            return decode("response", api_key, version, response.data)
        return response

    async def _ask_hot(self, api_key: ApiKey, frame: bytearray, context: RequestContext) -> Any:
        reply = _Reply()
        try:
            HOT_HANDLERS[api_key](frame, parse_request_header(frame), context, self._services, reply)
            parts = await reply.answer
        finally:
            reply.answer.cancel()
        if parts is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{api_key.name} was not answered")
        return decode_response(api_key, context.api_version, await self.joined(parts))[1]

    async def joined(self, parts: Sequence[Part]) -> bytes:
        """The bytes of all parts. Raises KafkaError."""
        return b"".join([part if isinstance(part, MEMORY) else await self._read(part) for part in parts])

    async def _read(self, part: FilePart) -> bytes:
        try:
            found: bytes = await self._run_aside(partial(_whole, part))
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"a segment file cannot be read: {error}") from error
        if len(found) < len(part):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "a segment file is shorter than it was")
        return found


class _Reply:
    """Implements bmq.proxy.reply.Reply. `answer` is cancelled when nobody waits any more."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[Sequence[Part] | None]
        self.answer, self._done = awaited_answer()

    @property
    def is_done(self) -> bool:
        return self.answer.done()

    def __call__(self, buffers: Sequence[Part] | None) -> None:
        self._done(buffers)


def _with(context: RequestContext, received: Received) -> RequestContext:
    return RequestContext(
        context.api_version,
        context.client_id,
        context.client_host,
        principal=context.principal,
        listener=context.listener,
        received=received,
    )


def _whole(part: FilePart) -> bytes:
    """All bytes of a part, as far as its file has them. Raises OSError."""
    buffer = bytearray(len(part))
    view = memoryview(buffer)
    place = 0
    while place < len(view) and (count := part.fill(view[place:], place)):
        place += count
    return bytes(view[:place])
