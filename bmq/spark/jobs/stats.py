"""`bmq spark stats`: records, bytes, keys, codecs, and their distribution over hours and partitions."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from bmq.spark.jobs.job_run import JobRun
from bmq.spark.jobs.journal import Journal
from bmq.spark.jobs.ranges import OffsetRange, Step, cut_into_steps, offset_count
from bmq.spark.jobs.source import Source
from bmq.spark.jobs.stats_report import ALL_PARTITIONS, HOUR_MS, Counts, StatsReport
from bmq.spark.jobs.steps import run_steps, spark_errors
from bmq.spark.jobs.stored_segments import SegmentTask, codec_rows, plan_segments
from bmq.spark.jobs.stores import StoreAddress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SKETCH_LG_K: Final = 12
"""Size of the HyperLogLog sketches that count keys: 4096 registers, a relative error of 1.6 %."""

_SKETCH_SCHEMA: Final = "topic string, partition int, sketch binary"


def plan_of(ranges: Sequence[OffsetRange], store: StoreAddress | None) -> dict[str, Any]:
    """The plan for the journal: the ranges, and the segments that hold them if there is a store to read."""
    segments = plan_segments(store, ranges) if store is not None else []
    return {"ranges": [each.to_json() for each in ranges], "segments": [task.to_json() for task in segments]}


def stats(
    spark: SparkSession,
    source: Source,
    ranges: Sequence[OffsetRange],
    run: JobRun | None = None,
    *,
    store: StoreAddress | None = None,
) -> StatsReport:
    """Count the committed records of `ranges` (see Cluster.ranges).

    With `store` the segments are read too, for codecs and stored bytes. Raises JobFailed, BrokenOff.
    """
    run = run or JobRun()
    journal = Journal(run.state)
    asked = {
        "job": "stats",
        "topics": sorted({each.topic for each in ranges}),
        # A topic made again under the same name has other records at the same offsets.
        "topic_ids": run.topic_ids,
        "store": store and store.url,
        "range": run.range_as_given,
        "offsets_per_step": run.offsets_per_step,
    }
    plan = journal.begin(asked, lambda: plan_of(ranges, store))
    planned = [OffsetRange.from_json(values) for values in plan["ranges"]]
    record_steps = cut_into_steps(planned, offsets_max=run.offsets_per_step)
    segments = [SegmentTask.from_json(values) for values in plan["segments"]]
    steps: list[Step | list[SegmentTask]] = [*record_steps, *([segments] if segments else [])]

    def perform(step: Step | list[SegmentTask]) -> Any:
        if isinstance(step, tuple):
            return {"records": _count(spark, source, step, run.topic_ids)}
        assert store is not None
        return {"codecs": codec_rows(spark, store, step)}

    # Partitions without records count too: where all records are in one of many, it is the busiest by far.
    report = StatsReport(
        partitions={(each.topic, each.partition): Counts() for each in planned},
        codecs={} if store is not None else None,
    )
    sketches: list[tuple[str, int, bytes]] = []
    results = run_steps(steps, perform, journal, run.progress, size_of=lambda step: _size(step), unit="offsets")
    for result in results:
        rows = result.get("records", ())
        report.add_rows(rows)
        sketches += [(row["topic"], row["partition"], b64decode(row["sketch"])) for row in rows if row["keyed"]]
        report.add_codecs(result.get("codecs", ()))
    report.keys = _distinct_keys(spark, sketches)
    return report


def _size(step: Step | list[SegmentTask]) -> int:
    return offset_count(step) if isinstance(step, tuple) else 0


def _count(
    spark: SparkSession, source: Source, step: Step, topic_ids: Mapping[str, str] | None
) -> list[dict[str, Any]]:
    rows = spark_errors(
        "records cannot be counted",
        lambda: _counted(source.load(spark, step, has_headers=True, topic_ids=topic_ids)).collect(),
    )
    counted = [{**row.asDict(), "sketch": b64encode(row["sketch"]).decode()} for row in rows]
    return sorted(counted, key=lambda row: (row["topic"], row["partition"], row["hour"]))


def _counted(records: DataFrame) -> DataFrame:
    """A row for each partition and hour, all in Spark's compiled expressions."""
    from pyspark.sql import functions as sql

    timestamp_ms = sql.unix_millis("timestamp")
    header_bytes = sql.expr(
        "coalesce(aggregate(headers, 0L, (sum, h) -> sum + octet_length(h.key) + coalesce(octet_length(h.value), 0)), 0L)"
    )
    return (
        records.withColumn("timestamp_ms", timestamp_ms)
        .withColumn("header_bytes", header_bytes)
        .groupBy("topic", "partition", sql.expr(f"floor(timestamp_ms / {HOUR_MS})").alias("hour"))
        .agg(
            sql.count("*").alias("records"),
            sql.count("key").alias("keyed"),
            sql.count_if(sql.col("value").isNull()).alias("tombstones"),
            sql.sum(sql.octet_length("key")).alias("key_bytes"),
            sql.sum(sql.octet_length("value")).alias("value_bytes"),
            sql.sum("header_bytes").alias("header_bytes"),
            sql.min("timestamp_ms").alias("first_timestamp_ms"),
            sql.max("timestamp_ms").alias("last_timestamp_ms"),
            sql.hll_sketch_agg("key", SKETCH_LG_K).alias("sketch"),
        )
    )


def _distinct_keys(spark: SparkSession, sketches: Sequence[tuple[str, int, bytes]]) -> dict[tuple[str, int], int]:
    """The distinct keys of each partition and, under ALL_PARTITIONS, of each topic."""
    from pyspark.sql import functions as sql

    if not sketches:
        return {}
    frame = spark.createDataFrame(list(sketches), _SKETCH_SCHEMA)
    union = sql.hll_sketch_estimate(sql.hll_union_agg("sketch")).alias("keys")
    rows = spark_errors(
        "keys cannot be counted",
        lambda: frame.rollup("topic", "partition").agg(union).where("topic is not null").collect(),
    )
    return {
        (row["topic"], ALL_PARTITIONS if row["partition"] is None else row["partition"]): row["keys"] for row in rows
    }
