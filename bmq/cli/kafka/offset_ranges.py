"""Which offsets of each partition a range of times and offsets means, among those that there are now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol

from bmq.cli.kafka.model import Partition


class Offsets(Protocol):
    """The requests to a cluster that are needed here; see KafkaClient."""

    def offsets(
        self, partitions: Iterable[Partition], at: Literal["earliest", "latest"] | int, *, is_committed: bool = False
    ) -> dict[Partition, int]: ...


def offset_ranges(
    cluster: Offsets,
    partitions: Sequence[Partition],
    *,
    from_ms: int | None = None,
    to_ms: int | None = None,
    from_offset: int | None = None,
    to_offset: int | None = None,
    is_committed: bool = False,
) -> dict[Partition, tuple[int, int]]:
    """[start, end) of each partition; all that is given must hold.

    The start is at most the present end, where a reader can wait for more, so a range may be empty or end before it starts.
    """
    starts = cluster.offsets(partitions, "earliest")
    ends = cluster.offsets(partitions, "latest", is_committed=is_committed)
    firsts = starts if from_ms is None else _found(cluster.offsets(partitions, from_ms), ends)
    lasts = ends if to_ms is None else _found(cluster.offsets(partitions, to_ms), ends)
    found = {}
    for at in partitions:
        first = max(starts[at], firsts[at], from_offset or 0)
        end = min(lasts[at], ends[at], ends[at] if to_offset is None else to_offset)
        found[at] = (min(first, ends[at]), end)
    return found


def _found(offsets: Mapping[Partition, int], ends: Mapping[Partition, int]) -> dict[Partition, int]:
    """The end where no record is at or past the time."""
    return {at: ends[at] if offset < 0 else offset for at, offset in offsets.items()}
