"""State of groups and transactions that a killed server, also one of an older release, left half-written: the next goes on with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from kio.schema.errors import ErrorCode as E

from bmq.coordinator.runtime.directory import shard_of
from testing import wire
from testing.processes import REPOSITORY, eventually
from testing.servers import BmqServer
from testing.topic_contents import end_offsets
from testing.wire import WireClient
from tests.e2e.conftest import create_topic
from tests.support.group_client import LEAVE, GroupClient, topic_id_of
from tests.support.older_release import package_of, unpack_older_release
from tests.support.transaction_client import TransactionClient

pytestmark = [pytest.mark.campaign("kills"), pytest.mark.bmq_only, pytest.mark.timeout(120), pytest.mark.safety]

SHARDS = 50
PARTITIONS = 3
COPIES = "copies"
TIMEOUT_MS = 5_000


def cut_short(server: BmqServer, topic_id: str, shard: int) -> None:
    """As a kill in the middle of an append leaves it: behind whole batches there is half of one."""
    directory = server.directory / "topics" / topic_id / str(shard)
    (segment,) = (path for path in directory.glob("*/*.log") if path.stat().st_size)
    written = segment.read_bytes()
    segment.write_bytes(written + written[: len(written) // 2 | 1][:90])


def committed(server: BmqServer, group_id: str) -> list[int]:
    reader = Consumer({"bootstrap.servers": server.bootstrap, "group.id": group_id})
    found = reader.committed([TopicPartition("t", number) for number in range(PARTITIONS)], timeout=30)
    reader.close()
    return [each.offset for each in found]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Callable[[Path], BmqServer]]:
    """Makes the next server of one data directory and one address; of the package in a directory."""
    made: list[BmqServer] = []

    def make(release: Path) -> BmqServer:
        server = BmqServer(tmp_path / "data", {"PYTHONPATH": str(release)})
        if made:
            server.port = made[-1].port
        made.append(server)
        server.start()
        assert package_of(server.process.environment) == release / "bmq"
        return server

    yield make
    for server in made:
        server.close()
    assert "Traceback (most recent call last)" not in made[-1].log_file.read_text()


def kill_in_the_middle_of_writing(server: BmqServer, keys: Mapping[str, Iterable[str]]) -> None:
    """`keys`: by the topic of the state, whose shards' last appends are cut short."""
    states = [
        (str(topic_id_of(server.bootstrap, topic)), {shard_of(key, SHARDS) for key in keys[topic]}) for topic in keys
    ]
    server.kill()
    for topic_id, shards in states:
        for shard in shards:
            cut_short(server, topic_id, shard)


def test_a_classic_group_of_an_older_release_goes_on(servers: Callable[[Path], BmqServer], tmp_path: Path) -> None:
    """Its member stays, its offsets are there, and it can move to the protocol that the older release did not know."""
    server = servers(unpack_older_release(tmp_path / "older"))
    create_topic(server, "t", PARTITIONS)
    with WireClient(server.port) as connection:
        groups = GroupClient(connection)
        member_id, generation = groups.joined("group", instance_id="one")
        told = groups.commit(
            "group", {"t": [0]}, generation=generation, member_id=member_id, instance_id="one", metadata="kept"
        )
        assert told == {"t": [E.none]}
    kill_in_the_middle_of_writing(server, {"__consumer_offsets": ["group"]})

    server = servers(REPOSITORY)
    with WireClient(server.port) as connection:
        groups = GroupClient(connection)
        assert groups.beat("group", member_id, generation, "one") is E.none
        told = groups.commit("group", {"t": [1]}, generation=generation, member_id=member_id, instance_id="one")
        assert told == {"t": [E.none]}
        assert committed(server, "group") == [1, 1, -1001]
        assert groups.leave("group", member_id, "one") is E.none
        consumer_id, epoch = groups.settled("group", "t", topic_id_of(server.bootstrap, "t"), PARTITIONS)
        assert epoch > generation
        assert groups.heartbeat("group", consumer_id, LEAVE).error_code is E.none
    assert committed(server, "group") == [1, 1, -1001]


def test_transactions_and_members_go_on(servers: Callable[[Path], BmqServer]) -> None:
    """What was answered is so, and what was left open is aborted, though the last appends are cut short."""
    server = servers(REPOSITORY)
    create_topic(server, "t", PARTITIONS)
    topic_id = topic_id_of(server.bootstrap, "t")
    with WireClient(server.port) as connection:
        groups, transactions = GroupClient(connection), TransactionClient(connection)
        member_id, epoch = groups.settled("consumers", "t", topic_id, PARTITIONS)
        assert groups.commit("consumers", {"t": [0]}, generation=epoch, member_id=member_id) == {"t": [E.none]}
        ended, left_open = transactions.begun("ended"), transactions.begun("open", TIMEOUT_MS)
        for partition, (name, identity) in enumerate((("ended", ended), ("open", left_open))):
            assert transactions.produce(name, identity, "t", 0, partition=partition) == wire.NONE
            assert transactions.commit_offset(name, COPIES, identity, "t", partition=partition) is E.none
        assert transactions.end("ended", ended) is E.none  # its markers may be missing
    kill_in_the_middle_of_writing(
        server, {"__consumer_offsets": ["consumers", COPIES], "__transaction_state": ["ended", "open"]}
    )

    server = servers(REPOSITORY)
    with WireClient(server.port) as connection:
        groups, transactions = GroupClient(connection), TransactionClient(connection)
        beat = groups.heartbeat("consumers", member_id, epoch)
        assert (beat.error_code, beat.member_epoch, beat.assignment) == (E.none, epoch, None)
        assert groups.commit("consumers", {"t": [1]}, generation=epoch, member_id=member_id) == {"t": [E.none]}
        eventually(lambda: transactions.state("ended") == "CompleteCommit", 20, "the markers are written")
        eventually(lambda: transactions.state("open") == "CompleteAbort", 60, "its time is over")
        assert end_offsets(server.bootstrap, "t", PARTITIONS, "read_committed") == [2, 2, 0]
        assert committed(server, COPIES) == [1, -1001, -1001], "offsets go with their transaction"
        assert committed(server, "consumers") == [1, 1, -1001]
        assert transactions.produce("open", left_open, "t", 1, partition=1) == wire.INVALID_PRODUCER_EPOCH
        again = transactions.begun("ended")
        assert again.producer_id == ended.producer_id and again.epoch > ended.epoch
        assert transactions.produce("ended", again, "t", 0, partition=2) == wire.NONE
        assert transactions.ended("ended", again) is E.none
        assert groups.heartbeat("consumers", member_id, LEAVE).error_code is E.none
    assert end_offsets(server.bootstrap, "t", PARTITIONS, "read_committed") == [2, 2, 2]
