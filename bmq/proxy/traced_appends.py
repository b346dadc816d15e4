"""Notes how long each batch of a traced produce takes, from here to its result."""

from __future__ import annotations

from bmq.log.partition_log import AppendRequest, AppendResult, ProducedBatch
from bmq.log.transactions import TransactionClaim
from bmq.protocol.error_codes import ErrorCode
from bmq.proxy.appender import Appender
from bmq.tracing.trace import Attribute, Span, Trace
from bmq.tracing.traces import Traces


class TracedAppender:
    """The appender of one traced request. It puts itself in front of the process's appender."""

    def __init__(self, appender: Appender, trace: Trace, traces: Traces) -> None:
        self._appender = appender
        self._trace = trace
        self._traces = traces

    def append(self, batch: ProducedBatch) -> None:
        """As Appender.append."""
        topic_id, partition = batch.topic_partition
        about: dict[str, Attribute] = {
            "bmq.topic_id": str(topic_id),
            "messaging.destination.partition.id": str(partition),
            "bmq.bytes": len(batch.records),
        }
        span = self._trace.root.begin("append", self._traces.now_s(), about)
        traced = TracedAppend(batch.request, span, self._traces)
        batch.request = batch.receiver = traced
        self._traces.appends[traced] = span
        self._appender.append(batch)


class TracedAppend:
    """The AppendRequest of one batch. It passes the result on to the request of the client."""

    __slots__ = (
        "_request",
        "_span",
        "_traces",
        "arrived_s",
        "claim",
        "is_acks_all",
        "is_answered",
        "is_internal",
        "send_until_s",
    )

    def __init__(self, request: AppendRequest, span: Span, traces: Traces) -> None:
        self._request = request
        self._span = span
        self._traces = traces
        self.is_acks_all: bool = request.is_acks_all
        self.is_answered: bool = request.is_answered
        self.is_internal: bool = request.is_internal
        self.claim: TransactionClaim | None = request.claim
        self.arrived_s: float = request.arrived_s
        self.send_until_s: float = request.send_until_s

    def is_wanted(self) -> bool:
        """Implements AppendRequest.is_wanted."""
        return self._request.is_wanted()

    def answered(self, batch: ProducedBatch, result: AppendResult) -> None:
        """Implements Receiver.answered."""
        self._traces.appends.pop(self, None)
        error = None if result.error_code is ErrorCode.NONE else result.error_code.name
        self._span.end(self._traces.now_s(), error=error, messaging__kafka__offset=result.base_offset)
        self._request.answered(batch, result)
