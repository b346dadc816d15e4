"""How many nodes hold a partition's records: when to look for more, and how to answer a repeated batch."""

from __future__ import annotations

from typing import Final, NamedTuple

from bmq.broker.context import BrokerContext
from bmq.broker.own_segment import OwnSegment
from bmq.broker.partition_states import Writing
from bmq.log.config import LogConfig
from bmq.log.partition_files import PartitionFiles
from bmq.log.partition_log import AppendResult, ProducedBatch
from bmq.log.store import FencedWriter
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.record_batch import BatchHeader

UNCONFIRMED_S_MAX: Final = 900.0
"""No producer with default settings still retries a batch after that: librdkafka's message.timeout.ms is 5 minutes,
Java's delivery.timeout.ms 2. Three times the longer one, since both count from when the record was handed to the
client."""


def replicas_min(config: LogConfig, replicas_wanted: int) -> int:
    """Replicas acks=all needs: `min.insync.replicas`, capped at those the store makes (Partition.effectiveMinIsr)."""
    return min(config.min_insync_replicas, replicas_wanted)


def shortage_of(path: str, replicas: int, config: LogConfig, replicas_wanted: int) -> str | None:
    """Why a file may not replace others, None if it may: acknowledged records must stay on min.insync.replicas nodes."""
    minimum = replicas_min(config, replicas_wanted)
    return None if replicas >= minimum else f"{path} is on {replicas} nodes, and min.insync.replicas is {minimum}"


class _Unconfirmed(NamedTuple):
    producer_epoch: int
    base_offset: int
    since_s: float


class MinInsyncTracker:
    """What one partition's runtime remembers about its replicas.

    `assured_offset`: batches from here on were on enough nodes when this owner acknowledged them. `has_refused`:
    acks=all was refused since the open segment last had enough replicas. `looks`: retried batches whose replicas are
    being counted. `unconfirmed`: per producer id the last batch in the log that is not known to be on enough nodes.
    """

    __slots__ = ("_context", "_searched_s", "assured_offset", "has_refused", "looks", "unconfirmed")

    def __init__(self, context: BrokerContext) -> None:
        self.assured_offset = 0
        self.has_refused = False
        self.looks = 0
        self.unconfirmed: dict[int, _Unconfirmed] = {}
        self._context = context
        self._searched_s = float("-inf")

    def is_search_due(self, state: Writing, segment: OwnSegment, now_s: float) -> bool:
        """Whether to open another segment now, because it may get more replicas. True restarts the pause between tries.

        Each try costs the store a file. So a segment with enough replicas is tried seldom if it was not written to since
        the last try; a short one if it holds data or acks=all was refused, so that the partition recovers by itself.
        """
        if not state.is_short:
            self.has_refused = False
        if state.replicas >= state.limits.replicas_wanted:
            return False
        settings = self._context.settings
        if state.is_short:
            is_wanted, pause_s = self.has_refused or segment.written_bytes > 0, settings.min_insync_retry_s
            pace = self._context.urgent_searches
        else:
            is_wanted, is_quiet = segment.written_bytes > 0, segment.last_append_s < self._searched_s
            pause_s = settings.quiet_replicas_retry_s if is_quiet else settings.replicas_retry_s
            pace = self._context.searches
        if not is_wanted or now_s - max(segment.opened_s, self._searched_s) < pause_s or not pace.take(now_s):
            return False
        self._searched_s = now_s
        return True

    def note_unconfirmed(self, header: BatchHeader, base_offset: int, now_s: float) -> None:
        """A batch of this producer is in the log, perhaps on too few nodes."""
        if header.producer_id >= 0 and header.base_sequence >= 0:
            known = self.unconfirmed.get(header.producer_id)
            if known is None or known.base_offset <= base_offset or known.producer_epoch != header.producer_epoch:
                self.unconfirmed.pop(header.producer_id, None)  # re-added at the end, to keep the order by time
                self.unconfirmed[header.producer_id] = _Unconfirmed(header.producer_epoch, base_offset, now_s)

    def forget_expired(self, now_s: float) -> None:
        """Forget old entries of producers that have not retried: a restarted producer has another id."""
        unconfirmed = self.unconfirmed
        while unconfirmed:
            producer_id = next(iter(unconfirmed))
            if now_s - unconfirmed[producer_id].since_s < UNCONFIRMED_S_MAX:
                return
            del unconfirmed[producer_id]

    def is_unconfirmed(self, header: BatchHeader, now_s: float) -> bool:
        """Whether the producer of this batch has an earlier, unconfirmed one.

        Batches that coordinators write for producers have no sequence, so they cannot be mistaken for repeated ones.
        """
        if header.base_sequence < 0:
            return False
        known = self.unconfirmed.get(header.producer_id)
        if known is None:
            return False
        if known.producer_epoch == header.producer_epoch and now_s - known.since_s < UNCONFIRMED_S_MAX:
            return True
        del self.unconfirmed[header.producer_id]
        return False

    def _confirm(self, header: BatchHeader, base_offset: int) -> None:
        known = self.unconfirmed.get(header.producer_id)
        if known is not None and known.base_offset <= base_offset:
            del self.unconfirmed[header.producer_id]

    async def answer(
        self, files: PartitionFiles, batch: ProducedBatch, header: BatchHeader, success: AppendResult, minimum: int
    ) -> None:
        """Answer the retry of a durable batch: success once `minimum` nodes hold it, a retriable error until then."""
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        self.looks += 1
        try:
            location = await files.locate(success.base_offset)
            replicas = await files.store.count_replicas(location.path)
            code = ErrorCode.NONE if replicas >= minimum else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        except FencedWriter:
            pass
        except BmqError as error:
            # Out of range: retention has deleted the batch, so its replicas no longer matter. Other errors: retry.
            is_gone = error.code is ErrorCode.OFFSET_OUT_OF_RANGE
            code = ErrorCode.NONE if is_gone else ErrorCode.KAFKA_STORAGE_ERROR
        finally:
            self.looks -= 1
            if code is ErrorCode.NONE:
                self._confirm(header, success.base_offset)
            batch.complete(success if code is ErrorCode.NONE else success._replace(error_code=code))
