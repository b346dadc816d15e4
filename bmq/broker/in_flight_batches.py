"""What an owner has accepted but not yet made durable. Pure."""

from __future__ import annotations

from collections import deque

from bmq.broker.partition_events import ANY_BYTES, Limits
from bmq.log.padding import padded_end
from bmq.log.partition_log import Batch


class InFlightBatches:
    """Batches placed but not durable, oldest first: `written` to the current segment, `waiting` to be written.

    `append_ends` has the end offset of each outstanding append. `segment_bytes` have been written to the current
    segment, whose limit is `segment_bytes_max`; `following_bytes_max`: the limit of the next one, once it is open.
    `taken`: the batches removed last; if the step fails afterwards, they can still be answered from here (rule 23).
    """

    __slots__ = (
        "append_ends",
        "following_bytes_max",
        "high_watermark",
        "log_end_offset",
        "segment_bytes",
        "segment_bytes_max",
        "taken",
        "waiting",
        "written",
    )

    def __init__(self, high_watermark: int, segment_bytes_max: int = ANY_BYTES) -> None:
        self.high_watermark = high_watermark
        self.log_end_offset = high_watermark
        self.segment_bytes = 0
        self.segment_bytes_max = segment_bytes_max
        self.following_bytes_max = ANY_BYTES
        self.written: deque[Batch] = deque()
        self.waiting: deque[Batch] = deque()
        self.append_ends: deque[int] = deque()
        self.taken: tuple[Batch, ...] = ()

    def place(self, batch: Batch) -> None:
        batch.base_offset = offset = self.log_end_offset
        self.log_end_offset = offset + batch.offset_count
        self.waiting.append(batch)

    def bytes_max(self, limits: Limits) -> int:
        """The current segment's size limit: by the topic's settings, and by the size it was opened for."""
        return min(limits.segment_bytes, self.segment_bytes_max)

    def is_segment_nearly_full(self, limits: Limits) -> bool:
        """Whether to open the next segment ahead of need: at the same share of a small segment as of a large one."""
        return self.segment_bytes >= limits.preopen_bytes * self.bytes_max(limits) // limits.segment_bytes

    def take_until_segment_is_full(self, limits: Limits) -> tuple[Batch, ...]:
        """Move what fits into the segment from waiting to written. An empty segment takes a batch of any size."""
        waiting = self.waiting
        room = self.bytes_max(limits) - self.segment_bytes
        size = 0
        taken: list[Batch] = []
        while waiting:
            after = size + waiting[0].size_bytes
            if after > room and (taken or self.segment_bytes):
                break
            size = after
            taken.append(waiting.popleft())
        if taken:
            self.written.extend(taken)
            self.segment_bytes = padded_end(self.segment_bytes + size, limits.append_alignment_bytes)
            self.append_ends.append(taken[-1].end_offset)
        return tuple(taken)

    def take_synced(self, end_offset: int) -> tuple[Batch, ...]:
        """Remove the batches below `end_offset`, now durable; the high watermark moves to their end."""
        ends = self.append_ends
        while ends and ends[0] <= end_offset:
            ends.popleft()
        written = self.written
        synced: list[Batch] = []
        while written and written[0].end_offset <= end_offset:
            synced.append(written.popleft())
        self.high_watermark = max(self.high_watermark, end_offset)
        self.taken = tuple(synced)
        return self.taken

    def write_again(self) -> None:
        """The segment is closed: batches written behind its end have to go into the next one."""
        self.waiting.extendleft(reversed(self.written))
        self.written.clear()
        self.append_ends.clear()
        self.segment_bytes = 0

    def take_all(self) -> tuple[Batch, ...]:
        self.taken = batches = (*self.written, *self.waiting)
        self.written.clear()
        self.waiting.clear()
        self.append_ends.clear()
        self.log_end_offset = self.high_watermark
        return batches

    def take_waiting(self) -> tuple[Batch, ...]:
        self.taken = batches = tuple(self.waiting)
        self.waiting.clear()
        if batches:
            self.log_end_offset = batches[0].base_offset
        return batches

    def take_acks_all(self) -> tuple[Batch, ...]:
        """Remove the first waiting batch with acks=all and all after it, because their offsets are consecutive."""
        waiting = self.waiting
        kept = next((index for index, batch in enumerate(waiting) if batch.is_acks_all), len(waiting))
        self.taken = batches = tuple(waiting)[kept:]
        for _ in batches:
            waiting.pop()
        if batches:
            self.log_end_offset = batches[0].base_offset
        return batches
