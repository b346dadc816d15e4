"""Batches as tests append them: without a request, and with a function that gets the result."""

from __future__ import annotations

from math import inf
from typing import Any

from bmq.log.partition_log import ANY_EPOCH, AppendDone, LoneAppend, ProducedBatch, TopicPartition
from bmq.protocol.record_batch import parsed_header


def produced_batch(
    topic_partition: TopicPartition,
    records: memoryview,
    done: AppendDone,
    *,
    leader_epoch: int = ANY_EPOCH,
    **options: Any,
) -> ProducedBatch:
    """A batch that came after everything else, unless `options`, those of LoneAppend, say when it arrived."""
    request = LoneAppend(done, **{"arrived_s": inf, **options})
    return ProducedBatch(request, topic_partition, records, parsed_header(records), leader_epoch=leader_epoch)
