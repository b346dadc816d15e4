"""Spark reads a topic whose small segments are merged meanwhile; for test_spark_merged_segments.py.

python -m tests.e2e.spark_merged_job DIRECTORY BOOTSTRAP TOPIC

It plans reads and begins streams, prints `planned`, waits for the file `merged` in DIRECTORY, and ends them. What each has found is in
found.json: [partition, offset, checksum of the key, checksum of the value, time in ms].
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from bmq.spark.jobs.stores import store_of
from bmq.spark.jobs.verify import verify
from bmq.spark.source import register
from testing.processes import eventually
from tests.e2e.spark_job import session

FORMS = ("bmq", "kafka")
WAIT_S = 300.0
OFFSETS_PER_TRIGGER = 1_000
STARTS_MAX = 5
"""Spark waits 10 s for a source's Python process, also on a busy machine."""
COLUMNS = ("partition", "offset", "crc32(key) as key", "crc32(value) as value", "unix_millis(timestamp) as time")


class Reads:
    """Of one topic."""

    def __init__(self, spark: SparkSession, directory: Path, bootstrap: str, topic: str) -> None:
        self._spark = spark
        self._directory = directory
        self._options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}

    def batch(self, form: str, isolation: str) -> DataFrame:
        options = {**self._options, "kafka.isolation.level": isolation}
        return self._spark.read.format(form).options(**options).load().selectExpr(*COLUMNS)

    def planned(self, isolation: str) -> DataFrame:
        """A read whose files are chosen now."""
        frame = self.batch("bmq", isolation)
        assert frame.rdd.getNumPartitions() > 1
        return frame

    def stream(self, form: str) -> StreamingQuery:
        """Returns once it has written its first batch."""
        options = {**self._options, "maxOffsetsPerTrigger": str(OFFSETS_PER_TRIGGER)}
        frame = self._spark.readStream.format(form).options(**options).load().selectExpr(*COLUMNS)
        writer = (
            frame.writeStream.format("parquet")
            .option("path", self._streamed(form))
            .option("checkpointLocation", str(self._directory / f"checkpoint-{form}"))
        )
        for _ in range(STARTS_MAX):
            query = writer.start()
            eventually(partial(has_begun, query), WAIT_S, f"a batch of {form}")
            if (failure := query.exception()) is None:
                return query
            assert "failed to connect back" in str(failure), failure
        raise AssertionError(f"the stream of {form} did not start")

    def end_of(self, form: str, query: StreamingQuery) -> DataFrame:
        query.processAllAvailable()
        query.stop()
        return self._spark.read.parquet(self._streamed(form))

    def _streamed(self, form: str) -> str:
        return str(self._directory / f"streamed-{form}")


def has_begun(query: StreamingQuery) -> bool:
    """Or has failed."""
    return bool(query.lastProgress or query.exception())


def rows(frame: DataFrame) -> list[list[Any]]:
    return sorted([row.partition, row.offset, row.key, row.value, row.time] for row in frame.collect())


def main() -> None:
    directory, bootstrap, topic = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    spark = session(directory / "warehouse")
    register(spark)
    reads = Reads(spark, directory, bootstrap, topic)
    isolations = ("read_committed", "read_uncommitted")
    planned = {isolation: reads.planned(isolation) for isolation in isolations}
    streams = {form: reads.stream(form) for form in FORMS}
    print("planned", flush=True)
    eventually((directory / "merged").exists, WAIT_S, "segments are merged")
    found = {f"planned {isolation}": rows(frame) for isolation, frame in planned.items()}
    found |= {f"stream {form}": rows(reads.end_of(form, query)) for form, query in streams.items()}
    found |= {f"{form} {isolation}": rows(reads.batch(form, isolation)) for form in FORMS for isolation in isolations}
    report = verify(spark, store_of(bootstrap), [topic])
    told = {"rows": found, "damage": [str(finding) for finding in report.findings]}
    (directory / "found.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
