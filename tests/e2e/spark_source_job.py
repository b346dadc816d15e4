"""A Spark job that reads the same topics by format("bmq") and by the stock connector; run by test_spark_source.py.

python -m tests.e2e.spark_source_job DIRECTORY BOOTSTRAP     writes the topics, prints what it found as one JSON line
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import DataStreamWriter

from bmq.spark.source import register
from bmq.spark.source.options import read_options
from bmq.spark.source.plan import FilePiece
from bmq.spark.source.session import Session
from testing.processes import REPOSITORY
from tests.e2e.spark_changes import ChangingTopics
from tests.e2e.spark_job import session

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BATCHES = 40
RECORDS_OF_BATCH = 60
FIRST_MS = 1_700_000_000_000

Options = dict[str, str]
Job = Callable[["Jobs"], Any]


class Jobs:
    """What every part needs: the session, where the cluster is, a directory to write into."""

    def __init__(self, spark: SparkSession, directory: Path, bootstrap: str) -> None:
        self.spark = spark
        self.directory = directory
        self.bootstrap = bootstrap
        self._known: dict[str, list[tuple[Any, ...]]] = {}

    def options(self, topic: str, **more: str) -> Options:
        return {"kafka.bootstrap.servers": self.bootstrap, "subscribe": topic, **more}

    def batch(self, form: str, options: Options) -> DataFrame:
        return self.spark.read.format(form).options(**options).load()

    def by_connector(self, options: Options) -> list[tuple[Any, ...]]:
        """Each set of options is read once."""
        key = json.dumps(options, sort_keys=True)
        if key not in self._known:
            self._known[key] = rows_of(self.batch("kafka", options))
        return self._known[key]

    def both(self, options: Options, of_bmq: Options | None = None) -> int:
        """How many rows, which have to be the same ones. `of_bmq`: options that only it has, or that it needs in addition."""
        found = rows_of(self.batch("bmq", {**options, **(of_bmq or {})}))
        expected = self.by_connector(options)
        assert found == expected, first_difference(found, expected)
        return len(found)


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    names = sorted(frame.columns)
    return sorted((plain(row, names) for row in frame.collect()), key=repr)


def plain(row: Row, names: Iterable[str]) -> tuple[Any, ...]:
    def value_of(found: Any) -> Any:
        if isinstance(found, bytearray):
            return bytes(found)
        if isinstance(found, list):
            return [(pair["key"], value_of(pair["value"])) for pair in found]
        return found

    return tuple(value_of(row[name]) for name in names)


def first_difference(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> str:
    for one, other in zip(found, expected, strict=False):
        if one != other:
            return f"{str(one)[:300]} is not {str(other)[:300]}"
    return f"{len(found)} rows are not {len(expected)}"


def write(bootstrap: str, topic: str, seed: int = 0, first_ms: int = FIRST_MS) -> None:
    """Batches of every codec, in transactions that commit or abort and outside, with nulls and headers.

    Each partition gets more than two segments, wherever batches end.
    """
    dice = random.Random(seed)
    producers = {}
    for codec in CODECS:
        for kind in ("plain", "transactional"):
            settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5}
            if kind == "transactional":
                settings["transactional.id"] = f"{topic}-{codec}"
            producers[kind, codec] = Producer(settings)
            if kind == "transactional":
                producers[kind, codec].init_transactions(30)
    for number in range(BATCHES):
        codec = CODECS[number % len(CODECS)]
        ending = dice.choice(["commit", "abort", "none"])
        producer = producers["plain" if ending == "none" else "transactional", codec]
        if ending != "none":
            producer.begin_transaction()
        for place in range(RECORDS_OF_BATCH):
            one = number * RECORDS_OF_BATCH + place
            producer.produce(
                topic,
                key=None if one % 7 == 0 else b"key-%d" % one,
                value=None if one % 11 == 0 else dice.randbytes(dice.randint(0, 4_000)),
                headers=[("trace", b"%d" % one), ("empty", None), ("trace", b"")] if one % 5 == 0 else None,
                partition=one % 2,
                timestamp=first_ms + 1_000 * one,
            )
        producer.flush(30)  # what was not sent would not be aborted but forgotten
        if ending == "commit":
            producer.commit_transaction(30)
        elif ending == "abort":
            producer.abort_transaction(30)
    for producer in producers.values():
        producer.flush(30)


def batch_reads(jobs: Jobs) -> Any:
    """The connector's own options, alone and together."""
    topic = "batch"
    write(jobs.bootstrap, topic)
    cut = json.dumps({topic: {"0": 300, "1": -2}})
    third_ms = 1_000 * BATCHES * RECORDS_OF_BATCH // 3
    times = {"startingTimestamp": str(FIRST_MS + third_ms), "endingTimestamp": str(FIRST_MS + 2 * third_ms)}
    each = {
        f"{edge}OffsetsByTimestamp": json.dumps({topic: {"0": time_ms, "1": time_ms + 60_000}})
        for edge, time_ms in (("starting", FIRST_MS + third_ms), ("ending", FIRST_MS + 2 * third_ms))
    }
    whole = jobs.options(topic, includeHeaders="true")
    servers = {name: value for name, value in whole.items() if name != "subscribe"}
    committed = {**whole, "kafka.isolation.level": "read_committed"}
    return {
        "everything": jobs.both(whole),
        "in small parts": jobs.both(whole, {"maxBytesPerPartition": "300k"}),
        "through proxies": jobs.both(whole, {"bmq.root": "none"}),
        "committed": jobs.both(committed),
        "committed in small parts": jobs.both(committed, {"maxRecordsPerPartition": "500"}),
        "from offsets": jobs.both({**whole, "startingOffsets": cut, "minPartitions": "5"}),
        "of a time": jobs.both({**whole, **times}),
        "of a time each": jobs.both({**whole, **each}),
        "by pattern": jobs.both({**servers, "subscribePattern": "bat[a-c]h"}),
        "assigned": jobs.both({**servers, "assign": json.dumps({topic: [1]})}),
        "two columns": sorted(jobs.batch("bmq", jobs.options(topic, columns="offset,timestamp")).columns),
        "counted twice": counts(jobs, whole),
        "from files": share_from_files(jobs, topic),
    }


