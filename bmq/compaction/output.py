"""The new segment of a group, as far as it is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bmq.compaction.log_cleaner import CleanedBatch
from bmq.log.manifest import Extent
from bmq.log.segment_index import IndexBuilder, SegmentIndex
from bmq.log.store import Buffer
from bmq.protocol.record_batch import NO_TIMESTAMP_MS

OUT_BYTES: Final = 512 * 1024
"""So many bytes are given at once."""


class Output:
    """Collects batches and builds their index. `size_bytes`: those that were not taken yet."""

    def __init__(self, extents: Sequence[Extent], index_interval_bytes: int) -> None:
        self._builder = IndexBuilder(0, 0, 0, extents[0].base_offset, interval_bytes=index_interval_bytes)
        self._parts: list[Buffer] = []
        self.size_bytes = 0
        """Bytes that were not taken yet."""
        self.position = 0
        self.batch_count = self.record_count = 0

    def add(self, batches: Sequence[CleanedBatch]) -> None:
        for header, data in batches:
            # A search by time must not end at a batch without records.
            told = header if header.record_count else header._replace(max_timestamp_ms=NO_TIMESTAMP_MS)
            self._builder.add(told, header.base_offset, self.position)
            self._parts.append(data)
            self.batch_count += 1
            self.record_count += header.record_count
            self.position += len(data)
            self.size_bytes += len(data)

    def take(self) -> bytes:
        data = b"".join(self._parts)
        self._parts.clear()
        self.size_bytes = 0
        return data

    def index(self) -> SegmentIndex:
        return self._builder.build(self.position)
