"""`bmq spark compact`: carries out the compaction of partitions that are too big for their brokers.

The owner of a partition gives the plan and a directory, and swaps in the files that are written there. In between, Spark does
what the broker's own process does (bmq.compaction), in parts:

1. A task reads each segment, and gives the hash and the offset of each key. Shuffled by hash, that becomes the newest offset
   of each key. It is sent only to the groups of segments that have the key.
2. A task reads each group, writes its remaining records into the directory, and then writes a description of the result.

The descriptions are the job's journal: a group that has one is done. The owner gives the same plan again to a job that was
killed, so the next run does only the rest. After a takeover, or when the time limit is over, it starts again.
"""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bmq.compaction.group_cleaning import SegmentNotes, newest_of_group, write_group
from bmq.compaction.key_map import KeyHashes
from bmq.compaction.log_cleaner import NO_TRANSACTIONS, TransactionPart, TransactionState
from bmq.hdfs.config import HdfsSettings
from bmq.log.compaction import CleaningPlan
from bmq.log.delegated_compaction import (
    DESCRIPTION_BYTES_MAX,
    CleanedFile,
    DelegatedPlan,
    descriptions,
    readable,
)
from bmq.log.store import FileMissing, SegmentStore
from bmq.spark.jobs.outcome import BrokenOff, JobFailed
from bmq.spark.jobs.partition_owner import PartitionOwner
from bmq.spark.jobs.steps import Progress, SilentProgress, spark_errors
from bmq.spark.jobs.stores import StoreAddress

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

