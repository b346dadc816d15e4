"""The answer of one read of a view: batches with records, and a batch without any for each run of other offsets. Decisions only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bmq.protocol.compression import Buffer
from bmq.protocol.parts import FilePart, Part
from bmq.views.batch_filter import EmptyRun


class ViewBatch(NamedTuple):
    """A batch of the base as a view shows it, with records or a transaction's marker.

    `next_offset`: the offset behind it. `is_whole`: it is the base's own batch.
    """

    data: Buffer
    next_offset: int
    is_whole: bool = False


class BatchInFile(NamedTuple):
    """A batch of the base of which all records pass, at [begin, end) in a part of a file."""

    part: FilePart
    begin: int
    end: int
    next_offset: int


Piece = EmptyRun | ViewBatch | BatchInFile
"""What a view shows of a range of offsets: no record, a batch, or a batch in a file."""


class ViewAnswer:
    """The answer in the making.

    `passed`: the run of offsets around the fetch offset that has no records. `run`: offsets without records that are not among
    the parts yet.
    """

    def __init__(self, passed: EmptyRun | None, fetch_offset: int) -> None:
        is_known = passed is not None and passed.base_offset <= fetch_offset <= passed.next_offset
        self.run = passed if is_known else None
        self.next_offset = fetch_offset if self.run is None else self.run.next_offset
        self.parts: list[Part] = []
        self.size_bytes = 0
        self.is_full = self.is_cut = False
        self._in_file: BatchInFile | None = None  # the last part, which following batches of its file extend

    def add(self, piece: Piece, limit: int) -> bool:
        """Add the next piece. Returns False if it does not fit any more."""
        if isinstance(piece, EmptyRun):
            run = None if self.run is None else self.run.joined(piece)
            if run is None:
                self._end_part()
                run = piece
            self.run = run
        else:
            size_bytes = piece.end - piece.begin if isinstance(piece, BatchInFile) else len(piece.data)
            if not self._has_room(size_bytes, limit):
                return False
            if isinstance(piece, BatchInFile):
                self._add_in_file(piece)
            else:
                self._end_part()
                self.parts.append(memoryview(piece.data))
        self.next_offset = piece.next_offset
        return True

    def add_base(self, parts: Sequence[Part], next_offset: int, limit: int) -> None:
        """Add whole batches of the base up to `next_offset`, if they fit."""
        if self._has_room(sum(map(len, parts)), limit):
            self._end_part()
            self.parts += parts
            self.next_offset = next_offset

    def finished(self) -> list[Part]:
        """The answer: whole batches up to `next_offset`."""
        self._end_part()
        return self.parts

    def _has_room(self, size_bytes: int, limit: int) -> bool:
        """Whether this many bytes still fit; if so, counts them. The first ones always fit."""
        if self.size_bytes and self.size_bytes + size_bytes > limit:
            self.is_full = True
            return False
        self.size_bytes += size_bytes
        self.is_full = self.size_bytes >= limit
        return True

    def _add_in_file(self, piece: BatchInFile) -> None:
        last = self._in_file
        if last is not None and last.part is piece.part and last.end == piece.begin:
            piece = piece._replace(begin=last.begin)
        else:
            self._end_part()
        self._in_file = piece

    def _end_part(self) -> None:
        if self.run is not None:
            self.parts.append(memoryview(self.run.encoded()))
            self.run = None
        if self._in_file is not None:
            self.parts.append(self._in_file.part.between(self._in_file.begin, self._in_file.end))
            self._in_file = None
