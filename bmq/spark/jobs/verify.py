"""`bmq verify` and `bmq spark verify`: reads every segment and checks its checksums, offsets, index and replicas.

Runs of delayed records are read as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bmq.hdfs.store import HdfsStore
from bmq.log.names import renamed_path
from bmq.log.partition_view import view_partition
from bmq.log.segment_index import INDEX_BYTES_MAX, CorruptIndex, SegmentIndex
from bmq.log.store import CorruptFile, FileMissing, SegmentStore
from bmq.spark.jobs.journal import Journal
from bmq.spark.jobs.replica_check import compare_replicas
from bmq.spark.jobs.run_check import check_run
from bmq.spark.jobs.segment_check import Finding, Kind, SegmentCheck
from bmq.spark.jobs.steps import Progress, SilentProgress, run_steps, spark_errors
from bmq.spark.jobs.stored_segments import SegmentTask, all_segments, feed, runs_of
from bmq.spark.jobs.stores import StoreAddress
from bmq.spark.jobs.verify_report import SegmentResult, VerifyReport, report_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEGMENTS_PER_TASK: Final = 4
"""Segments per processor in one step: enough that one long segment does not hold up the others."""


def plan_of(store: StoreAddress, topics: Sequence[str], *, segments_per_step: int) -> list[list[list[Any]]]:
    """Steps of segments in the journal's form."""
    tasks = [task.to_json() for task in all_segments(store, topics)]
    return [tasks[at : at + segments_per_step] for at in range(0, len(tasks), segments_per_step)]


def verify(
    spark: SparkSession,
    store: StoreAddress,
    topics: Sequence[str] = (),
    *,
    has_replicas: bool = True,
    state: Path | None = None,
    progress: Progress | None = None,
) -> VerifyReport:
    """Check all segments of the topics (of every topic if none is named), as far as they were written at planning time.

    With `state` the job can be killed and called again. Raises JobFailed, BrokenOff.
    """

    def perform(step: list[SegmentTask]) -> Any:
        check = partial(check_segment, store.for_executors(), has_replicas=has_replicas)
        segments = spark.sparkContext.parallelize(step, len(step))
        return spark_errors("segments cannot be verified", lambda: segments.map(check).collect())

    return _verified(
        perform,
        store,
        topics,
        has_replicas=has_replicas,
        state=state,
        progress=progress,
        segments_per_step=SEGMENTS_PER_TASK * spark.sparkContext.defaultParallelism,
    )


def verify_here(
    store: StoreAddress,
    topics: Sequence[str] = (),
    *,
    thread_count: int,
    has_replicas: bool = True,
    state: Path | None = None,
    progress: Progress | None = None,
) -> VerifyReport:
    """As `verify`, in this process, with `thread_count` segments at once. Raises JobFailed, BrokenOff.

    Reading waits for the store, and the compiled checks run without the interpreter's lock, so threads are enough.
    """
    check = partial(check_segment, store, has_replicas=has_replicas)
    pool = ThreadPoolExecutor(thread_count, "verify")
    try:
        return _verified(
            lambda step: list(pool.map(check, step)),
            store,
            topics,
            has_replicas=has_replicas,
            state=state,
            progress=progress,
            segments_per_step=thread_count,
        )
    finally:
        pool.shutdown(cancel_futures=True)


def _verified(
    perform: Callable[[list[SegmentTask]], Any],
    store: StoreAddress,
    topics: Sequence[str],
    *,
    has_replicas: bool,
    state: Path | None,
    progress: Progress | None,
    segments_per_step: int,
) -> VerifyReport:
    journal = Journal(state)
    asked = {"job": "verify", "store": store.url, "topics": sorted(topics), "replicas": has_replicas}
    plan = journal.begin(asked, lambda: plan_of(store, topics, segments_per_step=segments_per_step))
    steps = [[SegmentTask.from_json(values) for values in step] for step in plan]
    results = run_steps(
        steps,
        perform,
        journal,
        progress or SilentProgress(),
        size_of=lambda step: sum(task.valid_bytes for task in step),
        unit="bytes",
    )
    return report_of(SegmentResult.from_json(each) for step in results for each in step)


def check_segment(store: StoreAddress, task: SegmentTask, *, has_replicas: bool) -> dict[str, Any]:
    """A SegmentResult as JSON. Runs on an executor, or in a thread. Raises BrokenOff when the store does not answer."""
    return store.run(lambda opened: _check(opened, task, has_replicas=has_replicas)).to_json()


