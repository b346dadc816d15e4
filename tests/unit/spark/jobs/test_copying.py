"""What a copy tells its tasks, what it keeps on the target, and how its failures are told apart."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from bmq.spark.jobs import copy_sink
from bmq.spark.jobs.backfill import plan_backfill
from bmq.spark.jobs.cluster import Cluster
from bmq.spark.jobs.copy_settings import CopySettings, Partitioner, TopicCopy
from bmq.spark.jobs.copy_sink import Copied, CopyWriter, by_partition
from bmq.spark.jobs.copying import CopyRoute, copy_step
from bmq.spark.jobs.outcome import BrokenOff, ExitCode, JobFailed
from bmq.spark.jobs.partition_copier import PartitionCopier, runs_of
from bmq.spark.jobs.positions import CopyNames, Position, committed_at
from bmq.spark.jobs.ranges import OffsetRange
from bmq.spark.jobs.steps import Persistence, failure_of
from tests.fakes.copied_clusters import FakeCluster, FakeCopier

pytestmark = pytest.mark.unit


def test_settings_survive_json() -> None:
    settings = CopySettings(
        config={"bootstrap.servers": "x:1"},
        copy="bmq-backfill-a",
        topics=(TopicCopy("a", "id", "b", 3, "of-b", ("here",)),),
        partitioner=Partitioner.KEY,
        map_topic="m",
    ).up_to([OffsetRange("a", 2, 5, 9)])
    read = CopySettings.from_json(settings.to_json())
    assert read == settings
    assert read.end_of("a", 2) == 9
    assert read.end_of("a", 1) == 0
    assert read.of("a").target_topic == "b"


@given(st.integers(1, 50), st.integers(1, 50))
def test_each_partition_has_a_place_of_its_own(place_count: int, partition_count: int) -> None:
    names = CopyNames("c", "s", "t", place_count)
    places = {(group, at.partition) for group, at in map(names.place, range(partition_count))}
    assert len(places) == partition_count
    assert all(partition < place_count for _, partition in places)
    assert names.place(0)[0] == CopyNames("c", "s", "t", 1).place(0)[0]


def test_a_topic_is_not_copied_into_itself_under_another_address() -> None:
    here, there = FakeCluster("localhost:9092", events=5), FakeCluster("127.0.0.1:9092")
    there.topics_here = here.topics_here
    with pytest.raises(JobFailed, match="cannot be copied into itself"):
        plan_backfill(cast(Cluster, here), cast(Cluster, there), "events", "events", [OffsetRange("events", 0, 0, 5)])


class FakeWrite:
    """Spark's session, source, rows and writer, in one; `during` happens while records are copied."""

    def __init__(self, during: Callable[[], object] = lambda: None) -> None:
        self._during = during
        self.topic_ids: Mapping[str, str] = {}
        self.dataSource = SimpleNamespace(register=lambda kind: None)

    def load(self, spark: object, step: object, *, topic_ids: Mapping[str, str], **_: object) -> FakeWrite:
        self.topic_ids = topic_ids
        return self

    def __getattr__(self, name: str) -> Any:
        return self if name == "write" else lambda *_: self

    def save(self) -> None:
        self._during()


def copy(here: FakeCluster, there: FakeCluster, write: FakeWrite) -> None:
    """One step of 5 offsets of `s`."""
    settings = CopySettings(
        there.config, "c", (TopicCopy("s", here.topics_here["s"].topic_id, "t", 1, there.topics_here["t"].topic_id),)
    )
    given: Any = write
    clusters: Any = here, there
    copy_step(CopyRoute(given, given, *clusters), settings, (OffsetRange("s", 0, 0, 5),))
    assert write.topic_ids == {"s": settings.topics[0].source_topic_id}


def test_only_topics_of_these_ids_are_copied() -> None:
    copy(FakeCluster("a:1", s=5), FakeCluster("b:1", t=0), FakeWrite())