def counts(jobs: Jobs, options: Options) -> list[bool]:
    """A DataFrame that is used twice, with a filter first."""
    frame = jobs.batch("bmq", options)
    some = frame.filter("partition = 1").count()
    return [0 < some < BATCHES * RECORDS_OF_BATCH, frame.count() == BATCHES * RECORDS_OF_BATCH]


def share_from_files(jobs: Jobs, topic: str) -> float:
    async def planned() -> float:
        async with Session.opened(read_options(jobs.options(topic), is_stream=False)) as looking:
            ranges, _ = await looking.batch()
        pieces = [piece for one in ranges for piece in one.pieces]
        total = sum(piece.end_offset - piece.first_offset for piece in pieces)
        in_files = sum(piece.end_offset - piece.first_offset for piece in pieces if isinstance(piece, FilePiece))
        return in_files / total

    return asyncio.run(planned())


def streams(jobs: Jobs) -> Any:
    """Batches under a limit, a restart, and a last batch that is repeated: every row once, the same rows again."""
    topic = "stream"
    write(jobs.bootstrap, topic, 1)
    checkpoint = jobs.directory / "checkpoint"
    options = jobs.options(topic, startingOffsets="earliest", maxOffsetsPerTrigger="900", includeHeaders="true")
    batches: dict[int, list[tuple[Any, ...]]] = {}

    def keep(frame: DataFrame, batch_id: int) -> None:
        found = rows_of(frame)
        assert batches.setdefault(batch_id, found) == found, "a repeated batch has other rows"

    def run() -> None:
        """Until there is nothing new: Spark before 4.2 makes one batch each time."""
        count = -1
        while len(batches) != count:
            count = len(batches)
            frame = jobs.spark.readStream.format("bmq").options(**options).load()
            ended(frame.writeStream.foreachBatch(keep), checkpoint)

    run()
    write(jobs.bootstrap, topic, 2)
    run()
    count = len(batches)
    last = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    for path in (checkpoint / "commits" / str(last), checkpoint / "commits" / f".{last}.crc"):
        path.unlink()
    run()
    found = sorted((row for rows in batches.values() for row in rows), key=repr)
    expected = jobs.by_connector(jobs.options(topic, includeHeaders="true"))
    assert found == expected, first_difference(found, expected)
    largest = max(len(rows) for number, rows in batches.items() if number)
    return {"batches": count, "added by repeating": len(batches) - count, "largest": largest, "rows": len(found)}


