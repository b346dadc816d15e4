"""Notes the write of an owner in which batches of traced produces are: the group commit, and each DataNode's acknowledgement."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bmq.broker.own_segment import OwnSegment
from bmq.log.partition_log import ProducedBatch
from bmq.log.store import AckedByNodes, Appended
from bmq.tracing.trace import Span
from bmq.tracing.traces import Appends


def note_write(
    appends: Appends, batches: Sequence[ProducedBatch], segment: OwnSegment, written: Appended, begun_s: float
) -> None:
    """Called when the batches were just handed to the segment's writer, before anybody hears of `written`."""
    spans: list[Span] = [span for batch in batches if (span := appends.get(batch.request)) is not None]
    if not spans:
        return
    loop = asyncio.get_running_loop()
    commits = [
        span.begin(
            "group commit",
            begun_s,
            {
                "bmq.segment": segment.writer.path,
                "bmq.leader_epoch": segment.leader_epoch,
                "bmq.batches": len(batches),
                "bmq.bytes": sum([batch.size_bytes for batch in batches]),
            },
        )
        for span in spans
    ]

    def acknowledged(nodes: tuple[str, ...]) -> None:
        now_s = loop.time()
        for commit in commits:
            commit.begin("hdfs ack", begun_s, {"bmq.hdfs.datanodes": nodes}).end(now_s)

    def ended(answer: Appended) -> None:
        error = "cancelled" if answer.cancelled() else answer.exception()
        for commit in commits:
            commit.end(loop.time(), error=None if error is None else str(error))

    if written.done():
        ended(written)
        return
    written.add_done_callback(ended)
    if isinstance(segment.writer, AckedByNodes):
        segment.writer.watch_acks(acknowledged)