def test_ranges_without_records_are_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a backfill whose last records were aborted would copy them again whenever it is run."""
    there = FakeCluster("b:1", t=0)
    topics = tuple(TopicCopy(name, "id", "t", 1, "of-t") for name in "su")
    step = [OffsetRange("s", 0, 0, 5), OffsetRange("s", 1, 0, 6), OffsetRange("u", 0, 3, 7)]
    settings = CopySettings(there.config, "c", topics).up_to(step)
    for topic, number in (("s", 0), ("s", 1), ("u", 0)):
        there.positions["c", topic, number] = "t", Position(3, 0, 9, "id", 1)
    monkeypatch.setattr(copy_sink, "PartitionCopier", FakeCopier)
    CopyWriter(settings.to_json()).commit([Copied(4, (("s", 1),)), Copied(0), None])
    assert {key[1:]: position.offset for key, (_, position) in there.positions.items()} == {
        ("s", 0): 5,
        ("s", 1): 3,  # by the task that had its rows
        ("u", 0): 7,
    }


def test_a_task_tells_of_which_partitions_it_had_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    class Copier:
        copied = 2

        def __init__(self, settings: CopySettings, topic: str, partition: int) -> None:
            pass

        def take(self, rows: pa.RecordBatch) -> None:
            pass

        finish = close = lambda self: None

    monkeypatch.setattr(copy_sink, "PartitionCopier", Copier)
    rows = [{"topic": "a", "partition": number} for number in (0, 0, 1)]
    schema = pa.schema([("topic", pa.string()), ("partition", pa.int32())])
    writer = CopyWriter(CopySettings({}, "c", ()).to_json())
    assert writer.write(iter([pa.RecordBatch.from_pylist(rows, schema)])) == Copied(4, (("a", 0), ("a", 1)))
    assert writer.write(iter([])) == Copied(0, ())


def made_again(cluster: FakeCluster, topic: str) -> Callable[[], object]:
    def make() -> None:
        cluster.delete_topic(topic, keeps_positions=True)
        cluster.make_topic(topic, 1, {})

    return make


def test_a_topic_that_is_made_again_while_it_is_copied_is_noticed() -> None:
    here, there = FakeCluster("a:1", s=5), FakeCluster("b:1", t=0)
    with pytest.raises(JobFailed, match="'s' was deleted and made again since its copy began"):
        copy(here, there, FakeWrite(made_again(here, "s")))
    with pytest.raises(BrokenOff, match="'t' of the target was deleted while it was written"):
        copy(here, there, FakeWrite(made_again(there, "t")))
    with pytest.raises(BrokenOff, match="'s' was deleted while it was copied"):
        copy(here, there, FakeWrite(lambda: here.delete_topic("s")))


def test_nothing_is_copied_of_a_topic_that_was_made_again_between_two_steps() -> None:
    here, there = FakeCluster("a:1", s=5), FakeCluster("b:1", t=0)
    settings = CopySettings(there.config, "c", (TopicCopy("s", "an earlier one", "t", 1, "of-t"),))
    write: Any = FakeWrite(lambda: pytest.fail("it was read"))
    clusters: Any = here, there
    with pytest.raises(JobFailed, match="made again"):
        copy_step(CopyRoute(write, write, *clusters), settings, (OffsetRange("s", 0, 0, 5),))


class FakeProducer:
    """Keeps what each transaction has: records, and the position committed with them."""

    def __init__(self) -> None:
        self.committed: list[tuple[list[bytes], int]] = []
        self._records: list[bytes] = []
        self._position = -1

    def begin_transaction(self) -> None:
        self._records = []

    def produce(self, topic: str, value: bytes, key: bytes, **_: object) -> None:
        self._records.append(value)

    def send_offsets_to_transaction(self, places: list[Any], *_: object) -> None:
        self._position = places[0].offset

    def commit_transaction(self, *_: object) -> None:
        self.committed.append((self._records, self._position))


def copier_of(producer: FakeProducer, *, position: int, end_offset: int, records_max: int) -> PartitionCopier:
    copier: Any = PartitionCopier.__new__(PartitionCopier)  # without its clients
    settings = CopySettings({}, "c", (TopicCopy("s", "id", "t", 1, "of-t"),), transaction_records_max=records_max)
    copier._settings = settings.up_to([OffsetRange("s", 0, 0, end_offset)])
    copier._copy, copier._partition, copier._place = settings.topics[0], 0, TopicPartition("t", 0)
    copier._pending, copier._pending_rows, copier._pending_bytes, copier.copied = [], 0, 0, 0
    copier._producer, copier._offsets = producer, SimpleNamespace(member=None)
    copier.position = Position(position, 0, end_offset, "id", 1)
    return cast(PartitionCopier, copier)


@pytest.mark.parametrize("records_max", [1, 2, 3, 50])
@pytest.mark.parametrize("position", [0, 1, 4])
def test_a_range_that_ends_with_a_marker_is_copied_to_its_end(records_max: int, position: int) -> None:
    """Otherwise a copy that is done would never be done, and miss the marker once it is deleted."""
    producer = FakeProducer()
    copier = copier_of(producer, position=position, end_offset=5, records_max=records_max)
    offsets = list(range(4))
    copier.take(
        pa.RecordBatch.from_pydict(
            {
                "offset": pa.array(offsets, pa.int64()),
                "timestamp": pa.array(offsets, pa.timestamp("us", "UTC")),
                "key": pa.array([b"k"] * 4),
                "value": [b"%d" % offset for offset in offsets],
                "headers": [None] * 4,
            }
        )
    )
    copier.finish()
    assert [value for values, _ in producer.committed for value in values] == [b"%d" % n for n in offsets[position:]]
    assert producer.committed[-1][1] == copier.position.offset == 5
    count = len(producer.committed)
    copier.finish()
    assert len(producer.committed) == count


def test_a_position_is_read_from_its_metadata() -> None:
    position = Position(7, 2, 9, "id", 3, "asked", "of-target", ("here", "there"))
    assert Position.of(7, position.metadata) == position


def test_a_position_tells_when_it_was_committed() -> None:
    now_ms = time.time_ns() // 1_000_000
    place = committed_at(TopicPartition("t", 0), Position(7, 2, 9, "id", 3))
    found = Position.of(7, place.metadata)
    assert found.age_s(now_ms) <= found.age_s(found.written_ms + 5_000) == 5
    assert found.age_s(found.written_ms - 5_000) == 0, "of a clock that is ahead"
    earlier = Position.of(7, '{"start":2,"end":9,"id":"id","places":3,"asked":""}')
    assert earlier == found and earlier.age_s(now_ms) > 1e9, "of a release that did not say it"


@pytest.mark.parametrize("metadata", [None, "", "x", "{}", '{"end":"x"}', "3"])
def test_an_offset_of_somebody_else_is_refused(metadata: str | None) -> None:
    with pytest.raises(JobFailed, match="was not committed by it"):
        Position.of(7, metadata)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), max_size=30), st.integers(1, 7))
def test_stretches_of_a_partition_are_found(rows: list[tuple[str, int]], size: int) -> None:
    schema = pa.schema([("topic", pa.string()), ("partition", pa.int32())])
    batches = [
        pa.RecordBatch.from_pylist([{"topic": t, "partition": p} for t, p in rows[at : at + size]], schema)
        for at in range(0, len(rows), size)
    ]
    found = [(topic, partition) for topic, partition, part in by_partition(iter(batches)) for _ in range(part.num_rows)]
    assert found == rows


def test_runs_are_cut_at_holes() -> None:
    assert runs_of(np.array([3, 4, 6, 9, 10], np.int64), 100) == [(3, 100, 2), (6, 102, 1), (9, 103, 2)]


TRACEBACK = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "copy_sink.py", line 50, in write
    copier.take(rows)
{name}: {sentence}
"""


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("bmq.spark.jobs.outcome.BrokenOff", BrokenOff),
        ("bmq.spark.jobs.outcome.JobFailed", JobFailed),
        ("bmq.log.origin.DamagedBatch", JobFailed),
        ("bmq.spark.source.storage.StoreUnreadable", JobFailed),
        ("bmq.spark.source.storage.StoreAway", BrokenOff),
        ("OSError", BrokenOff),
    ],
)
def test_the_cause_of_an_executors_failure_is_told(name: str, kind: type[JobFailed]) -> None:
    failed = failure_of("records cannot be copied", TRACEBACK.format(name=name, sentence="the target is away"))
    assert type(failed) is kind
    assert str(failed) == "records cannot be copied: the target is away"


def test_a_missing_connector_is_no_passing_failure() -> None:
    failed = failure_of("x", "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: kafka.")
    assert failed.exit_code is ExitCode.FAILED
    assert "Failed to find" in str(failed)


def test_waiting_gets_longer_until_it_is_given_up() -> None:
    now = 0.0
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        pauses.append(seconds)

    persistence = Persistence(30, now=lambda: now, sleep=sleep)
    with pytest.raises(BrokenOff, match="away"):
        while True:
            persistence.wait_after(BrokenOff("away"))
    assert pauses == [1, 2, 4, 8, 15]
    persistence.has_got_on()
    persistence.wait_after(BrokenOff("away"))
    assert pauses[-1] == 1