async def _check(store: SegmentStore, task: SegmentTask, *, has_replicas: bool) -> SegmentResult:
    check = SegmentCheck(
        task.origin, None if task.base_offset < 0 else task.base_offset, is_compacted=task.is_compacted
    )
    replicas, replica_bytes, others = None, 0, []
    try:
        if task.run is not None:
            await check_run(store, task.path, task.run, check)
        else:
            await _check_log(store, task, check)
        if not task.is_open:
            if task.run is None:
                await _check_index(store, task, check)
            if has_replicas and isinstance(store, HdfsStore):
                compared = await compare_replicas(store, task)
                replicas, replica_bytes, others = compared.least, compared.bytes, compared.findings
    except FileMissing:
        if not await _is_named(store, task):
            return _result(task, check, [], is_gone=True)
        what = "segment" if task.run is None else "run"
        check.found(Kind.FILE, f"the manifest names this {what}, and it is not there")
        return _result(task, check, [])
    return _result(task, check, others, replicas=replicas, replica_bytes=replica_bytes)


async def _is_named(store: SegmentStore, task: SegmentTask) -> bool:
    """Whether the newest manifest still has the segment: a deletion removes it from the manifest first."""
    try:
        view = await view_partition(store, task.path.rsplit("/", 2)[0])
    except FileMissing:
        return False
    if task.run is not None:
        return any(each.run == task.run for each in runs_of(view, task.topic, task.partition))
    return any((each.leader_epoch, each.roll) == (task.leader_epoch, task.roll) for each in view.segments)


def _result(
    task: SegmentTask,
    check: SegmentCheck,
    others: Sequence[Finding],
    *,
    replicas: int | None = None,
    replica_bytes: int = 0,
    is_gone: bool = False,
) -> SegmentResult:
    known_end = None if task.end_offset < 0 else task.end_offset
    return SegmentResult(
        topic=task.topic,
        partition=task.partition,
        path=task.path,
        base_offset=None if task.base_offset < 0 else task.base_offset,
        end_offset=known_end if is_gone or check.end_offset is None else check.end_offset,
        batches=check.batch_count,
        records=check.record_count,
        bytes=check.bytes if task.run is None else task.valid_bytes,
        replicas=replicas,
        replica_bytes=replica_bytes,
        is_gone=is_gone,
        is_open=task.is_open,
        is_compacted=task.is_compacted,
        is_run=task.run is not None,
        finding_count=0 if is_gone else check.finding_count + len(others),
        findings=() if is_gone else (*check.findings, *others),
    )


async def _check_log(store: SegmentStore, task: SegmentTask, check: SegmentCheck) -> None:
    try:
        end = await feed(store, task, check.take)
    except CorruptFile as error:
        check.found(Kind.FILE, f"no replica gives its bytes: {error}")
        return
    if end < task.valid_bytes and not task.is_open:
        # In an open file the last batch may still be under way.
        check.found(Kind.BATCH, f"the batch there is cut: the segment ends at {task.valid_bytes}", position_bytes=end)
    if 0 <= task.end_offset != check.end_offset and check.batch_count and not check.finding_count:
        check.found(
            Kind.INDEX, f"the manifest says that it ends at {task.end_offset}, its batches end at {check.end_offset}"
        )


async def _check_index(store: SegmentStore, task: SegmentTask, check: SegmentCheck) -> None:
    index = await _read_index(store, task, check)
    if index is None:
        return
    if not index.is_for(task.leader_epoch, task.roll, task.file_id, task.file_bytes):
        check.found(Kind.INDEX, f"the index {task.index_path} is for another file")
    elif index.summary.valid_bytes != task.valid_bytes:
        check.found(
            Kind.INDEX, f"the index has {index.summary.valid_bytes} bytes of the segment, {task.valid_bytes} are valid"
        )
    else:
        check.compare(index)


async def _read_index(store: SegmentStore, task: SegmentTask, check: SegmentCheck) -> SegmentIndex | None:
    """None when there is no index, or a damaged one, which is a finding, since an owner would have to rebuild it."""
    if not task.index_path:
        return None
    for path in (task.index_path, renamed_path(task.index_path)):
        try:
            return SegmentIndex.decode(await store.read_file(path, length_bytes_max=INDEX_BYTES_MAX))
        except FileMissing:
            continue
        except (CorruptFile, CorruptIndex) as error:
            check.found(Kind.INDEX, f"the index {path} is damaged: {error}")
            return None
    if await _is_there(store, task):
        check.found(Kind.INDEX, f"the index {task.index_path} is missing")
    return None


async def _is_there(store: SegmentStore, task: SegmentTask) -> bool:
    """True if the segment exists. Raises FileMissing (it was deleted with its index), StorageUnavailable."""
    for path in (task.path, renamed_path(task.path)):
        if await store.status(path) is not None:
            return True
    raise FileMissing(task.path)
