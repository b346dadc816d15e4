"""Answers requests that need a task: runs their handlers, and encodes the responses.

Large requests wait for room, and are decoded and answered in turns of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol, cast

import structlog

from bmq.aio.loop_turns import LoopTurns, run_in_turns
from bmq.protocol.apis import Api, ApiKey, Route
from bmq.protocol.codec import (
    RequestHeader,
    decode_request_in_turns,
    encode_response_header,
    encode_response_in_turns,
)
from bmq.protocol.errors import BmqError, MalformedMessage, UnsupportedVersion
from bmq.protocol.refusals import refused
from bmq.protocol.request_context import Received, RequestContext
from bmq.proxy.answer_slot import Slot
from bmq.proxy.dispatch import HANDLERS, EncodedBody, EncodedPieces, Handler
from bmq.proxy.large_requests import LargeRequests, decoded_bytes
from bmq.proxy.limits import ProxyLimits
from bmq.proxy.part_answers import AnswerTooLarge, PartAnswers, surveyed
from bmq.proxy.services import Services
from bmq.proxy.split_requests import READING, split_of
from bmq.proxy.stats import ProxyStats

log = structlog.get_logger("bmq.proxy")

WAIT_FOR_MEMBERS: Final = frozenset((ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP))
"""Requests that are answered once other members of the group have sent theirs."""
WAIT_LONG: Final = WAIT_FOR_MEMBERS | {ApiKey.SHARE_FETCH}
"""Requests that may wait for long. The memory that they take meanwhile is bounded elsewhere."""


class Shared(Protocol):
    """The part of bmq.proxy.server.KafkaServer that is used here."""

    limits: ProxyLimits
    loop: asyncio.AbstractEventLoop
    stats: ProxyStats
    turns: LoopTurns
    large_requests: LargeRequests
    is_debug: bool


class RequestAnswers:
    """Answers requests. Each coroutine calls its slot exactly once, or closes the slot's connection."""

    __slots__ = ("_services", "_shared")

    def __init__(self, shared: Shared, services: Services) -> None:
        self._shared = shared
        self._services = services

    async def answer(
        self,
        handler: Handler,
        api_key: ApiKey,
        header: RequestHeader,
        request: Any,
        context: RequestContext,
        slot: Slot,
    ) -> None:
        throttle = context.throttle
        try:
            answering = handler(request, context, self._services)
            response = await (
                answering if throttle is None else throttle.drive(cast(Coroutine[Any, Any, Any], answering))
            )
        except AnswerTooLarge as error:
            slot.connection.close(str(error))
            return
        except BmqError as error:
            response = refused(api_key, request, error.code, str(error))
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            self.note_failure(api_key, slot, error)
            response = refused(api_key, request, BmqError.code, "")
        if response is None:
            slot(None)
            return
        if throttle is not None:
            throttle_ms = getattr(response, "throttle_time_ms", 0)
            wait_ms = throttle.answered(throttle_ms)
            if wait_ms > throttle_ms and hasattr(response, "throttle_time_ms"):
                response.throttle_time_ms = wait_ms
        code = getattr(response, "error_code", 0)
        if code:
            self._shared.stats.note_error(api_key, code)
        head = (api_key, header.api_version, header.correlation_id)
        try:
            if isinstance(response, EncodedBody):
                slot((encode_response_header(*head), response.data))
            elif isinstance(response, EncodedPieces):
                slot((encode_response_header(*head), *response.pieces))
            else:
                slot((await run_in_turns(encode_response_in_turns(*head, response), self._shared.turns),))
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            # For example, a string is too long for the response. Later requests must not wait for this one for ever.
            self.note_failure(api_key, slot, error)
            slot(None)

    async def answer_large(
        self,
        api_key: ApiKey,
        api: Api,
        header: RequestHeader,
        frame: bytearray,
        context: RequestContext,
        received_s: float,
        slot: Slot,
    ) -> None:
        """Decode and answer a large request in turns, once there is room. `received_s`: the event loop's time when it came."""
        shared = self._shared
        admission = await shared.large_requests.admit(decoded_bytes(len(frame)))
        try:
            request, parts = None, None
            turns = shared.turns
            try:
                if len(frame) > shared.limits.decoded_whole_bytes_max:
                    parts = await surveyed(api_key, header, frame, turns)
                if parts is None:
                    request = await run_in_turns(decode_request_in_turns(header, frame), turns)
            except (MalformedMessage, UnsupportedVersion) as error:
                slot.connection.close(f"{api_key.name} version {header.api_version}: {error}")
                return
            if self._is_too_old(api_key, received_s):
                slot.connection.close(f"a large {api_key.name} waited until its client may have given it up")
                return
            if api_key in WAIT_LONG:
                # These wait for minutes, and end with their connection, so it has to be read. The memory that groups keep for
                # them is bounded elsewhere.
                admission.release()
                shared.loop.call_soon(slot.connection.release, slot)
            handler = HANDLERS[api_key]
            is_too_late = partial(self._is_too_old, api_key, received_s)
            if parts is not None:
                split, streamed = parts
                request = streamed.request
                handler = partial(PartAnswers(handler, api_key, split, turns, is_too_late).streamed, streamed)
            elif (found := split_of(api_key, header.api_version, request)) is not None:
                handler = PartAnswers(handler, api_key, found, turns, is_too_late).decoded
            else:
                context = with_received(context, api, frame, request, received_s)
            if context.received is None:
                frame = bytearray()  # parts that are forwarded get frames of their own
                context = replace(context, received_s=received_s)
            await self.answer(handler, api_key, header, request, context, slot)
        finally:
            admission.release()

    async def fetch_large(self, header: RequestHeader, frame: bytearray, context: RequestContext, slot: Slot) -> None:
        admission = await self._shared.large_requests.admit(decoded_bytes(len(frame)))
        services = self._services
        try:
            await services.fetcher.fetch_in_turns(frame, header, context, services, slot)
        except (MalformedMessage, UnsupportedVersion) as error:
            slot.connection.close(f"FETCH version {header.api_version}: {error}")
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            self.note_failure(ApiKey.FETCH, slot, error)
            slot(None)
        finally:
            admission.release()

    def note_failure(self, api_key: ApiKey, slot: Slot, error: Exception) -> None:
        """Log a bug of ours."""
        log.error(
            "handler_failed",
            api=api_key.name,
            client=slot.connection.host,
            error=repr(error),
            exc_info=self._shared.is_debug,
        )

    def _is_too_old(self, api_key: ApiKey, received_s: float) -> bool:
        """Whether a large request is too old to change anything (rule 22): its client may have given it up and gone on."""
        if api_key in READING:
            return False
        shared = self._shared
        return shared.loop.time() - received_s > shared.limits.large_request_ms / 1000


def with_received(
    context: RequestContext, api: Api, frame: bytearray, request: Any, received_s: float
) -> RequestContext:
    """The context, with the time at which the request came, and with its frame if it may be forwarded to another node."""
    received = None if api.route is Route.LOCAL else Received(frame, request)
    # One call with all fields: `dataclasses.replace` takes several times as long, and this runs for each request.
    return RequestContext(
        context.api_version,
        context.client_id,
        context.client_host,
        context.client_software_name,
        context.client_software_version,
        context.principal,
        context.is_token,
        context.listener,
        context.peer,
        context.apis,
        received_s,
        received,
        context.leader_epoch,
        context.client_port,
        context.turns,
        context.throttle,
    )
