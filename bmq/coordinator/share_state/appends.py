"""Appends a shard's decisions about share partitions to its log, and reserves their records until they are durable."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from bmq.coordinator.runtime.moment import Moment
from bmq.coordinator.share_state.decisions import Span
from bmq.coordinator.share_state.metrics import ShareStateMetrics
from bmq.coordinator.share_state.partition import PartitionKey, SharePartition
from bmq.coordinator.share_state.records import update_key
from bmq.coordinator.share_state.update_run import UpdateRun
from bmq.coordinator.share_state.window import Window
from bmq.log.state_log import KeyValue, StateLog
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.share_state_records import StateKey, StateValue, UpdateValue, encode_key, encode_value

T = TypeVar("T")


class AppendingShard(Protocol):
    """What this needs of the shard."""

    is_lost: bool
    state_log: StateLog

    def append(self, records: Sequence[KeyValue]) -> asyncio.Future[int]:
        """Like StateLog.append."""

    def now(self) -> Moment: ...

    def append_ended(self, error: KafkaError | None) -> None:
        """An append of a run has this outcome."""

    def apply(self, key: PartitionKey, value: UpdateValue, begun_ms: int) -> None:
        """The change is durable, whose append began then (wall clock)."""

    def news(self, partition: SharePartition) -> None:
        """More records can be acquired."""


class Appends:
    """Of one shard."""

    def __init__(self, shard: AppendingShard, metrics: ShareStateMetrics, message_max_bytes: int) -> None:
        self._shard = shard
        self._metrics = metrics
        self._message_max_bytes = message_max_bytes
        self._loop = asyncio.get_running_loop()

    async def write(self, partition: SharePartition, window: Window, value: UpdateValue, spans: Iterable[Span]) -> None:
        """Like `begin`; returns when it is durable. Raises KafkaError."""
        # A proxy that gives up does not cancel the append.
        await asyncio.shield(self.begin(partition, window, value, spans))

    def begin(
        self, partition: SharePartition, window: Window, value: UpdateValue, spans: Iterable[Span]
    ) -> asyncio.Future[None]:
        """Append a change of these records, which are reserved until it has ended. Raises KafkaError MESSAGE_TOO_LARGE."""
        shard, spans = self._shard, list(spans)
        done = self.update(partition, value)
        for span in spans:
            window.reserve(*span)
        partition.last_append = done

        def finish(done: asyncio.Future[None]) -> None:
            if partition.last_append is done:
                partition.last_append = None
            if shard.is_lost or done.cancelled() or done.exception() is None:
                return
            for span in spans:
                window.free(*span)
            if partition.window is window:
                shard.news(partition)

        done.add_done_callback(finish)
        return done

    def update(self, partition: SharePartition, value: UpdateValue) -> asyncio.Future[None]:
        """Append a change; it is applied as it stands here, without being decoded. Raises KafkaError MESSAGE_TOO_LARGE."""
        shard, place = self._shard, partition.key
        key = partition.update_key
        if not key:
            key = partition.update_key = _encoded(encode_key, update_key(place))
        encoded = _encoded(encode_value, value)
        self._require_size(len(key) + len(encoded))

        begun_ms = shard.now().wall_ms

        def change() -> None:
            shard.apply(place, value, begun_ms)

        run = UpdateRun(key, encoded, change, shard.append_ended, self._loop.create_future())
        shard.state_log.append_run(run)
        return self._metrics.timed(run.done)

    def state(self, key: StateKey, value: StateValue | None) -> asyncio.Future[int]:
        """Append a whole state, or its end. Raises KafkaError MESSAGE_TOO_LARGE."""
        record = _encoded(encode_key, key), None if value is None else _encoded(encode_value, value)
        self._require_size(sum(len(part or b"") for part in record))
        return self._metrics.timed(self._shard.append([record]))

    def _require_size(self, size_bytes: int) -> None:
        """Raises KafkaError MESSAGE_TOO_LARGE."""
        if size_bytes > self._message_max_bytes:
            why = f"a record of {size_bytes} bytes, {self._message_max_bytes} are allowed"
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, why)


def _encoded(encode: Callable[[T], bytes], part: T) -> bytes:
    """Raises KafkaError INVALID_REQUEST."""
    try:
        return encode(part)
    except struct.error as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"a name or number is too large: {error}") from error
