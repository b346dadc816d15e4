"""How jobs read topics: by our own data source, or by the stock Kafka connector. Only this module distinguishes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from bmq.spark.jobs.outcome import JobFailed
from bmq.spark.jobs.ranges import OffsetRange, by_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NEVER_CUT: Final = "1024t"
_CUTTING: Final = frozenset({"minpartitions", "maxrecordsperpartition", "maxbytesperpartition"})


class SourceKind(StrEnum):
    """`bmq` reads segments directly from the store, `kafka` reads everything through the brokers."""

    BMQ = "bmq"
    KAFKA = "kafka"


@dataclass(frozen=True, slots=True)
class Source:
    """`options`: of the format, besides those set here. `bootstrap`: HOST:PORT[,HOST:PORT]."""

    bootstrap: str
    kind: SourceKind = SourceKind.BMQ
    options: Mapping[str, str] = field(default_factory=dict)

    def load(
        self,
        spark: SparkSession,
        ranges: Iterable[OffsetRange],
        *,
        has_headers: bool,
        is_in_order: bool = False,
        topic_ids: Mapping[str, str] | None = None,
    ) -> DataFrame:
        """Committed records of the ranges, in the connector's columns.

        With `is_in_order` one task reads a whole range in offset order; else a range may be split among tasks. A record
        deleted meanwhile fails the read. Our own source reads nothing of a topic that has another id than in `topic_ids`.
        Raises JobFailed for an option that would split in-order ranges.
        """
        if is_in_order and (cutting := sorted(name for name in self.options if name.lower() in _CUTTING)):
            raise JobFailed(
                f"{', '.join(cutting)} cannot be set: one task has to copy all of a partition's range, in order"
            )
        if self.kind is SourceKind.BMQ:
            from bmq.spark.source import register

            register(spark)
        own = {}
        if self.kind is SourceKind.BMQ:
            own = {"maxBytesPerPartition": _NEVER_CUT} if is_in_order else {}
            if topic_ids:
                own["bmq.topic.ids"] = json.dumps(dict(topic_ids))
        reader = spark.read.format(self.kind.value)
        for name, value in {**read_options(ranges, has_headers=has_headers), **self.options, **own}.items():
            reader = reader.option(name, value)
        return reader.option("kafka.bootstrap.servers", self.bootstrap).load()


def read_options(ranges: Iterable[OffsetRange], *, has_headers: bool) -> dict[str, str]:
    """The connector's options for exactly these ranges."""
    topics = by_topic(ranges)

    def offsets(is_end: bool) -> str:
        return json.dumps(
            {
                topic: {
                    str(partition): each.end_offset if is_end else each.start_offset
                    for partition, each in partitions.items()
                }
                for topic, partitions in topics.items()
            }
        )

    return {
        "assign": json.dumps({topic: sorted(partitions) for topic, partitions in topics.items()}),
        "startingOffsets": offsets(is_end=False),
        "endingOffsets": offsets(is_end=True),
        "includeHeaders": "true" if has_headers else "false",
        "failOnDataLoss": "true",
        "kafka.isolation.level": "read_committed",
    }
