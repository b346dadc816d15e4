"""`bmq spark find`: records with a given key, header or JSON field, between two times."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from bmq.spark.jobs.find_query import FindQuery
from bmq.spark.jobs.job_run import JobRun
from bmq.spark.jobs.journal import Journal
from bmq.spark.jobs.ranges import OffsetRange, Step, cut_into_steps, offset_count
from bmq.spark.jobs.source import Source
from bmq.spark.jobs.steps import run_steps, spark_errors
from bmq.spark.jobs.time_text import text_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOUND_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class FoundRecord:
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    def to_json(self) -> dict[str, Any]:
        """UTF-8 bytes as text, others as {"base64": …}."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "timestamp": text_of(self.timestamp_ms),
            "timestamp_ms": self.timestamp_ms,
            "key": _readable(self.key),
            "value": _readable(self.value),
            "headers": [{"key": name, "value": _readable(value)} for name, value in self.headers],
        }

    def to_journal(self) -> list[Any]:
        """A lossless form for JSON."""
        headers = [[name, _packed(value)] for name, value in self.headers]
        at = [self.topic, self.partition, self.offset, self.timestamp_ms]
        return [*at, _packed(self.key), _packed(self.value), headers]

    @classmethod
    def from_journal(cls, values: Sequence[Any]) -> FoundRecord:
        topic, partition, offset, timestamp_ms, key, value, headers = values
        unpacked = tuple((name, _unpacked(content)) for name, content in headers)
        return cls(topic, partition, offset, timestamp_ms, _unpacked(key), _unpacked(value), unpacked)


def find(
    spark: SparkSession,
    source: Source,
    ranges: Sequence[OffsetRange],
    query: FindQuery,
    run: JobRun | None = None,
    *,
    found_max: int = FOUND_MAX,
) -> list[FoundRecord]:
    """The records of `ranges` that match `query`, by topic, partition and offset; stops after `found_max`.

    `ranges` should be cut to the query's times (Cluster.ranges): this only narrows the offsets, each record's time is
    compared too. Raises JobFailed, BrokenOff.
    """
    run = run or JobRun()
    journal = Journal(run.state)
    asked = {
        "job": "find",
        "topics": sorted({each.topic for each in ranges}),
        # A topic made again under the same name has other records at the same offsets.
        "topic_ids": run.topic_ids,
        "query": replace(query, from_ms=None, to_ms=None).condition,
        "range": run.range_as_given,
        "found_max": found_max,
        "offsets_per_step": run.offsets_per_step,
    }
    plan = journal.begin(asked, lambda: {"ranges": [each.to_json() for each in ranges], "condition": query.condition})
    steps = cut_into_steps(map(OffsetRange.from_json, plan["ranges"]), offsets_max=run.offsets_per_step)
    found: list[FoundRecord] = []

    def perform(step: Step) -> Any:
        left = found_max - len(found)
        return [record.to_journal() for record in _find(spark, source, step, plan["condition"], left, run.topic_ids)]

    for result in run_steps(steps, perform, journal, run.progress, size_of=offset_count, unit="offsets"):
        found += map(FoundRecord.from_journal, result)
        if len(found) >= found_max:
            break
    return sorted(found, key=lambda record: (record.topic, record.partition, record.offset))


def _find(
    spark: SparkSession,
    source: Source,
    step: Step,
    condition: str,
    found_max: int,
    topic_ids: Mapping[str, str] | None,
) -> list[FoundRecord]:
    from pyspark.sql import functions as sql

    def collect() -> list[Any]:
        records = source.load(spark, step, has_headers=True, topic_ids=topic_ids).where(condition)
        columns = ("topic", "partition", "offset", sql.unix_millis("timestamp").alias("ms"), "key", "value", "headers")
        rows: list[Any] = records.select(*columns).orderBy("topic", "partition", "offset").limit(found_max).collect()
        return rows

    return [
        FoundRecord(
            topic=row["topic"],
            partition=row["partition"],
            offset=row["offset"],
            timestamp_ms=row["ms"],
            key=_bytes(row["key"]),
            value=_bytes(row["value"]),
            headers=tuple((header["key"], _bytes(header["value"])) for header in row["headers"] or ()),
        )
        for row in spark_errors("records cannot be searched", collect)
    ]


def _bytes(value: bytes | bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def _readable(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}


def _packed(value: bytes | None) -> str | None:
    return None if value is None else b64encode(value).decode()


def _unpacked(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
