"""One segment file of this leader epoch: its writer, how much is written, and its growing index. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from bmq.log.padding import padded_end
from bmq.log.partition_log import ProducedBatch
from bmq.log.segment_index import IndexBuilder
from bmq.log.store import Buffer, Durability, SegmentWriter
from bmq.protocol.record_batch import rewrite


class OwnSegment:
    """`written_bytes` were handed to the writer; `index`, made at the first write, covers the durable batches.

    `closed_bytes` is the file's length once it is closed (-1 before); more than the valid bytes if a torn batch or padding
    lies behind the last whole one. `alignment_bytes`: appends are padded to a multiple of it (1: not padded); it and
    the durability never change, whatever the topic asks for later. `first_append_s`: None before the first append.
    `was_broken`: its writer was, when the last append had been decided. Times: seconds of the event loop, milliseconds of the wall clock.
    """

    __slots__ = (
        "alignment_bytes",
        "closed_bytes",
        "durability",
        "file_id",
        "first_append_s",
        "index",
        "last_append_s",
        "leader_epoch",
        "opened_ms",
        "opened_s",
        "roll",
        "was_broken",
        "writer",
        "written_bytes",
    )

    def __init__(
        self,
        leader_epoch: int,
        roll: int,
        writer: SegmentWriter,
        *,
        now_s: float,
        now_ms: int,
        durability: Durability,
        alignment_bytes: int = 1,
    ) -> None:
        self.leader_epoch = leader_epoch
        self.roll = roll
        self.file_id = writer.file_id
        self.writer = writer
        self.opened_ms = now_ms
        self.opened_s = now_s
        self.first_append_s: float | None = None
        self.last_append_s = now_s
        self.durability = durability
        self.alignment_bytes = alignment_bytes
        self.written_bytes = 0
        self.closed_bytes = -1
        self.was_broken = False
        self.index: IndexBuilder | None = None

    @property
    def valid_bytes(self) -> int:
        """Bytes that are durable and acknowledged."""
        return 0 if self.index is None else self.index.valid_bytes

    def place(self, batches: Iterable[ProducedBatch]) -> list[Buffer]:
        """Give each batch its place in the file and finish its header; the buffers to append."""
        position = self.written_bytes
        buffers: list[Buffer] = []
        for batch in batches:
            batch.position = position
            view = batch.view
            rewrite(view, 0, batch.base_offset, self.leader_epoch)
            buffers.append(view)
            position += batch.size_bytes
        self.written_bytes = end = padded_end(position, self.alignment_bytes)
        if end > position:
            buffers.append(bytes(end - position))
        return buffers

    def valid_end(self, length_bytes: int, written: Iterable[ProducedBatch]) -> tuple[int, int | None]:
        """(bytes, end offset) of the whole batches in a file of this length; the offset is None when it holds none.

        `written`: batches not durable yet. A file shorter than what is durable has the end offset -1.
        """
        valid_bytes = self.valid_bytes
        if length_bytes < valid_bytes:
            return length_bytes, -1
        end_offset = self.index.end_offset if self.index is not None and valid_bytes else None
        for batch in written:
            if batch.position + batch.size_bytes > length_bytes:
                break
            valid_bytes, end_offset = batch.position + batch.size_bytes, batch.end_offset
        return valid_bytes, end_offset
