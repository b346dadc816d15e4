"""Records in the gateway's memory: read once from the cluster, handed to any number of subscribers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from bmq.gateway.v1 import gateway_pb2
from bmq.views.record_fields import RecordFields

Place = tuple[str, int]
"""Topic and partition."""
OVERHEAD_BYTES: Final = 200
"""About what a record takes in memory beside its key, value and headers."""


class HeldRecord(NamedTuple):
    """Immutable. `timestamp_ms`: -1 without one. `delivery_count`: the cluster's or the gateway's, 0 without a group."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    delivery_count: int = 0

    @property
    def place(self) -> Place:
        return self.topic, self.partition

    @property
    def size_bytes(self) -> int:
        """Of key, value and headers, and a share for the rest."""
        size = OVERHEAD_BYTES + len(self.key or b"") + len(self.value or b"")
        return size + sum(len(name) + len(value or b"") + 16 for name, value in self.headers)

    def fields(self) -> RecordFields:
        """What a filter reads."""
        headers = [(name.encode(), value) for name, value in self.headers]
        return RecordFields(self.key, headers, self.timestamp_ms, self.offset, self.partition)

    def as_message(self, delivery_id: int) -> gateway_pb2.DeliveredRecord:
        """For the wire; a null key or value stays absent."""
        return gateway_pb2.DeliveredRecord(
            delivery_id=delivery_id,
            topic=self.topic,
            partition=self.partition,
            offset=self.offset,
            timestamp_ms=self.timestamp_ms,
            key=self.key,
            value=self.value,
            headers=[gateway_pb2.Header(name=name, value=value) for name, value in self.headers],
            delivery_count=self.delivery_count,
        )
