"""Segments in the store as tasks of a job: listing them, and reading one piece by piece on an executor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bmq.arrow_records.batch_headers import CODEC_MASK, scan
from bmq.log.names import may_have_gaps, partition_directory, renamed_path
from bmq.log.origin import Origin
from bmq.log.partition_log import TopicPartition
from bmq.log.partition_view import PartitionView, view_partition
from bmq.log.store import Buffer, FileMissing, SegmentStore
from bmq.log.timers.run_reference import RunReference
from bmq.metadata.image import MetadataImage, TopicImage
from bmq.metadata.stored_image import stored_image
from bmq.protocol.compression import DECOMPRESSED_BYTES_MAX, Compression
from bmq.protocol.record_batch import LENGTH_OVERHEAD_BYTES
from bmq.spark.jobs.outcome import JobFailed
from bmq.spark.jobs.ranges import OffsetRange
from bmq.spark.jobs.steps import spark_errors
from bmq.spark.jobs.stores import StoreAddress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIECE_BYTES: Final = 8 << 20
_EVERYTHING: Final = 1 << 62
_NO_OFFSET: Final = -1


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """One segment file. `base_offset` and `end_offset` are -1 if unknown; [from_offset, to_offset): offsets to read.

    `index_path` is empty for an open segment, which has no index yet. `run`: it is a run of delayed records instead.
    """

    topic: str
    partition: int
    path: str
    index_path: str
    leader_epoch: int
    roll: int
    file_id: int
    base_offset: int
    end_offset: int
    valid_bytes: int
    file_bytes: int
    is_open: bool
    is_compacted: bool
    from_offset: int = 0
    to_offset: int = _EVERYTHING
    run: RunReference | None = None

    def to_json(self) -> list[Any]:
        return list(astuple(self))

    @classmethod
    def from_json(cls, values: Sequence[Any]) -> SegmentTask:
        task = cls(*values)
        return task if task.run is None else replace(task, run=RunReference(*values[-1]))

    @property
    def origin(self) -> Origin:
        return Origin(self.topic, self.partition, self.path)


def plan_segments(store: StoreAddress, ranges: Iterable[OffsetRange]) -> list[SegmentTask]:
    """The segments that may hold offsets of the ranges; a view has none. Raises JobFailed, BrokenOff."""
    by_partition = {(each.topic, each.partition): each for each in ranges}
    names = sorted({topic for topic, _ in by_partition})

    async def plan(opened: SegmentStore) -> list[SegmentTask]:
        return [
            replace(task, from_offset=wanted.start_offset, to_offset=wanted.end_offset)
            for task in await _tasks(opened, _found(await stored_image(opened), store.url, names))
            if (wanted := by_partition.get((task.topic, task.partition))) is not None
            and task.base_offset < wanted.end_offset
            and (task.end_offset == _NO_OFFSET or task.end_offset > wanted.start_offset)
        ]

    return store.run(plan)


def all_segments(store: StoreAddress, topics: Sequence[str]) -> list[SegmentTask]:
    """All segments of the topics, and runs of their delayed records; of every topic if none is named.

    Raises JobFailed, BrokenOff.
    """

    async def found(opened: SegmentStore) -> list[SegmentTask]:
        image = await stored_image(opened)
        chosen = _found(image, store.url, topics or sorted(topic.name for topic in image.logs()))
        for topic in chosen:
            if topic.view is not None:
                base = topic.view.base_name
                raise JobFailed(f"{topic.name!r} is a view, which has no files: its records are in those of {base!r}")
        return await _tasks(opened, chosen, has_runs=True)

    return store.run(found)


def _found(image: MetadataImage, url: str, names: Sequence[str]) -> list[TopicImage]:
    """Raises JobFailed."""
    if missing := [name for name in names if name not in image.topics]:
        raise JobFailed(
            f"the store {url} has no topic {', '.join(map(repr, missing))}; it has {len(image.topics)} topics"
        )
    return [image.topics[name] for name in names]


async def _tasks(store: SegmentStore, topics: Sequence[TopicImage], *, has_runs: bool = False) -> list[SegmentTask]:
    tasks: list[SegmentTask] = []
    for topic in topics:
        if topic.view is not None:
            continue
        for partition in topic.partitions:
            directory = partition_directory(TopicPartition(topic.topic_id, partition.partition))
            try:
                view = await view_partition(store, directory)
            except FileMissing:
                continue  # never written
            tasks += tasks_of(view, topic.name, partition.partition)
            if has_runs:
                tasks += runs_of(view, topic.name, partition.partition)
    return tasks


def runs_of(view: PartitionView, topic: str, partition: int) -> list[SegmentTask]:
    """The runs of delayed records that the manifest names."""
    timers = None if view.manifest is None else view.manifest.timers
    return [
        SegmentTask(
            topic=topic,
            partition=partition,
            path=view.paths.run(run.leader_epoch, run.number),
            index_path="",
            leader_epoch=run.leader_epoch,
            roll=-1,
            file_id=run.file_id,
            base_offset=_NO_OFFSET,
            end_offset=_NO_OFFSET,
            valid_bytes=run.length,
            file_bytes=run.length,
            is_open=False,
            is_compacted=False,
            run=run,
        )
        for run in (() if timers is None else timers.runs)
    ]


def tasks_of(view: PartitionView, topic: str, partition: int) -> list[SegmentTask]:
    extents = view.manifest.extents if view.manifest is not None else ()
    index_epochs = {(extent.leader_epoch, extent.roll): extent.index_epoch for extent in extents}
    tasks = []
    for segment in view.segments:
        key = segment.leader_epoch, segment.roll
        has_index = key in index_epochs or segment.end_offset is not None
        index = view.paths.index(*key, index_epochs.get(key, segment.leader_epoch)) if has_index else ""
        tasks.append(
            SegmentTask(
                topic=topic,
                partition=partition,
                path=segment.path,
                index_path=index,
                leader_epoch=segment.leader_epoch,
                roll=segment.roll,
                file_id=segment.file_id,
                base_offset=_NO_OFFSET if segment.base_offset is None else segment.base_offset,
                end_offset=_NO_OFFSET if segment.end_offset is None else segment.end_offset,
                valid_bytes=segment.valid_bytes,
                file_bytes=segment.file_bytes,
                is_open=segment.is_open,
                is_compacted=may_have_gaps(segment.roll),
            )
        )
    return tasks


async def read_anywhere(store: SegmentStore, task: SegmentTask, position: int, length_bytes: int) -> Buffer:
    """Read the segment's file, whether or not it was sealed since. Raises FileMissing: it was deleted."""
    try:
        return await store.read(task.path, file_id=task.file_id, position=position, length_bytes=length_bytes)
    except FileMissing:
        moved = renamed_path(task.path)
        return await store.read(moved, file_id=task.file_id, position=position, length_bytes=length_bytes)


