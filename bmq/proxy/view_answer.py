"""What one read of a view answers: batches with records, and one batch without records for each run of offsets. Decisions only."""

from __future__ import annotations

from typing import NamedTuple

from bmq.protocol.compression import Buffer
from bmq.views.batch_filter import EmptyRun


class Shown(NamedTuple):
    """A batch of the base as a view shows it, with records or a transaction's marker. `next_offset` follows it."""

    data: Buffer
    next_offset: int


Piece = EmptyRun | Shown
"""What a view shows of some offsets."""


class ViewAnswer:
    """`passed`: what was found to have no records in front of the fetch offset and behind it. `run`: offsets without records,
    not yet among the parts.
    """

    def __init__(self, passed: EmptyRun | None, fetch_offset: int) -> None:
        is_known = passed is not None and passed.base_offset <= fetch_offset <= passed.next_offset
        self.run = passed if is_known else None
        self.next_offset = fetch_offset if self.run is None else self.run.next_offset
        self.parts: list[memoryview] = []
        self.size_bytes = 0
        self.is_full = self.is_cut = False

    def add(self, piece: Piece, limit: int) -> bool:
        """Take over what follows; False: it does not fit any more."""
        if isinstance(piece, EmptyRun):
            run = piece if self.run is None else self.run.joined(piece)
            if run is None:
                self._end_run()
                run = piece
            self.run = run
        else:
            if self.size_bytes and self.size_bytes + len(piece.data) > limit:
                self.is_full = True
                return False
            self._end_run()
            self.parts.append(memoryview(piece.data))
            self.size_bytes += len(piece.data)
            self.is_full = self.size_bytes >= limit
        self.next_offset = piece.next_offset
        return True

    def finished(self) -> list[memoryview]:
        """Whole batches up to `next_offset`."""
        self._end_run()
        return self.parts

    def _end_run(self) -> None:
        if self.run is not None:
            self.parts.append(memoryview(self.run.encoded()))
            self.run = None
