"""Answers a large request part by part. The request was decoded before, or each part is when it is due (streamed_parts)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bmq.aio.loop_turns import LoopTurns, run_in_turns
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import RequestHeader, array_codec
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.refusals import refused
from bmq.protocol.request_context import RequestContext
from bmq.protocol.request_parts import Joined, Part, elements_of
from bmq.protocol.streamed_parts import EncodedJoined, StreamedParts
from bmq.protocol.wire import Buffer
from bmq.proxy.dispatch import EncodedPieces, Handler
from bmq.proxy.services import Services
from bmq.proxy.split_requests import CHANGES_MAX, Split, cut, is_cut, streamed, streamed_splits_of, without_repeats

ANSWER_ELEMENTS_MAX: Final = 1_000_000
"""Most array elements of one answer: a small request may name many times what has a long answer."""


class AnswerTooLarge(Exception):
    """The joined answer has more than ANSWER_ELEMENTS_MAX elements."""


async def surveyed(
    api_key: ApiKey, header: RequestHeader, frame: Buffer, turns: LoopTurns
) -> tuple[Split, StreamedParts] | None:
    """A request's parts, to be decoded when they are due; None if it has to be decoded as a whole. Raises MalformedMessage."""
    for split in streamed_splits_of(api_key, header.api_version):
        parts = streamed(split, header, frame)
        await run_in_turns(parts.survey(), turns)
        if is_cut(parts, split):
            return split, parts
    return None


class PartAnswers:
    """Answers one request in parts. `is_too_late`: returns whether no further part may be carried out (rule 22).

    Its methods are Handlers. They return None, for no answer, if the request took too long, so that the rest must not be carried
    out. They raise AnswerTooLarge.
    """

    def __init__(
        self, handler: Handler, api_key: ApiKey, split: Split, turns: LoopTurns, is_too_late: Callable[[], bool]
    ) -> None:
        self._handler = _refuse_many if split.bounded else handler
        self._api_key = api_key
        self._split = split
        self._turns = turns
        self._is_too_late = is_too_late
        self._elements = 0

    async def decoded(self, request: Any, context: RequestContext, services: Services) -> Any:
        """The answer to a request that was decoded as a whole."""
        joined = Joined(self._split.answered)
        for part in cut(await run_in_turns(without_repeats(request, self._split), self._turns), self._split):
            response = await self._answer(part, context, services)
            if response is None:
                return None
            if not joined.add(part, response):
                break
            await self._turns.next()
        return joined.response

    async def streamed(self, parts: StreamedParts, request: Any, context: RequestContext, services: Services) -> Any:
        """The answer (EncodedPieces or a message) to a request that is decoded part by part. `request`: it, without elements."""
        array = self._split.answered[0]
        joined = EncodedJoined(self._split.answered, array_codec("response", self._api_key, context.api_version, array))
        while (some := await run_in_turns(parts.next(), self._turns)) is not None:
            await self._turns.next()
            for part in some:
                response = await self._answer(part, context, services)
                if response is None:
                    return None
                if not await run_in_turns(joined.add(part, response), self._turns):
                    return joined.response
                await self._turns.next()
        pieces = await run_in_turns(joined.finish(), self._turns)
        return joined.response if pieces is None else EncodedPieces(pieces, joined.error_code)

    async def _answer(self, part: Part, context: RequestContext, services: Services) -> Any:
        try:
            response = await self._handler(part.request, context, services)
        except BmqError as error:
            response = refused(self._api_key, part.request, error.code, str(error))
        if response is None or self._is_too_late():
            return None
        self._elements += await run_in_turns(elements_of(response), self._turns)
        if self._elements > ANSWER_ELEMENTS_MAX:
            raise AnswerTooLarge(f"the answer to {self._api_key.name} has more than {ANSWER_ELEMENTS_MAX} elements")
        return response


async def _refuse_many(request: Any, context: RequestContext, services: Services) -> Any:
    raise KafkaError(ErrorCode.POLICY_VIOLATION, f"one request may change {CHANGES_MAX} things at most")
