"""The order in which Spark asks, of 4.2 and of the versions before it: nothing twice, nothing passed over, one text for one place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from bmq.spark.source.options import read_options
from bmq.spark.source.stream_offset import StreamOffset
from tests.fakes.kafka_proxy import FakeProxy
from tests.unit.spark.source.test_session import FakeCluster

pytest.importorskip("pyspark.sql.datasource")

pytestmark = pytest.mark.unit

A0, A1 = ("a", 0), ("a", 1)


class Query:
    """Makes readers as a query's first start and its restarts do."""

    def __init__(self, cluster: FakeCluster, port: int) -> None:
        self.cluster = cluster
        self._port = port

    def reader(self, **options: str) -> Any:
        from bmq.spark.source.stream_reader import BmqStreamReader

        servers = f"127.0.0.1:{self._port}"
        given = {"kafka.bootstrap.servers": servers, "bmq.root": "none", "subscribe": "a", **options}
        return BmqStreamReader(read_options(given, is_stream=True))


@pytest.fixture
def query() -> Iterator[Query]:
    cluster = FakeCluster({"a": [(0, 10), (0, 10)]})
    with FakeProxy(cluster.answers) as proxy:
        yield Query(cluster, proxy.port)


def offsets(found: dict[str, Any]) -> dict[tuple[str, int], int]:
    return dict(StreamOffset.from_json(found).offsets)


def read(tasks: list[Any]) -> dict[tuple[str, int], tuple[int, int]]:
    return {(t.wanted.topic, t.wanted.partition): (t.wanted.start_offset, t.wanted.end_offset) for t in tasks}


def test_the_first_batch_keeps_where_the_query_began(query: Query) -> None:
    """Even if there was nothing: what comes while the query is down belongs to it."""
    reader = query.reader()
    first = reader.initialOffset()
    end = reader.latestOffset(first, None)
    assert json.dumps(end) != json.dumps(first) and offsets(end) == {A0: 10, A1: 10}
    assert reader.partitions(first, end) == []
    assert json.dumps(reader.latestOffset(end, None)) == json.dumps(end), "nothing new is no batch"
    query.cluster.topics["a"] = [(0, 15), (0, 10)]
    again = query.reader()
    assert again.partitions(again.initialOffset(), end) == [], "the repeated first batch"
    assert read(again.partitions(end, again.latestOffset(end, None))) == {A0: (10, 15)}


def test_a_repeated_first_batch_reads_what_it_read(query: Query) -> None:
    reader = query.reader(startingOffsets="earliest")
    first = reader.initialOffset()
    end = reader.latestOffset(first, None)
    planned = read(reader.partitions(first, end))
    assert planned == {A0: (0, 10), A1: (0, 10)}
    query.cluster.topics["a"] = [(0, 50), (0, 50), (0, 50)]
    again = query.reader(startingOffsets="latest")
    assert read(again.partitions(again.initialOffset(), end)) == planned


def test_before_spark_4_2_limits_go_by_the_last_batch_that_was_planned(query: Query) -> None:
    reader = query.reader(startingOffsets="earliest", maxOffsetsPerTrigger="6")
    end = reader.latestOffset()
    assert offsets(end) == {A0: 10, A1: 10}, "nobody knows yet how far the query is"
    reader.partitions(reader.initialOffset(), end)
    query.cluster.topics["a"] = [(0, 50), (0, 50)]
    again = query.reader(startingOffsets="earliest", maxOffsetsPerTrigger="6")
    assert again.partitions(end, end) == []
    second = again.latestOffset()
    assert read(again.partitions(end, second)) == {A0: (10, 13), A1: (10, 13)}
    third = again.latestOffset()
    assert read(again.partitions(second, third)) == {A0: (13, 16), A1: (13, 16)}


def test_available_now_reaches_what_there_was_and_stops(query: Query) -> None:
    reader = query.reader(startingOffsets="earliest", maxOffsetsPerTrigger="8", maxBytesPerTrigger="1g")
    reader.prepareForTriggerAvailableNow()
    query.cluster.topics["a"] = [(0, 90), (0, 90), (0, 90)]
    at, ends = reader.initialOffset(), []
    for _ in range(10):
        # Spark asks with a limit from 4.2 on, and has the classes of limits since then.
        has_limits = find_spec("pyspark.sql.streaming.datasource") is not None
        limit = reader.getDefaultReadLimit() if has_limits else object()
        end = reader.latestOffset(at, limit)
        if json.dumps(end) == json.dumps(at):
            break
        ends.append(read(reader.partitions(at, end)))
        at = end
    assert offsets(at) == {A0: 10, A1: 10}
    assert [one[A0] for one in ends] == [(0, 4), (4, 8), (8, 10)]


def test_a_stream_goes_on_without_a_deleted_topic_only_if_it_may(query: Query) -> None:
    reader = query.reader(startingOffsets="earliest")
    end = reader.latestOffset(reader.initialOffset(), None)
    query.cluster.topics = {"a": [(0, 3)]}
    from bmq.spark.source.read import DataLoss

    with pytest.raises(DataLoss, match=r"partition 1 of topic a was deleted"):
        reader.latestOffset(end, None)
    lenient = query.reader(startingOffsets="earliest", failOnDataLoss="false")
    assert offsets(lenient.latestOffset(end, None)) == {A0: 3}


def test_a_stream_of_several_topics_goes_on_without_one_that_was_deleted(query: Query) -> None:
    from bmq.spark.source.cluster import UnknownTopic

    query.cluster.topics = {"a": [(0, 10)], "b": [(0, 10)]}
    named = {"subscribe": "a,b", "startingOffsets": "earliest", "failOnDataLoss": "false"}
    reader = query.reader(**named)
    first = reader.initialOffset()
    end = reader.latestOffset(first, None)
    query.cluster.topics = {"a": [(0, 15)]}
    assert read(reader.partitions(first, end)) == {A0: (0, 10)}
    assert offsets(reader.latestOffset(end, None)) == {A0: 15}
    with pytest.raises(UnknownTopic, match="no topic b"):
        query.reader(**named | {"failOnDataLoss": "true"}).latestOffset(end, None)
    with pytest.raises(UnknownTopic, match="no topic b"):
        query.reader(**named).initialOffset()


def test_a_stream_goes_on_without_an_assigned_partition_that_was_deleted(query: Query) -> None:
    named = {"subscribe": "", "assign": '{"a":[0,1]}', "startingOffsets": "earliest", "failOnDataLoss": "false"}
    reader = query.reader(**named)
    end = reader.latestOffset(reader.initialOffset(), None)
    query.cluster.topics = {"a": [(0, 15)]}
    assert offsets(reader.latestOffset(end, None)) == {A0: 15}
