"""What backfill and mirror write with: each record once in the target, whoever is killed, fenced or forgotten while it writes."""

from __future__ import annotations

import random
from contextlib import closing
from threading import Timer

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition

from bmq.spark.jobs.cluster import Cluster
from bmq.spark.jobs.copy_settings import CopySettings, TopicCopy
from bmq.spark.jobs.mirrored_groups import OffsetMaps
from bmq.spark.jobs.origins import origins_of
from bmq.spark.jobs.outcome import BrokenOff
from bmq.spark.jobs.partition_copier import PartitionCopier
from bmq.spark.jobs.positions import CopyNames, Position, claim_positions, read_positions
from testing.servers import Server
from tests.e2e.conftest import ServerMaker, create_topic, unique_name

pytestmark = [pytest.mark.campaign("spark-jobs"), pytest.mark.bmq_only, pytest.mark.timeout(240), pytest.mark.safety]

RECORDS = 1_500
PART = 100  # what is taken at once
TRANSACTION = 40
KILLS = 2
SOURCE_OFFSETS = [number + number // 7 for number in range(RECORDS)]  # every seventh one was a marker
END = SOURCE_OFFSETS[-1] + 3
COLUMNS = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def rows(first: int, end: int) -> pa.RecordBatch:
    """Records by their number."""
    numbers = range(first, end)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([SOURCE_OFFSETS[number] for number in numbers], pa.int64()),
            pa.array([1_700_000_000_000_000 + 1000 * number for number in numbers], COLUMNS.field(1).type),
            pa.array([b"k%d" % number for number in numbers], pa.binary()),
            pa.array([b"%d" % number for number in numbers], pa.binary()),
            pa.array([[("h", b"%d" % number)] if number % 2 else None for number in numbers], COLUMNS.field(4).type),
        ],
        schema=COLUMNS,
    )


def committed(server: Server, topic: str) -> list[tuple[int, int]]:
    """(offset, number) of every committed record."""
    config = {"bootstrap.servers": server.bootstrap, "group.id": unique_name("r"), "isolation.level": "read_committed"}
    found = []
    with closing(Consumer({**config, "enable.partition.eof": True})) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while (message := consumer.poll(20)) is not None and message.error() is None:
            number = int(message.value())
            assert message.key() == b"k%d" % number
            assert message.timestamp()[1] == 1_700_000_000_000 + number
            assert message.headers() == ([("h", b"%d" % number)] if number % 2 else None)
            found.append((message.offset(), number))
    return found


def test_each_record_is_copied_once_through_kills_zombies_and_abandoned_transactions(new_server: ServerMaker) -> None:
    chance = random.Random(7)
    server = new_server()
    server.start()
    for topic in ("copied", "map"):
        create_topic(server, topic, config={"retention.ms": "-1"})
    config = {"bootstrap.servers": server.bootstrap, "log_level": "2"}
    settings = CopySettings(
        config=config,
        copy="bmq-test",
        topics=(TopicCopy("source", "id", "copied", 1, "of-copied"),),
        map_topic="map",
        transaction_records_max=TRANSACTION,
        producer={"transaction.timeout.ms": 5_000},
        ends={"source": {"0": END}},
    )
    names = CopyNames("bmq-test", "source", "copied", 1)
    first = Position(0, 0, END, "id", 1)
    assert claim_positions(config, names, {0: first}) == {0: first}
    kills = KILLS
    zombie: PartitionCopier | None = None
    while True:
        position = read_positions(config, names, [0])[0]
        assert position is not None
        if position.offset == END:
            break
        next_number = sum(offset < position.offset for offset in SOURCE_OFFSETS)
        if kills and next_number > RECORDS * (KILLS - kills + 1) // (KILLS + 2):
            kills -= 1
            timer = Timer(chance.uniform(0, 0.3), server.kill)
            timer.start()
        else:
            timer = None
        try:
            copier = PartitionCopier(settings, "source", 0)
            if zombie is not None:
                with pytest.raises(BrokenOff):
                    zombie.take(rows(0, RECORDS))
                zombie.close()
                zombie = None
            # A reader begins where the plan said, which may be in front of the position.
            at = max(0, next_number - chance.randrange(150))
            while at < RECORDS and chance.random() < 0.9:
                copier.take(rows(at, min(RECORDS, at + PART)))
                at += PART
            if at >= RECORDS:
                copier.finish()
            if chance.random() < 0.5:
                zombie = copier
            else:
                copier.close()
        except BrokenOff:
            pass  # the server was killed: begin again
        finally:
            if timer is not None:
                timer.join()
                server.start()  # here: it would die with the thread that starts it
    found = committed(server, "copied")
    assert [number for _, number in found] == list(range(RECORDS))
    assert claim_positions(config, names, {0: first})[0].offset == END, "a position is not set back by a second plan"
    with closing(OffsetMaps(config, "map")) as maps:
        maps.catch_up()
        for target, number in found:
            assert maps.of(("source", 0), ("id", "of-copied")).translate(SOURCE_OFFSETS[number]) == target
        size = len(maps.of(("source", 0), ("id", "of-copied")))
        maps.catch_up()
        assert len(maps.of(("source", 0), ("id", "of-copied"))) == size


def test_origins_are_read_from_the_positions_of_mirrors(new_server: ServerMaker) -> None:
    server = new_server()
    server.start()
    config = {"bootstrap.servers": server.bootstrap}
    for topic in ("there.events", "again.events", "copied"):
        create_topic(server, topic)
    for copy, target, origins in (
        ("bmq-mirror-m", "there.events", ("a-cluster", "another")),
        ("bmq-mirror-n", "again.events", ()),  # of an earlier release
        ("bmq-backfill-b", "copied", ("a-cluster",)),
    ):
        names = CopyNames(copy, "events", target, 1)
        claim_positions(config, names, {0: Position(3, 0, -1, "id", 1, origins=origins)})
    cluster = Cluster(config)
    assert origins_of(cluster) == {"there.events": ("a-cluster", "another"), "again.events": ()}
    assert len(cluster.cluster_id()) == 22
