"""Start offsets of leader epochs, by which clients find out where their view of the log diverged. Pure.

Source: KIP-101, KIP-279, Kafka's LeaderEpochFileCache.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

UNDEFINED = (-1, -1)


class EpochHistory:
    """Epochs and their start offsets, both strictly ascending."""

    __slots__ = ("_epochs", "_starts")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for leader_epoch, start_offset in entries:
            self.assign(leader_epoch, start_offset)

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """(leader epoch, start offset), ascending."""
        return tuple(zip(self._epochs, self._starts, strict=True))

    def assign(self, leader_epoch: int, start_offset: int) -> None:
        """Add an epoch that begins at this offset. It replaces an epoch that began at the same offset and has no records.

        Adding the newest epoch again changes nothing.
        """
        if leader_epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {leader_epoch} cannot start at offset {start_offset}")
        epochs, starts = self._epochs, self._starts
        if epochs and epochs[-1] == leader_epoch and start_offset >= starts[-1]:
            return
        while epochs and (epochs[-1] >= leader_epoch or starts[-1] >= start_offset):
            epochs.pop()
            starts.pop()
        epochs.append(leader_epoch)
        starts.append(start_offset)

    def end_offset_for(self, leader_epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(largest known epoch at or below `leader_epoch`, its end offset); (-1, -1) if unknown.

        An epoch older than all known ones ends where the first known one starts, as in Kafka. `leader_epoch` -1 means no epoch.
        """
        epochs = self._epochs
        if leader_epoch == -1 or not epochs or leader_epoch > epochs[-1]:
            return UNDEFINED
        if leader_epoch == epochs[-1]:
            return leader_epoch, log_end_offset
        higher = bisect_right(epochs, leader_epoch)
        return (epochs[higher - 1] if higher else leader_epoch), self._starts[higher]

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote this offset; -1 when unknown."""
        place = bisect_right(self._starts, offset)
        return self._epochs[place - 1] if place else -1

    def truncate_head(self, log_start_offset: int) -> None:
        """Forget epochs that end below `log_start_offset`. The epoch of that offset then starts there."""
        kept = bisect_right(self._starts, log_start_offset) - 1
        if kept < 0:
            return
        del self._epochs[:kept]
        del self._starts[:kept]
        self._starts[0] = log_start_offset
