"""Samples Produce and Fetch as they are received, and traces those that are sampled. The others are handled as without traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, Final, cast

from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import RequestHeader
from bmq.protocol.hot_produce import trace_in
from bmq.protocol.parts import Part
from bmq.protocol.request_context import RequestContext
from bmq.proxy.answer_slot import Slot
from bmq.proxy.appender import Appender
from bmq.proxy.dispatch import HOT_HANDLERS, HotHandler
from bmq.proxy.fetcher import Fetcher
from bmq.proxy.reply import Reply
from bmq.proxy.services import FetchHandler, Services
from bmq.proxy.traced_appends import TracedAppender
from bmq.proxy.traced_fetch import TracedFetcher
from bmq.tracing.trace import Attribute, Trace, decode_context
from bmq.tracing.traces import Traces

_CLIENT_ID_CHARS_MAX: Final = 256


class TracedReply:
    """The Reply of a traced request. The trace ends when the answer is sent, or cannot be."""

    __slots__ = ("_reply", "_trace", "_traces")

    def __init__(self, reply: Reply, trace: Trace, traces: Traces) -> None:
        self._reply = reply
        self._trace = trace
        self._traces = traces

    @property
    def is_done(self) -> bool:
        return self._reply.is_done

    def __call__(self, buffers: Sequence[Part] | None) -> None:
        trace, now_s = self._trace, self._traces.now_s
        has_left = isinstance(self._reply, Slot) and self._reply.is_done
        sending = trace.root.begin("send", now_s(), {"bmq.bytes": sum(map(len, buffers or ()))})
        self._reply(buffers)
        if buffers is None or has_left:
            trace.end(now_s(), error="the connection was closed")
        elif isinstance(self._reply, Slot):
            self._reply.when_sent = lambda: _sent(trace, sending.end, now_s())
        else:
            _sent(trace, sending.end, now_s())


def _sent(trace: Trace, end_sending: Callable[[float], None], now_s: float) -> None:
    end_sending(now_s)
    trace.end(now_s)


def traced_handlers(traces: Traces, *, is_between_nodes: bool) -> Mapping[ApiKey, HotHandler]:
    """HOT_HANDLERS, with those that sample. Between nodes a produce is traced if the node that forwards it says so."""
    produce, fetch = HOT_HANDLERS[ApiKey.PRODUCE], HOT_HANDLERS[ApiKey.FETCH]

    def sampled_produce(
        frame: bytearray, header: RequestHeader, context: RequestContext, services: Services, reply: Reply
    ) -> None:
        if traces.is_sampled() and (trace := traces.begin("produce", _about(frame, header, context, services))):
            _traced_produce(trace, frame, header, context, services, reply)
        else:
            produce(frame, header, context, services, reply)

    def continued_produce(
        frame: bytearray, header: RequestHeader, context: RequestContext, services: Services, reply: Reply
    ) -> None:
        encoded = trace_in(frame)
        parent = None if encoded is None else decode_context(encoded)
        trace = None
        if parent is not None:
            trace = traces.begin("produce at the owner", _about(frame, header, context, services), parent)
        if trace is None:
            produce(frame, header, context, services, reply)
        else:
            _traced_produce(trace, frame, header, context, services, reply)

    def _traced_produce(trace: Trace, frame: bytearray, *given: Any) -> None:
        header, context, services, reply = given
        services = copy(services)
        services.appender = cast(Appender, TracedAppender(services.appender, trace, traces))
        _handle(trace, produce, frame, header, context, services, TracedReply(reply, trace, traces))

    def sampled_fetch(
        frame: bytearray, header: RequestHeader, context: RequestContext, services: Services, reply: Reply
    ) -> None:
        if traces.is_sampled() and (trace := traces.begin("fetch", _about(frame, header, context, services))):
            services = copy(services)
            services.fetcher = cast(FetchHandler, TracedFetcher(cast(Fetcher, services.fetcher), trace))
            _handle(trace, fetch, frame, header, context, services, TracedReply(reply, trace, traces))
        else:
            fetch(frame, header, context, services, reply)

    def _handle(trace: Trace, handler: HotHandler, *given: Any) -> None:
        try:
            handler(*given)
        except Exception as error:
            trace.end(traces.now_s(), error=str(error))
            raise

    if is_between_nodes:
        return {**HOT_HANDLERS, ApiKey.PRODUCE: continued_produce}
    return {**HOT_HANDLERS, ApiKey.PRODUCE: sampled_produce, ApiKey.FETCH: sampled_fetch}


def _about(
    frame: bytearray, header: RequestHeader, context: RequestContext, services: Services
) -> dict[str, Attribute]:
    """Attributes of a request, by OpenTelemetry's names where it has one."""
    return {
        "messaging.system": "kafka",
        "messaging.client.id": (header.client_id or "")[:_CLIENT_ID_CHARS_MAX],
        "client.address": context.client_host,
        "client.port": context.client_port,
        "bmq.node_id": services.node.node_id,
        "bmq.api_version": header.api_version,
        "bmq.bytes": len(frame),
    }
