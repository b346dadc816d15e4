"""What a copy tells its tasks, what it keeps on the target, and how its failures are told apart."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.spark.jobs.copy_settings import CopySettings, Partitioner, TopicCopy
from bmq.spark.jobs.copy_sink import by_partition
from bmq.spark.jobs.outcome import BrokenOff, ExitCode, JobFailed
from bmq.spark.jobs.partition_copier import runs_of
from bmq.spark.jobs.positions import CopyNames, Position
from bmq.spark.jobs.ranges import OffsetRange
from bmq.spark.jobs.steps import Persistence, failure_of

pytestmark = pytest.mark.unit


def test_settings_survive_json() -> None:
    settings = CopySettings(
        config={"bootstrap.servers": "x:1"},
        copy="bmq-backfill-a",
        topics=(TopicCopy("a", "id", "b", 3),),
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


def test_a_position_is_read_from_its_metadata() -> None:
    position = Position(7, 2, 9, "id", 3, "asked")
    assert Position.of(7, position.metadata) == position


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
        ("bmq.records.origin.DamagedBatch", JobFailed),
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
