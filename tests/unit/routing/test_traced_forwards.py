"""A trace goes on at the owner of the partition, whether or not the owner traces."""

from __future__ import annotations

import asyncio

import pytest

import bmq.proxy.handlers.produce  # noqa: F401 - registers itself
from bmq.log.partition_log import AppendResult
from bmq.proxy.appender import Appender
from bmq.proxy.traced_appends import TracedAppender
from bmq.tracing.trace import Trace
from tests.support.produced_batch import produced_batch
from tests.unit.routing.owner_nodes import Cluster, batch_of, key
from tests.unit.tracing.ended_traces import EndedTraces, all_of, names, span_of

pytestmark = pytest.mark.unit


def produce(cluster: Cluster) -> Trace:
    """One batch in a trace that begins at the proxy."""

    async def story() -> Trace:
        loop, sink = asyncio.get_running_loop(), EndedTraces()
        traces = all_of(loop.time, sink)
        cluster.router.context.traced_appends = traces.appends
        trace = traces.begin("produce", {})
        assert trace is not None
        appender = Appender(cluster.router)
        answer: asyncio.Future[AppendResult] = loop.create_future()
        TracedAppender(appender, trace, traces).append(produced_batch(key(), batch_of(b"v"), answer.set_result))
        assert (await answer).base_offset == 0
        trace.end(loop.time())
        appender.stop()
        assert not traces.appends
        return trace

    return cluster.run(story)


def test_the_owner_continues_the_trace() -> None:
    cluster, sink = Cluster(), EndedTraces()
    cluster.traces = all_of(cluster.loop.time, sink, seed=2)
    trace = produce(cluster)
    assert names(trace) == ["produce", "append", "forward"]
    forward = span_of(trace, "forward")
    assert forward.attributes == {"bmq.owner": 2}
    assert forward.parent_id == span_of(trace, "append").span_id
    at_owner = sink.named("produce at the owner")
    assert at_owner.trace_id == trace.trace_id
    assert at_owner.root.parent_id == forward.span_id
    assert names(at_owner) == ["produce at the owner", "append", "group commit", "send"]
    commit = span_of(at_owner, "group commit")
    assert commit.attributes["bmq.batches"] == 1
    assert str(commit.attributes["bmq.segment"]).endswith(".log")


def test_an_owner_without_traces_takes_the_batch_all_the_same() -> None:
    trace = produce(Cluster())
    assert [span.error for span in trace.spans] == [None] * 3
