"""What clients saw, and the rules it must obey whatever was killed, cut or slow in between."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from bmq.protocol.error_codes import ErrorCode

SHORTAGES = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


class Violation(AssertionError):
    """An invariant does not hold."""


@dataclass(slots=True)
class History:
    """Values are unique over a run, so one value at two offsets is a duplicate."""

    acknowledged: dict[tuple[int, int], bytes] = field(default_factory=dict)  # (partition, offset) -> value
    consumed: dict[tuple[int, int], bytes] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    _ends: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    sent: set[bytes] = field(default_factory=set)
    acknowledged_batches: int = 0
    commits: int = 0
    shortages: int = 0  # produces that heard of too few replicas
    on_acknowledge: Callable[[list[bytes]], None] | None = None

    def acknowledge(self, partition: int, base_offset: int, values: list[bytes]) -> None:
        if self.on_acknowledge is not None:
            self.on_acknowledge(values)
        self.acknowledged_batches += 1
        self._ends[partition] = max(self._ends[partition], base_offset + len(values))
        for offset, value in enumerate(values, base_offset):
            before = self.acknowledged.setdefault((partition, offset), value)
            if before != value:
                raise Violation(f"offset {offset} of {partition} was acknowledged for {before!r} and for {value!r}")

    def consume(self, partition: int, offset: int, value: bytes) -> None:
        before = self.consumed.setdefault((partition, offset), value)
        if before != value:
            raise Violation(f"offset {offset} of {partition} was read as {before!r} and as {value!r}")
        promised = self.acknowledged.get((partition, offset), value)
        if promised != value:
            raise Violation(f"offset {offset} of {partition} holds {value!r} but {promised!r} was acknowledged")
        if value not in self.sent:
            raise Violation(f"offset {offset} of {partition} holds {value!r}, which nobody sent")

    def end_offset(self, partition: int) -> int:
        """What follows the last offset of the partition that was acknowledged."""
        return self._ends[partition]

    def commit(self, partition: int, offset: int) -> None:
        self.commits += 1
        self.committed[partition] = max(self.committed[partition], offset)

    def fetched_commit(self, partition: int, offset: int, known_before: int) -> None:
        """`known_before`: the greatest commit acknowledged before the question was asked."""
        if offset < known_before:
            raise Violation(f"the committed offset of {partition} went back from {known_before} to {offset}")

    def check_final(self, logs: dict[int, list[tuple[int, bytes]]]) -> None:
        """`logs`: each partition read from its start to its high watermark when all is calm."""
        for partition, records in logs.items():
            offsets = [offset for offset, _ in records]
            if offsets != list(range(len(offsets))):
                raise Violation(f"the offsets of {partition} are not dense: {offsets[:20]}…")
            values = [value for _, value in records]
            if len(set(values)) != len(values):
                twice = sorted({value for value in values if values.count(value) > 1})
                raise Violation(f"{partition} has records twice: {twice[:5]}")
        final = {(partition, offset): value for partition, records in logs.items() for offset, value in records}
        for name, seen in (("acknowledged", self.acknowledged), ("consumed", self.consumed)):
            for place, value in seen.items():
                if final.get(place) != value:
                    raise Violation(f"{name} record {value!r} at {place} is now {final.get(place)!r}")
        strangers = {value for value in final.values() if value not in self.sent}
        if strangers:
            raise Violation(f"records nobody sent: {sorted(strangers)[:5]}")