def latest_survives(jobs: Jobs) -> Any:
    """A query that began at the end is repeated from its first batch on: it still begins where it began."""
    topic = "latest"
    write(jobs.bootstrap, topic, 3)
    checkpoint = jobs.directory / "checkpoint-latest"
    seen: list[int] = []

    def run() -> None:
        frame = jobs.spark.readStream.format("bmq").options(**jobs.options(topic, columns="offset,partition")).load()
        ended(frame.writeStream.foreachBatch(lambda rows, _: seen.append(rows.count())), checkpoint)

    run()
    nothing = sum(seen)
    shutil.rmtree(checkpoint / "commits", ignore_errors=True)
    producer = Producer({"bootstrap.servers": jobs.bootstrap})
    for _ in range(5):
        producer.produce(topic, b"late")
    producer.flush(30)
    run()
    run()
    return {"at first": nothing, "then": sum(seen)}


def ended(writer: DataStreamWriter, checkpoint: Path) -> None:
    """Run it over what there is."""
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)


def errors(jobs: Jobs) -> Any:
    """The last line of what a user sees."""

    def said(options: Options) -> str:
        try:
            jobs.batch("bmq", options).count()
        except Exception as error:
            return str(error)
        return "nothing"

    return {
        "unknown topic": said(jobs.options("nowhere")),
        "bad option": said(jobs.options("batch", startingOffset="1")),
        "beyond the end": said(jobs.options("batch", endingOffsets='{"batch":{"0":99999999,"1":-1}}')),
        "no root": said({**jobs.options("batch"), "bmq.root": "file:/nowhere"}),
    }


def examples(jobs: Jobs) -> Any:
    """The examples of docs/SPARK.md that read with this source, as they stand there."""
    text = (REPOSITORY / "docs" / "SPARK.md").read_text().partition('## Reading with format("bmq")')[2]
    blocks = re.findall(r"```python\n(.*?)```", text.partition("\n## ")[0], re.DOTALL)
    write(jobs.bootstrap, "events", 4, time.time_ns() // 1_000_000)
    for block in blocks:
        block = block.replace("localhost:9092", jobs.bootstrap).replace("/tmp/", f"{jobs.directory}/")
        exec(block, {"spark": jobs.spark})
    return {"examples": len(blocks), "rows": jobs.spark.read.parquet(f"{jobs.directory}/events").count()}


def main() -> None:
    directory, bootstrap = Path(sys.argv[1]), sys.argv[2]
    spark = session(directory / "warehouse")
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    jobs = Jobs(spark, directory, bootstrap)
    results: dict[str, Any] = {}
    for name, job in (
        ("batch", batch_reads),
        ("stream", streams),
        ("latest", latest_survives),
        ("errors", errors),
        ("changes", lambda jobs: ChangingTopics(jobs.spark, "bmq", jobs.bootstrap, jobs.directory).all()),
        ("examples", examples),
    ):
        results[name] = job(jobs)
    spark.stop()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