TIME_LIMIT_S: Final = 2 * 3600
JOB_NAME: Final = "spark"
SEED_BYTES: Final = 16
_LOOK_S: Final = 3.0
_KEY_SCHEMA: Final = "group int, first long, second long, newest long"
_PART_SUFFIX: Final = ".part"


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result for a partition. `groups_before`: groups that an earlier run had done. All are 0 if nothing had to be
    cleaned.
    """

    topic: str
    partition: int
    groups: int = 0
    groups_before: int = 0
    first_dirty_offset: int = 0
    records_read: int = 0
    records_kept: int = 0
    bytes_read: int = 0
    bytes_kept: int = 0


def plan_compact(
    owner: PartitionOwner, topic: str, partitions: Sequence[int], job: str = JOB_NAME
) -> list[dict[str, Any]]:
    """What would be cleaned now, for each partition. Changes nothing. Raises JobFailed, BrokenOff."""
    return [
        _described(topic, partition, owner.plan(topic, partition, job, 1, is_dry_run=True))
        for partition in partitions or owner.partitions(topic)
    ]


def _described(topic: str, partition: int, plan: DelegatedPlan | None) -> dict[str, Any]:
    groups = () if plan is None else plan.cleaning.groups
    extents = [extent for group in groups for extent in group]
    return {
        "topic": topic,
        "partition": partition,
        "leader_epoch": None if plan is None else plan.leader_epoch,
        "groups": len(groups),
        "segments": len(extents),
        "bytes": sum(extent.length for extent in extents),
        "from_offset": extents[0].base_offset if extents else None,
        "first_dirty_offset": None if plan is None else plan.cleaning.first_dirty_offset,
        "end_offset": extents[-1].end_offset if extents else None,
    }


def compact(
    spark: SparkSession,
    store: StoreAddress,
    owner: PartitionOwner,
    topic: str,
    partitions: Sequence[int] = (),
    *,
    job: str = JOB_NAME,
    time_limit_s: float = TIME_LIMIT_S,
    progress: Progress | None = None,
) -> list[Compacted]:
    """Compact the partitions (all of the topic if none is named), one after the other. Raises JobFailed, BrokenOff.

    `time_limit_s`: how long an owner leaves a partition to this job. Afterwards the owner compacts it itself again.
    """
    done = []
    for partition in partitions or owner.partitions(topic):
        plan = owner.plan(topic, partition, job, int(time_limit_s * 1000))
        if plan is None:
            done.append(Compacted(topic, partition))
            continue
        try:
            groups_before = _clean(spark, _writing_as(plan, store), plan, progress or SilentProgress())
        except BrokenOff:
            raise  # what is written so far is kept for the next run
        except JobFailed:
            with suppress(JobFailed):
                owner.release(topic, partition, plan)
            raise
        end = owner.swap(topic, partition, plan)
        done.append(Compacted(topic, partition, len(plan.cleaning.groups), groups_before, **end))
    return done


def _writing_as(plan: DelegatedPlan, store: StoreAddress) -> StoreAddress:
    """The store's address, set to write files with as many replicas as the owner's."""
    if not plan.replicas:
        return store
    return replace(store, hdfs=replace(store.hdfs or HdfsSettings(), replication=plan.replicas))


def _clean(spark: SparkSession, store: StoreAddress, plan: DelegatedPlan, progress: Progress) -> int:
    """Write all files of the plan. Returns how many groups were done before."""
    groups = plan.cleaning.groups
    before = store.run(partial(_done, plan.directory))
    left = [number for number in range(len(groups)) if number not in before]
    if not left:
        return len(before)
    seed = os.urandom(SEED_BYTES)
    encoded = plan.encode()
    what = f"{plan.cleaning.topic}-{plan.cleaning.partition} cannot be compacted"
    segments_count = sum(map(len, groups))
    theirs = store.for_executors()
    noted = spark.range(0, segments_count, 1, segments_count).mapInArrow(
        partial(_note_segments, theirs, encoded, seed), _KEY_SCHEMA
    )
    keys = _newest_by_group(spark, noted, left)
    with _persisted(keys), _shown(store, plan, progress):
        spark_errors(what, keys.count)
        states = _states(store, plan)
        begun = {number: states[number] for number in left}

        def write(of_group):  # type: ignore[no-untyped-def]  # by hints that it cannot resolve Spark fails
            return _write_group(theirs, encoded, seed, begun, of_group)

        written = keys.groupBy("group").applyInArrow(write, "group int")
        finished = {row["group"] for row in spark_errors(what, written.collect)}
    if finished != set(left):
        raise BrokenOff(f"{what}: {len(left) - len(finished)} groups of segments were not written")
    return len(before)


def _newest_by_group(spark: SparkSession, noted: DataFrame, left: Sequence[int]) -> DataFrame:
    """The keys of each remaining group, with their newest offset, and one row without a key for each group."""
    from pyspark.sql import functions

    wanted = functions.col("group").isin(*left)
    newest = (
        noted.groupBy("first", "second")
        .agg(functions.max("newest").alias("newest"), functions.collect_set("group").alias("groups"))
        .where(functions.col("newest").isNotNull())
        .select(functions.explode("groups").alias("group"), "first", "second", "newest")
        .where(wanted)
    )
    nothing = functions.lit(None).cast("long")
    all_groups = spark.range(0, max(left) + 1).select(
        functions.col("id").cast("int").alias("group"),
        nothing.alias("first"),
        nothing.alias("second"),
        nothing.alias("newest"),
    )
    # A number of its own, which is not changed: each group is a long task, and few of them shall share one.
    return newest.union(all_groups.where(wanted)).repartition(len(left), "group")


@contextmanager
def _persisted(keys: DataFrame) -> Iterator[None]:
    from pyspark import StorageLevel

    keys.persist(StorageLevel.DISK_ONLY)
    try:
        yield
    finally:
        with suppress(Exception):  # Spark may be gone, and its files with it
            keys.unpersist()


@contextmanager
def _shown(store: StoreAddress, plan: DelegatedPlan, progress: Progress) -> Iterator[None]:
    """Shows how many bytes of groups are done, while the block runs."""
    sizes = [sum(extent.length for extent in group) for group in plan.cleaning.groups]
    over = threading.Event()

    def report() -> None:
        while not over.wait(_LOOK_S):
            with suppress(JobFailed):
                done = store.run(partial(_done, plan.directory))
                progress.show(sum(sizes[number] for number in done), sum(sizes), "bytes")

    progress.show(0, sum(sizes), "bytes")
    thread = threading.Thread(target=report, name="compact-progress", daemon=True)
    thread.start()
    try:
        yield
        progress.show(sum(sizes), sum(sizes), "bytes")
    finally:
        over.set()
        thread.join()


async def _done(directory: str, store: SegmentStore) -> set[int]:
    """Numbers of groups that have a description. Raises BrokenOff."""
    try:
        return set(descriptions(await store.list_directory(directory)))
    except FileMissing as error:
        raise BrokenOff("the partition has another owner now, or the time is over; run again") from error


# -- transactions ------------------------------------------------------------------------------------------------------


def _encode_part(part: TransactionPart) -> bytes:
    ended, settled, state = part
    data = json.dumps([sorted(each) for each in (ended, settled, state.seen, state.committed)]).encode()
    return readable(data, "what a segment has of transactions")


def _decode_part(data: bytes) -> TransactionPart:
    ended, settled, seen, committed = map(frozenset, json.loads(data))
    return TransactionPart(ended, settled, TransactionState(seen, committed))


def states_of(plan: CleaningPlan, parts: dict[int, TransactionPart]) -> list[TransactionState]:
    """The transactions that are open where each group begins. Pure.

    `parts`: by number of the segment, in the order of the log. A segment without one begins and ends no transaction.
    """
    states, state, segment = [], NO_TRANSACTIONS, 0
    for group in plan.groups:
        states.append(state)
        for _ in group:
            part = parts.get(segment)
            state = state if part is None else part.after(state)
            segment += 1
    return states


def _states(store: StoreAddress, plan: DelegatedPlan) -> list[TransactionState]:
    async def read(opened: SegmentStore) -> dict[int, TransactionPart]:
        found: dict[int, TransactionPart] = {}
        try:
            for entry in await opened.list_directory(plan.directory):
                number = entry.name.partition(".")[0]
                if entry.name.endswith(_PART_SUFFIX) and not entry.is_open and int(number) not in found:
                    path = f"{plan.directory}/{entry.name}"
                    data = await opened.read_file(path, length_bytes_max=DESCRIPTION_BYTES_MAX)
                    found[int(number)] = _decode_part(data)
        except FileMissing as error:
            raise BrokenOff("the partition has another owner now, or the time is over; run again") from error
        return found

    return states_of(plan.cleaning, store.run(read))


# -- on executors ------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _plan_of(encoded: bytes) -> DelegatedPlan:
    return DelegatedPlan.decode(encoded)


def _note_segments(
    store: StoreAddress, encoded: bytes, seed: bytes, numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from store.stream(partial(_note_segment, _plan_of(encoded), seed, number))


async def _note_segment(
    plan: DelegatedPlan, seed: bytes, number: int, store: SegmentStore
) -> AsyncIterator[pa.RecordBatch]:
    import pyarrow as pa

    cleaning = plan.cleaning
    extents = [
        (group, extent, path)
        for group, (of_group, paths) in enumerate(zip(cleaning.groups, cleaning.paths, strict=True))
        for extent, path in zip(of_group, paths, strict=True)
    ]
    group, extent, path = extents[number]
    notes = SegmentNotes(store, cleaning, extent, path, seed)
    async for keys in notes.keys():
        offsets = np.frombuffer(keys.offsets, np.int64)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(np.full(len(keys), group, np.int32)),
                pa.array(np.frombuffer(keys.first, np.int64)),
                pa.array(np.frombuffer(keys.second, np.int64)),
                pa.array(offsets, mask=offsets < cleaning.first_dirty_offset),
            ],
            names=["group", "first", "second", "newest"],
        )
    part = notes.part
    if any((*part[:2], *part.state)):
        path = f"{plan.directory}/{number:08d}.{uuid.uuid4().hex}{_PART_SUFFIX}"
        await store.write_file(path, _encode_part(part), holder=_holder())


def _write_group(
    store: StoreAddress, encoded: bytes, seed: bytes, states: dict[int, TransactionState], keys: pa.Table
) -> pa.Table:
    import pyarrow as pa

    plan = _plan_of(encoded)
    group = keys.column("group")[0].as_py()
    found = keys.filter(keys.column("newest").is_valid())
    first, second, offsets = (found.column(name).to_numpy() for name in ("first", "second", "newest"))
    newest = newest_of_group(plan.cleaning, group, KeyHashes(first.data, second.data, offsets.data), seed)

    async def write(opened: SegmentStore) -> CleanedFile:
        return await write_group(
            opened,
            plan.cleaning,
            plan.directory,
            group,
            newest,
            states[group],
            attempt=uuid.uuid4().hex,
            holder=_holder(),
        )

    store.run(write)
    return pa.table({"group": pa.array([group], pa.int32())})


def _holder() -> str:
    return f"bmq-compact-{uuid.uuid4().hex}"
