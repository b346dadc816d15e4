"""A topic's id, partitions and ends according to the cluster, and the stream that reads it.

Uses the client that comes with the Kafka connector, with the connector's own options, so that the job has the same rights as
its reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from bmq.spark.source import register
from bmq.spark.tables.errors import TableJobError

_OWN_SOURCE: Final = "bmq"
_CLIENT_OPTION_PREFIX: Final = "kafka."
_ASK_TIMEOUT_MS: Final = 30_000


@dataclass(frozen=True, slots=True)
class TopicState:
    """`end_offsets`: of each partition the offset of its next record."""

    topic_id: str
    end_offsets: Mapping[int, int]


class Topic:
    """`options`: the connector's, including the servers' address; its defaults for the rest."""

    def __init__(self, spark: SparkSession, name: str, source: str, options: Mapping[str, str]) -> None:
        self.name = name
        self._spark = spark
        self._source = source
        # Records of aborted transactions must not be read.
        self._options = {"kafka.isolation.level": "read_committed", **options}

    def state(self) -> TopicState:
        """The present state. Raises TableJobError: no server answers, there is no such topic, or the client is missing."""
        admin = self._admin()
        try:
            described = admin.describeTopics([self.name]).allTopicNames().get().get(self.name)
            return TopicState(described.topicId().toString(), self._end_offsets(admin, described.partitions().size()))
        except Py4JJavaError as error:
            cause = error.java_exception.getCause() or error.java_exception
            raise TableJobError(f"topic {self.name} cannot be asked for: {cause.getMessage()}") from None
        finally:
            admin.close()

    def first_offsets(self, since_ms: int | None = None) -> dict[int, int | None]:
        """The first offset of each partition, or the first one with a timestamp since then; None: there is none. Raises TableJobError."""
        admin = self._admin()
        try:
            partitions = admin.describeTopics([self.name]).allTopicNames().get().get(self.name).partitions().size()
            specs: Any = self._jvm.org.apache.kafka.clients.admin.OffsetSpec
            ask = specs.earliest if since_ms is None else lambda: specs.forTimestamp(since_ms)
            found = self._offsets(admin, partitions, ask)
            return {number: offset if offset >= 0 else None for number, offset in found.items()}
        except Py4JJavaError as error:
            cause = error.java_exception.getCause() or error.java_exception
            raise TableJobError(f"topic {self.name} cannot be asked for: {cause.getMessage()}") from None
        finally:
            admin.close()

    def records_between(self, offset_options: Mapping[str, str]) -> DataFrame:
        """Records of these offsets, once, with the Kafka connector's columns."""
        if self._source == _OWN_SOURCE:
            register(self._spark)
        reader = self._spark.read.format(self._source).options(**self._options).option("includeHeaders", "true")
        return reader.options(**offset_options).load()

    def records(self, starting_offsets: str, max_offsets_per_trigger: int | None) -> DataFrame:
        """A stream of records with the Kafka connector's columns. `starting_offsets`: for a new checkpoint."""
        if self._source == _OWN_SOURCE:
            register(self._spark)
        reader = (
            self._spark.readStream.format(self._source)
            .options(**self._options)
            .option("subscribe", self.name)
            .option("includeHeaders", "true")
            .option("startingOffsets", starting_offsets)
        )
        if max_offsets_per_trigger is not None:
            reader = reader.option("maxOffsetsPerTrigger", str(max_offsets_per_trigger))
        return reader.load()

    def _admin(self) -> Any:
        jvm = self._jvm
        client = jvm.org.apache.kafka.clients.admin.AdminClient
        if isinstance(client, JavaPackage):
            raise TableJobError("the jars of the Kafka connector are missing: name them in spark.jars")
        properties = jvm.java.util.Properties()
        for key, value in self._options.items():
            if key.startswith(_CLIENT_OPTION_PREFIX):
                properties.setProperty(key.removeprefix(_CLIENT_OPTION_PREFIX), value)
        properties.setProperty("default.api.timeout.ms", str(_ASK_TIMEOUT_MS))
        try:
            return client.create(properties)
        except Py4JJavaError as error:
            cause = error.java_exception.getCause() or error.java_exception
            raise TableJobError(f"no client for topic {self.name}: {cause.getMessage()}") from None

    @property
    def _jvm(self) -> Any:
        return self._spark._jvm

    def _end_offsets(self, admin: Any, partitions: int) -> dict[int, int]:
        return self._offsets(admin, partitions, self._jvm.org.apache.kafka.clients.admin.OffsetSpec.latest)

    def _offsets(self, admin: Any, partitions: int, spec: Callable[[], Any]) -> dict[int, int]:
        jvm = self._jvm
        wanted = jvm.java.util.HashMap()
        places = [jvm.org.apache.kafka.common.TopicPartition(self.name, number) for number in range(partitions)]
        for place in places:
            wanted.put(place, spec())
        found = admin.listOffsets(wanted).all().get()
        return {number: found.get(place).offset() for number, place in enumerate(places)}