Taker = Callable[[int, memoryview], tuple[int, int]]
"""Takes (position in the file, bytes beginning with a batch); returns (bytes used, bytes missing for the next)."""


async def feed(store: SegmentStore, task: SegmentTask, take: Taker, *, piece_bytes: int = PIECE_BYTES) -> int:
    """Pass all valid bytes of the file to `take`, in order; bytes it did not use come again with more after them.

    `piece_bytes` are read at once. Returns the position where it stopped: the end of the valid bytes, unless the last batch
    is incomplete. Raises FileMissing and whatever the store or `take` raises.
    """
    at = position = missing_bytes = 0
    rest: Buffer = b""  # of a batch that goes on in the next piece
    while at < task.valid_bytes:
        length_bytes = min(max(piece_bytes, missing_bytes), task.valid_bytes - at)
        piece = memoryview(await read_anywhere(store, task, at, length_bytes))
        at += length_bytes
        place = 0
        while place < len(piece):
            # Copy only the batch that is cut, not the whole piece it ends in.
            is_cut = len(rest) > 0
            more = piece[place : place + max(1, missing_bytes)] if is_cut else piece[place:]
            data = b"".join((rest, more)) if is_cut else more
            used, missing_bytes = take(position, memoryview(data).toreadonly())
            position += used
            place += len(more)
            rest = bytes(data[used:])
    return position


# --- codecs


def codec_rows(spark: SparkSession, store: StoreAddress, tasks: Sequence[SegmentTask]) -> list[list[Any]]:
    """[topic, partition, codec, batches, records, stored bytes] of each segment's batches in the requested offsets."""
    segments = spark.sparkContext.parallelize(list(tasks), len(tasks))
    count = partial(count_codecs, store.for_executors())
    counted = spark_errors("segments cannot be read", lambda: segments.map(count).collect())
    return [row for rows in counted for row in rows]


def count_codecs(store: StoreAddress, task: SegmentTask) -> list[list[Any]]:
    """Reads only headers; a segment that was deleted meanwhile has no rows."""
    counts: dict[int, list[int]] = {}

    def take(position: int, data: memoryview) -> tuple[int, int]:
        origin = task.origin._replace(position_bytes=position)
        found = scan(
            data, origin, 0, rows_max=_EVERYTHING, bytes_max=_EVERYTHING, batch_bytes_max=DECOMPRESSED_BYTES_MAX
        )
        headers = found.headers
        ends = headers["base_offset"] + headers["last_offset_delta"].astype(np.int64) + 1
        taken = headers[(ends > task.from_offset) & (headers["base_offset"] < task.to_offset)]
        codecs = taken["attributes"] & CODEC_MASK
        for codec in np.unique(codecs).tolist():
            of_codec = taken[codecs == codec]
            sums = counts.setdefault(codec, [0, 0, 0])
            sums[0] += len(of_codec)
            sums[1] += int(of_codec["record_count"].sum(dtype=np.int64))
            sums[2] += int((of_codec["length"].astype(np.int64) + LENGTH_OVERHEAD_BYTES).sum())
        return found.end, found.missing_bytes

    async def count(opened: SegmentStore) -> None:
        try:
            await feed(opened, task, take)
        except FileMissing:
            counts.clear()

    store.run(count)
    return [
        [task.topic, task.partition, Compression(codec).name.lower(), *sums] for codec, sums in sorted(counts.items())
    ]
