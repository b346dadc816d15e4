"""TailFetch: news of the partitions that this connection follows."""

from __future__ import annotations

from collections.abc import Sequence

from bmq.internode_server.services import internal
from bmq.internode_server.tail_feed import SentPart
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import RequestHeader, decode_request
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.hot_tail import encode_tail_response
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles_hot
from bmq.proxy.reply import Reply
from bmq.proxy.services import Services


@handles_hot(ApiKey.TAIL_FETCH)
def tail_fetch(
    frame: bytearray, header: RequestHeader, context: RequestContext, services: Services, reply: Reply
) -> None:
    """TailFetch 0: a long poll."""
    request = decode_request(header, frame)
    if context.peer is None:
        raise MalformedMessage("partitions are followed over a connection of one's own")
    here = internal(services)

    def answer(parts: Sequence[SentPart]) -> None:
        reply(encode_tail_response(header.correlation_id, parts))

    here.tails.of(context.peer, here.manager).fetch(request, answer)
