"""Topics that change while Spark reads them, through any source with the connector's options; for jobs of the e2e tests.

Each step gives the numbers that were read, and what was said where nothing could be.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from testing.processes import eventually

WAIT_S = 300.0
TRIGGER = "100 milliseconds"


class ChangingTopics:
    """`form`: the source. Its topics are named after it, so that several can be tried on one server."""

    def __init__(self, spark: SparkSession, form: str, bootstrap: str, directory: Path) -> None:
        self._spark = spark
        self._form = form
        self._directory = directory / f"changes-{form}"
        self._config = {"bootstrap.servers": bootstrap}
        self._admin = AdminClient(self._config)

    def all(self) -> dict[str, Any]:
        return {
            "partitions added": self.partitions_added(),
            "records deleted": self.records_deleted(),
            "topic made again": self.topic_made_again(),
            "checkpoint of another topic": self.checkpoint_of_another_topic(),
        }

    def partitions_added(self) -> list[int]:
        """While the stream runs; the first records of the new ones count."""
        topic = self._make("grows", 1)
        self._produce(topic, range(10), 0)
        seen: list[int] = []
        query = self._start(topic, seen)
        try:
            eventually(lambda: self._goes_on(query) and len(seen) >= 10, WAIT_S, "the first partition is read")
            self._admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
            for partition in (1, 2):
                self._produce(topic, range(10 * partition, 10 * partition + 10), partition)
            eventually(lambda: self._goes_on(query) and len(seen) >= 30, WAIT_S, "the new partitions are read")
            # A batch that was seen may not be committed yet: a later run would repeat it before it looks at the topic.
            query.processAllAvailable()
        finally:
            query.stop()
        return sorted(seen)

    def records_deleted(self) -> dict[str, Any]:
        """Before they are read, by a job that was told to begin with them."""
        topic = self._make("shrinks", 1)
        self._produce(topic, range(20), 0)
        self._admin.delete_records([TopicPartition(topic, 0, 12)])[TopicPartition(topic, 0)].result(30)
        options = {"startingOffsets": f'{{"{topic}":{{"0":5}}}}'}

        def read(**more: str) -> list[int]:
            return numbers(self._reader(self._spark.read, topic, **options, **more).load())

        return {"refused": said(read), "left": read(failOnDataLoss="false")}

    def topic_made_again(self) -> dict[str, Any]:
        """Under its name, with fewer records than the checkpoint has seen."""
        topic = self._make("returns", 1)
        self._produce(topic, range(20), 0)
        seen: list[int] = []
        self._run(topic, seen)
        assert sorted(seen) == list(range(20))
        self._admin.delete_topics([topic])[topic].result(30)
        eventually(lambda: topic not in self._admin.list_topics(timeout=30).topics, WAIT_S, "the topic is gone")
        self._make("returns", 1)
        self._produce(topic, range(100, 105), 0)
        again: list[int] = []
        refused = said(lambda: self._run(topic, again))
        assert again == []
        if self._form == "bmq":
            # The connector of Spark 4.1 fails after a batch that it plans again (SPARK-55271).
            self._run(topic, again, failOnDataLoss="false")
        return {"refused": refused, "then": sorted(again)}

    def checkpoint_of_another_topic(self) -> str:
        topic = self._make("other", 1)
        self._produce(topic, range(5), 0)
        seen: list[int] = []
        refused = said(lambda: self._run(topic, seen, checkpoint=self._checkpoint("grows")))
        assert seen == []
        return refused

    # --- what they share

    def _make(self, what: str, partitions: int) -> str:
        topic = f"{self._form}-{what}"
        self._admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
        return topic

    def _produce(self, topic: str, values: range, partition: int) -> None:
        producer = Producer(self._config)
        for number in values:
            producer.produce(topic, b"%d" % number, partition=partition)
        assert producer.flush(30) == 0

    def _checkpoint(self, what: str) -> Path:
        return self._directory / what

    def _reader(self, reader: Any, topic: str, **more: str) -> Any:
        options = {"kafka.bootstrap.servers": self._config["bootstrap.servers"], "subscribe": topic, **more}
        # What a task asks a server that has no answer; the connector waits two minutes.
        return reader.format(self._form).options(**{"kafkaConsumer.pollTimeoutMs": "30000", **options})

    def _writer(self, topic: str, seen: list[int], checkpoint: Path | None, **more: str) -> Any:
        def keep(frame: DataFrame, _: int) -> None:
            seen.extend(numbers(frame))

        frame = self._reader(self._spark.readStream, topic, startingOffsets="earliest", **more).load()
        where = checkpoint or self._checkpoint(topic.removeprefix(f"{self._form}-"))
        return frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(where))

    def _start(self, topic: str, seen: list[int]) -> StreamingQuery:
        query: StreamingQuery = self._writer(topic, seen, None).trigger(processingTime=TRIGGER).start()
        return query

    def _run(self, topic: str, seen: list[int], *, checkpoint: Path | None = None, **more: str) -> None:
        query = self._writer(topic, seen, checkpoint, **more).trigger(availableNow=True).start()
        assert query.awaitTermination(int(WAIT_S)), "the query does not end"

    def _goes_on(self, query: StreamingQuery) -> bool:
        assert query.isActive, query.exception()
        return True


def numbers(frame: DataFrame) -> list[int]:
    return sorted(int(bytes(row["value"])) for row in frame.select("value").collect())


def said(action: Callable[[], object]) -> str:
    """What a job says that fails; empty if it does not."""
    try:
        action()
    except (PySparkException, Py4JError) as error:
        return str(error)
    return ""
