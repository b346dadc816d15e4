"""What the driver makes of a cluster: which partitions, which offsets, and sentences for what does not fit."""

from __future__ import annotations

import base64
import json
import socket
from contextlib import closing
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest

from bmq.local_store.store import LocalStore
from bmq.log.names import partition_directory
from bmq.log.partition_log import TopicPartition
from bmq.log.root import open_root
from bmq.log.store import SegmentStore, StorageUnavailable
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse, DescribeLogDirsResult
from bmq.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from bmq.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from bmq.spark.source.cluster import ClusterAway, UnknownTopic
from bmq.spark.source.options import BadOption, read_options
from bmq.spark.source.plan import ProxyPiece, RangeToRead
from bmq.spark.source.read import DataLoss
from bmq.spark.source.session import Session
from bmq.spark.source.storage import StoreAway, StoreUnreadable, require_cluster
from bmq.spark.source.stream_offset import StreamOffset
from tests.fakes.kafka_proxy import FakeProxy
from tests.unit.log.owned_log import PARTITION, Owner, batch_of

pytestmark = pytest.mark.unit

CLUSTER_ID = "abcdefghijklmnopqrstuv"


class FakeCluster:
    """Topics with partitions that have [first, end) and, at each time t, the offset t."""

    def __init__(self, topics: dict[str, list[tuple[int, int]]], root: str = "") -> None:
        self.topics = topics
        self.root = root
        self.failures = 0
        self.answers = {
            ApiKey.METADATA: self.metadata,
            ApiKey.LIST_OFFSETS: self.list_offsets,
            ApiKey.DESCRIBE_LOG_DIRS: self.log_dirs,
        }

    def topic_id(self, name: str) -> UUID:
        return UUID(int=1 + sorted(self.topics).index(name))

    def metadata(self, request: Any) -> MetadataResponse:
        names = self.topics if request.topics is None else [topic.name for topic in request.topics]
        found = []
        for name in names:
            if name not in self.topics:
                found.append(MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
                continue
            partitions = [MetadataResponsePartition(partition_index=n) for n in range(len(self.topics[name]))]
            is_internal = name.startswith("__")
            found.append(
                MetadataResponseTopic(
                    name=name, topic_id=self.topic_id(name), partitions=partitions, is_internal=is_internal
                )
            )
        return MetadataResponse(cluster_id=CLUSTER_ID, topics=found)

    def list_offsets(self, request: Any) -> ListOffsetsResponse:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if self.failures else ErrorCode.NONE
        self.failures = max(0, self.failures - 1)

        def offset(name: str, partition: int, timestamp: int) -> int:
            first, end = self.topics[name][partition]
            if timestamp < 0:
                return first if timestamp == -2 else end
            return max(first, timestamp) if timestamp < end else -1

        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=one.partition_index,
                            error_code=code,
                            offset=offset(topic.name, one.partition_index, one.timestamp),
                        )
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def log_dirs(self, request: Any) -> DescribeLogDirsResponse:
        return DescribeLogDirsResponse(results=[DescribeLogDirsResult(log_dir=self.root)])


async def planned(cluster: FakeCluster, **options: str) -> list[RangeToRead]:
    with FakeProxy(cluster.answers) as proxy:
        given = {"kafka.bootstrap.servers": f"127.0.0.1:{proxy.port}", "bmq.root": "none", **options}
        async with Session.opened(read_options(given, is_stream=False)) as session:
            return (await session.batch())[0]


def ends(ranges: list[RangeToRead]) -> dict[tuple[str, int], tuple[int, int]]:
    return {(one.topic, one.partition): (one.start_offset, one.end_offset) for one in ranges}


async def test_everything_there_is() -> None:
    cluster = FakeCluster({"a": [(0, 10), (5, 30)], "b": [(0, 0)], "__internal": [(0, 9)]})
    found = await planned(cluster, subscribePattern=".*")
    assert ends(found) == {("a", 0): (0, 10), ("a", 1): (5, 30)}
    assert found[0].pieces == (ProxyPiece(0, 10),)
    assert ends(await planned(cluster, subscribe="__internal")) == {("__internal", 0): (0, 9)}
    assert await planned(cluster, subscribePattern="x+") == []
    assert ends(await planned(cluster, assign='{"a":[1]}')) == {("a", 1): (5, 30)}


