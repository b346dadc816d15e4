"""The offset ranges that a job reads, cut into consecutive steps. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

OFFSETS_PER_STEP: Final = 4_000_000


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Offsets [start_offset, end_offset) of a partition."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def offset_count(self) -> int:
        return max(0, self.end_offset - self.start_offset)

    def to_json(self) -> list[Any]:
        return [self.topic, self.partition, self.start_offset, self.end_offset]

    @classmethod
    def from_json(cls, values: Sequence[Any]) -> OffsetRange:
        topic, partition, start_offset, end_offset = values
        return cls(str(topic), int(partition), int(start_offset), int(end_offset))


Step = tuple[OffsetRange, ...]


def cut_into_steps(ranges: Iterable[OffsetRange], *, offsets_max: int = OFFSETS_PER_STEP) -> tuple[Step, ...]:
    """Steps of about `offsets_max` offsets, each with an equal share of every unfinished partition; empty ranges are
    dropped.

    The same ranges always give the same steps, so a resumed job identifies finished steps by number.
    """
    left = [each for each in sorted(ranges) if each.offset_count]
    steps: list[Step] = []
    while left:
        share = max(1, offsets_max // len(left))
        step = tuple(replace(each, end_offset=min(each.end_offset, each.start_offset + share)) for each in left)
        steps.append(step)
        left = [
            replace(each, start_offset=taken.end_offset)
            for each, taken in zip(left, step, strict=True)
            if taken.end_offset < each.end_offset
        ]
    return tuple(steps)


def offset_count(ranges: Iterable[OffsetRange]) -> int:
    """The total number of offsets in the ranges."""
    return sum(each.offset_count for each in ranges)


def by_topic(ranges: Iterable[OffsetRange]) -> Mapping[str, Mapping[int, OffsetRange]]:
    """topic -> partition -> range. Raises ValueError for two ranges of one partition."""
    found: dict[str, dict[int, OffsetRange]] = {}
    for each in ranges:
        partitions = found.setdefault(each.topic, {})
        if each.partition in partitions:
            raise ValueError(f"two ranges of {each.name}")
        partitions[each.partition] = each
    return found


def between(
    starts: Mapping[tuple[str, int], int],
    ends: Mapping[tuple[str, int], int],
    *,
    from_offset: int | None = None,
    to_offset: int | None = None,
) -> tuple[OffsetRange, ...]:
    """A range per partition, from its first offset to its end, both cut to [from_offset, to_offset) if given."""
    ranges = []
    for (topic, partition), start in starts.items():
        end = ends[topic, partition]
        first = start if from_offset is None else max(start, from_offset)
        last = end if to_offset is None else min(end, to_offset)
        ranges.append(OffsetRange(topic, partition, first, max(first, last)))
    return tuple(sorted(ranges))
