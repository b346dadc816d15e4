"""Where a group's offsets shall be, and what that means: a plan to look at first. Pure.

Source: Kafka's ConsumerGroupCommand (reset-offsets), whose scenarios these are.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from typing import Final

from bmq.cli.kafka.model import KafkaFailed, Partition
from bmq.dataclass import dataclass
from bmq.protocol.error_codes import ErrorCode

_OFFSET_MAX: Final = (1 << 63) - 1
_COLUMNS: Final = ("topic", "partition", "offset")


class BadReset(KafkaFailed):
    """A reset that cannot be meant."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ErrorCode.INVALID_REQUEST)


@dataclass(frozen=True, slots=True)
class OffsetMove:
    """`before` None: nothing is committed. `offset` was moved from `asked` into the log's bounds, if they differ."""

    partition: Partition
    before: int | None
    asked: int
    offset: int
    start: int
    end: int

    @property
    def is_change(self) -> bool:
        return self.offset != self.before

    @property
    def note(self) -> str:
        """What it means in words; empty for a partition that stays as it is."""
        cut = f"; {self.asked} is outside the log" if self.asked != self.offset else ""
        if self.before is None:
            return f"new{cut}"
        if self.offset < self.before:
            return f"reads {self.before - self.offset} again{cut}"
        if self.offset > self.before:
            return f"skips {self.offset - self.before}{cut}"
        return cut.removeprefix("; ")


def plan_reset(
    wanted: Mapping[Partition, int],
    committed: Mapping[Partition, int],
    starts: Mapping[Partition, int],
    ends: Mapping[Partition, int],
) -> list[OffsetMove]:
    """In order. Offsets outside a log are moved to its nearest end, as Kafka's tool does."""
    return [
        OffsetMove(at, committed.get(at), asked, min(max(asked, starts[at]), ends[at]), starts[at], ends[at])
        for at, asked in sorted(wanted.items())
    ]


def shifted(partitions: Iterable[Partition], committed: Mapping[Partition, int], by: int) -> dict[Partition, int]:
    """Raises BadReset for a partition without a committed offset."""
    found = {}
    for at in partitions:
        if at not in committed:
            raise BadReset(f"the group has no committed offset in {at[0]}-{at[1]} that could be shifted")
        found[at] = committed[at] + by
    return found


def parse_scope(texts: Iterable[str], partition_counts: Mapping[str, int]) -> list[Partition]:
    """`TOPIC` or `TOPIC:0,2` of each. Raises BadReset for what does not exist."""
    found: set[Partition] = set()
    for text in texts:
        topic, colon, listed = text.partition(":")
        count = partition_counts.get(topic)
        if count is None:
            raise BadReset(f"there is no topic {topic!r}")
        numbers = [_number(each, text) for each in listed.split(",")] if colon else range(count)
        for number in numbers:
            if number >= count:
                raise BadReset(f"topic {topic!r} has no partition {number}; it has {count}")
            found.add((topic, number))
    return sorted(found)


def topic_of_scope(text: str) -> str:
    return text.partition(":")[0]


def parse_plan(lines: Iterable[str], name: str) -> dict[Partition, int]:
    """A CSV file with the columns topic, partition and offset, as a plan is written. Raises BadReset."""
    reader = csv.DictReader(lines)
    found: dict[Partition, int] = {}
    try:
        if missing := [column for column in _COLUMNS if column not in (reader.fieldnames or ())]:
            raise BadReset(f"{name} has no column {missing[0]!r}")
        for row in reader:
            where = f"{name}, line {reader.line_num}"
            at = row["topic"] or "", _number(row["partition"] or "", where)
            if at in found:
                raise BadReset(f"{where}: {at[0]}-{at[1]} stands there twice")
            found[at] = _number(row["offset"] or "", where)
    except csv.Error as error:
        raise BadReset(f"{name} is not CSV: {error}") from None
    return found


def _number(text: str, where: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > _OFFSET_MAX:
        raise BadReset(f"{where}: {text[:40]!r} is no number")
    return int(text)