async def test_edges() -> None:
    cluster = FakeCluster({"a": [(0, 10), (5, 30)]})
    cut = json.dumps({"a": {"0": 3, "1": -2}})
    assert ends(await planned(cluster, subscribe="a", startingOffsets=cut)) == {("a", 0): (3, 10), ("a", 1): (5, 30)}
    cut = json.dumps({"a": {"0": 3, "1": -1}})
    assert ends(await planned(cluster, subscribe="a", endingOffsets=cut)) == {("a", 0): (0, 3), ("a", 1): (5, 30)}
    found = await planned(cluster, subscribe="a", startingTimestamp="7", endingTimestamp="20")
    assert ends(found) == {("a", 0): (7, 10), ("a", 1): (7, 20)}
    found = await planned(cluster, subscribe="a", startingTimestamp="12", startingOffsetsByTimestampStrategy="latest")
    assert ends(found) == {("a", 1): (12, 30)}
    with pytest.raises(BadOption, match=r"a-0 has no record at or past 12"):
        await planned(cluster, subscribe="a", startingTimestamp="12")
    with pytest.raises(BadOption, match=r"startingOffsets does not name a-1"):
        await planned(cluster, subscribe="a", startingOffsets='{"a":{"0":3}}')
    with pytest.raises(BadOption, match=r"names, without a subscription to it, b-0"):
        await planned(cluster, subscribe="a", startingOffsets='{"a":{"0":3,"1":5},"b":{"0":1}}')


async def test_a_log_that_grows_while_its_ends_are_asked_for() -> None:
    """Latest, for all or for one partition, is no offset that was given and is not there."""
    cluster = FakeCluster({"a": [(0, 10), (0, 20)]})
    list_offsets = cluster.list_offsets

    def grown(request: Any) -> ListOffsetsResponse:
        cluster.topics["a"] = [(first, end + 1) for first, end in cluster.topics["a"]]
        return list_offsets(request)

    cluster.answers[ApiKey.LIST_OFFSETS] = grown
    for ending in ("latest", '{"a":{"0":-1,"1":15}}'):
        found = ends(await planned(cluster, subscribe="a", endingOffsets=ending))
        assert found["a", 0][0] == 0 and found["a", 0][1] >= 10
    assert found["a", 1] == (0, 15)


async def test_what_is_gone_or_never_was_is_a_loss() -> None:
    cluster = FakeCluster({"a": [(5, 30)]})
    early, late = '{"a":{"0":3}}', '{"a":{"0":31}}'
    with pytest.raises(DataLoss, match=r"a-0 was to be read from offset 3, and begins at 5; with failOnDataLoss=false"):
        await planned(cluster, subscribe="a", startingOffsets=early)
    with pytest.raises(DataLoss, match=r"a-0 was to be read up to offset 31, and ends at 30"):
        await planned(cluster, subscribe="a", endingOffsets=late)
    found = await planned(cluster, subscribe="a", startingOffsets=early, endingOffsets=late, failOnDataLoss="false")
    assert ends(found) == {("a", 0): (5, 30)}


async def test_who_is_not_there() -> None:
    cluster = FakeCluster({"a": [(0, 5)]})
    with pytest.raises(UnknownTopic, match=r"the cluster has no topic b, c"):
        await planned(cluster, subscribe="a,b,c")
    with pytest.raises(UnknownTopic, match=r"no partition a-1"):
        await planned(cluster, assign='{"a":[0,1]}')


async def test_an_error_that_passes_is_waited_out_and_the_next_server_is_asked() -> None:
    cluster = FakeCluster({"a": [(0, 5)]})
    cluster.failures = 2
    with FakeProxy({}) as closed:
        pass
    with FakeProxy(cluster.answers) as proxy:
        servers = f"127.0.0.1:{closed.port},127.0.0.1:{proxy.port}"
        given = {"kafka.bootstrap.servers": servers, "subscribe": "a", "bmq.root": "none"}
        async with Session.opened(read_options(given, is_stream=False)) as session:
            assert await session.latest() == {("a", 0): 5}


