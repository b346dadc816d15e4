"""The result of `stats`: combines the partial counts of all steps into one report. Pure.

A step gives a row for each partition and hour, with the numbers named in `COUNTS`. Counts are added, and times are
minimized or maximized, so the report does not depend on how the topic was cut into steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

HOUR_MS: Final = 3_600_000
COUNTS: Final = ("records", "keyed", "tombstones", "key_bytes", "value_bytes", "header_bytes")


@dataclass(slots=True)
class Counts:
    """`keyed`: records with a key; `tombstones`: without a value. Times are None without records."""

    records: int = 0
    keyed: int = 0
    tombstones: int = 0
    key_bytes: int = 0
    value_bytes: int = 0
    header_bytes: int = 0
    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None

    @property
    def bytes(self) -> int:
        """Bytes of keys, values and headers, before compression."""
        return self.key_bytes + self.value_bytes + self.header_bytes

    def add(self, row: Mapping[str, Any]) -> None:
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + int(row[name] or 0))
        for name, best in (("first_timestamp_ms", min), ("last_timestamp_ms", max)):
            known, new = getattr(self, name), row[name]
            if new is not None:
                setattr(self, name, new if known is None else best(known, new))

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "bytes": self.bytes}


@dataclass(slots=True)
class CodecCounts:
    """`stored_bytes`: of whole batches as stored in the log."""

    batches: int = 0
    records: int = 0
    stored_bytes: int = 0

    def add(self, batches: int, records: int, stored_bytes: int) -> None:
        self.batches += batches
        self.records += records
        self.stored_bytes += stored_bytes


Partition = tuple[str, int]


@dataclass(slots=True)
class StatsReport:
    """`hours`: per partition and hour since 1970. `keys`: estimated distinct keys of a partition or, with -1, of a
    topic.

    `codecs` is None without access to the store: only segments show how records are compressed.
    """

    partitions: dict[Partition, Counts] = field(default_factory=dict)
    hours: dict[tuple[Partition, int], Counts] = field(default_factory=dict)
    keys: dict[Partition, int] = field(default_factory=dict)
    codecs: dict[tuple[Partition, str], CodecCounts] | None = None

    def add_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add the rows of one step."""
        for row in rows:
            partition = (row["topic"], row["partition"])
            self.partitions.setdefault(partition, Counts()).add(row)
            self.hours.setdefault((partition, row["hour"]), Counts()).add(row)

    def add_codecs(self, rows: Iterable[Sequence[Any]]) -> None:
        """Rows of topic, partition, codec, batches, records, stored bytes."""
        for topic, partition, codec, batches, records, stored_bytes in rows:
            if self.codecs is None:
                self.codecs = {}
            self.codecs.setdefault(((topic, partition), codec), CodecCounts()).add(batches, records, stored_bytes)

    @property
    def total(self) -> Counts:
        total = Counts()
        for counts in self.partitions.values():
            total.add(counts.to_json())
        return total

    def skew(self, topic: str, number_of: Callable[[Counts], int] = lambda counts: counts.bytes) -> float:
        """Ratio of a topic's busiest partition to the mean of all; 1 is even."""
        return skew_of([number_of(counts) for (name, _), counts in self.partitions.items() if name == topic])

    def skew_of_hours(self, topic: str) -> dict[int, float]:
        """Hour -> ratio of that hour's busiest partition to the mean of all the topic's partitions."""
        partitions = [partition for partition in self.partitions if partition[0] == topic]
        hours = sorted({hour for (name, _), hour in self.hours if name == topic})
        empty = Counts()
        return {
            hour: skew_of([self.hours.get((partition, hour), empty).bytes for partition in partitions])
            for hour in hours
        }

    def to_json(self) -> dict[str, Any]:
        """Sorted, so that equal reports give equal texts."""
        topics = sorted({topic for topic, _ in self.partitions})
        return {
            "total": self.total.to_json(),
            "topics": [
                {
                    "topic": topic,
                    "distinct_keys": self.keys.get((topic, ALL_PARTITIONS)),
                    "skew": round(self.skew(topic), 4),
                    "partitions": [
                        {
                            "partition": partition,
                            **counts.to_json(),
                            "distinct_keys": self.keys.get((name, partition)),
                            "codecs": self._codecs_of((name, partition)),
                        }
                        for (name, partition), counts in sorted(self.partitions.items())
                        if name == topic
                    ],
                    "hours": [
                        {
                            "hour_ms": hour * HOUR_MS,
                            "skew": round(skew, 4),
                            "partitions": [
                                {"partition": partition, "records": counts.records, "bytes": counts.bytes}
                                for ((name, partition), at), counts in sorted(self.hours.items())
                                if name == topic and at == hour
                            ],
                        }
                        for hour, skew in self.skew_of_hours(topic).items()
                    ],
                }
                for topic in topics
            ],
        }

    def _codecs_of(self, partition: Partition) -> dict[str, Any] | None:
        if self.codecs is None:
            return None
        return {codec: asdict(counts) for (of, codec), counts in sorted(self.codecs.items()) if of == partition}


ALL_PARTITIONS: Final = -1


def skew_of(numbers: Sequence[int]) -> float:
    """Ratio of the greatest to the mean; 1 when the total is 0."""
    total = sum(numbers)
    return max(numbers) * len(numbers) / total if total else 1.0
