"""Fetch: records from the tail, the read cache or the store, with sessions and waiting. See bmq/proxy/fetcher.py."""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import RequestHeader
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles_hot
from bmq.proxy.reply import Reply
from bmq.proxy.services import Services


@handles_hot(ApiKey.FETCH)
def fetch(frame: bytearray, header: RequestHeader, context: RequestContext, services: Services, reply: Reply) -> None:
    """Fetch 4-18. Raises MalformedMessage."""
    services.fetcher.fetch(frame, header, context, services, reply)