async def test_a_server_that_hangs_is_left_for_the_next_one() -> None:
    cluster = FakeCluster({"a": [(0, 5)]})
    with closing(socket.create_server(("127.0.0.1", 0))) as silent, FakeProxy(cluster.answers) as proxy:
        servers = f"127.0.0.1:{silent.getsockname()[1]},127.0.0.1:{proxy.port}"
        given = {
            "kafka.bootstrap.servers": servers,
            "kafka.request.timeout.ms": "200",
            "subscribe": "a",
            "bmq.root": "none",
        }
        async with Session.opened(read_options(given, is_stream=False)) as session:
            assert await session.latest() == {("a", 0): 5}


async def test_only_a_server_that_hangs_is_a_cluster_that_is_away() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        given = {"kafka.bootstrap.servers": address, "subscribe": "a"}
        for options in (
            {"kafka.request.timeout.ms": "50", "kafkaConsumer.pollTimeoutMs": "200"},
            {"kafkaConsumer.pollTimeoutMs": "50"},  # less than an answer may take
        ):
            with pytest.raises(ClusterAway, match=rf"the cluster at {address} does not answer METADATA"):
                async with Session.opened(read_options({**given, **options}, is_stream=False)):
                    pass


async def test_the_store_has_to_be_the_clusters(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    await open_root(store, holder="h", new_cluster_id=CLUSTER_ID)
    await store.close()
    cluster = FakeCluster({"a": [(0, 5)]}, str(tmp_path))
    assert ends(await planned(cluster, subscribe="a", **{"bmq.root": ""})) == {("a", 0): (0, 5)}
    (tmp_path / "cluster.json").chmod(0o644)
    (tmp_path / "cluster.json").write_text('{"cluster_id": "another", "format_version": 2}')
    (tmp_path / "cluster.json").chmod(0o444)
    with pytest.raises(StoreUnreadable, match=r"belongs to cluster another, and the servers to abc"):
        await planned(cluster, subscribe="a", **{"bmq.root": ""})
    with pytest.raises(StoreUnreadable, match=r"has no cluster.json"):
        await planned(cluster, subscribe="a", **{"bmq.root": f"file:{tmp_path.parent}"})


async def test_a_store_that_does_not_answer_now_is_told_apart() -> None:
    """Jobs try again for this one alone."""

    class Away:
        async def status(self, path: str) -> None:
            raise StorageUnavailable("no NameNode answers")

    with pytest.raises(StoreAway, match=r"cannot be read from here: no NameNode answers; name it with"):
        await require_cluster(cast(SegmentStore, Away()), "hdfs://n:1/bmq", CLUSTER_ID)


async def test_batches_of_a_stream() -> None:
    cluster = FakeCluster({"a": [(5, 30), (0, 8)]})
    ids = {"a": str(cluster.topic_id("a"))}
    seen = StreamOffset({("a", 0): 7}, {("a", 0): 5}, ids)
    end = StreamOffset({("a", 0): 20, ("a", 1): 8}, {("a", 0): 5, ("a", 1): 0}, ids)
    with FakeProxy(cluster.answers) as proxy:
        given = {"kafka.bootstrap.servers": f"127.0.0.1:{proxy.port}", "bmq.root": "none", "subscribe": "a"}
        async with Session.opened(read_options(given, is_stream=True)) as session:
            assert await session.stream_ranges(seen, end) == {("a", 0): (7, 20), ("a", 1): (0, 8)}
            within = await session.within_bytes(seen, end, 1)
            assert all(within.offsets[one] >= seen.offsets.get(one, 0) + 1 for one in end.offsets)
            begun = StreamOffset({("a", 0): 3}, {("a", 0): 3}, ids)
            with pytest.raises(DataLoss, match=r"a-0 was to be read from offset 3, and begins at 5"):
                await session.stream_ranges(begun, end)
            made_again = StreamOffset(end.offsets, end.begin, {"a": "another"})
            with pytest.raises(DataLoss, match=r"a-0: offsets 5 to 19 are gone, the topic was deleted"):
                await session.stream_ranges(seen, made_again)


async def test_a_limit_in_bytes_holds_within_a_segment(tmp_path: Path) -> None:
    cluster = FakeCluster({"a": [(0, 8)]}, str(tmp_path))
    store = LocalStore(tmp_path)
    await open_root(store, holder="h", new_cluster_id=CLUSTER_ID)
    owner = await Owner(store, 1).start()
    for _ in range(8):
        await owner.produce(batch_of(1, value_bytes=600_000))
    await owner.roll_segment()
    await store.close()
    directory = tmp_path / partition_directory(TopicPartition(cluster.topic_id("a"), 0))
    directory.parent.mkdir()
    (tmp_path / PARTITION).rename(directory)
    ids = {"a": str(cluster.topic_id("a"))}
    seen, end = (StreamOffset({("a", 0): offset}, {("a", 0): 0}, ids) for offset in (0, 8))
    with FakeProxy(cluster.answers) as proxy:
        given = {"kafka.bootstrap.servers": f"127.0.0.1:{proxy.port}", "subscribe": "a"}
        async with Session.opened(read_options(given, is_stream=True)) as session:
            assert dict((await session.within_bytes(seen, end, 1 << 20)).offsets) == {("a", 0): 2}
            assert dict((await session.within_bytes(seen, end, 3 << 20)).offsets) == {("a", 0): 6}
            assert dict((await session.within_bytes(seen, end, 1 << 30)).offsets) == {("a", 0): 8}


async def test_a_cluster_that_is_away_is_told() -> None:
    with FakeProxy({}) as closed:
        pass
    given = {"kafka.bootstrap.servers": f"127.0.0.1:{closed.port}", "subscribe": "a"}
    options = read_options({**given, "kafkaConsumer.pollTimeoutMs": "50"}, is_stream=False)
    with pytest.raises(ClusterAway, match=r"does not answer METADATA"):
        async with Session.opened(options):
            pass


async def test_a_topic_of_another_id_is_not_read() -> None:
    cluster = FakeCluster({"a": [(0, 5)], "b": [(0, 5)]})

    def ids(topic: str) -> str:
        text = base64.urlsafe_b64encode(cluster.topic_id(topic).bytes).decode().rstrip("=")
        return json.dumps({"a": text})

    assert ends(await planned(cluster, subscribe="a", **{"bmq.topic.ids": ids("a")})) == {("a", 0): (0, 5)}
    with pytest.raises(UnknownTopic, match=r"topic a was deleted and made again"):
        await planned(cluster, subscribe="a", **{"bmq.topic.ids": ids("b")})


async def small_log(tmp_path: Path, cluster: FakeCluster, segments: int, batches: int) -> None:
    """Segments of batches of ten records, each far below what would be cut for its size."""
    store = LocalStore(tmp_path)
    await open_root(store, holder="h", new_cluster_id=CLUSTER_ID)
    owner = await Owner(store, 1).start()
    for _ in range(segments):
        for _ in range(batches):
            await owner.produce(batch_of(10))
        await owner.roll_segment()
    await store.close()
    directory = tmp_path / partition_directory(TopicPartition(cluster.topic_id("a"), 0))
    directory.parent.mkdir()
    (tmp_path / PARTITION).rename(directory)


@pytest.mark.parametrize("wanted", [1, 3, 9, 11, 40, 89, 90, 91])
async def test_as_many_tasks_as_are_asked_for(tmp_path: Path, wanted: int) -> None:
    """As far as there are offsets: 90 here, in 3 segments that have no index entries to cut at."""
    cluster = FakeCluster({"a": [(0, 90)]}, str(tmp_path))
    await small_log(tmp_path, cluster, segments=3, batches=3)
    found = await planned(cluster, subscribe="a", minPartitions=str(wanted), **{"bmq.root": ""})
    assert len(found) == min(wanted, 90)
    offsets = [offset for one in found for offset in range(one.start_offset, one.end_offset)]
    assert offsets == list(range(90))
    lengths = [one.end_offset - one.start_offset for one in found]
    assert max(lengths) <= 3 * min(lengths), "of about equally much each"
