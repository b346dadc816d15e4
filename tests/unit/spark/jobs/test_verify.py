"""One segment of a store as `verify` checks it on an executor: its file, its index, and what the manifest says of both."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest

from bmq.arrow_records.batch_headers import scan
from bmq.local_store.store import LocalStore
from bmq.log.manifest import Extent, Manifest
from bmq.log.names import PartitionPaths, partition_directory
from bmq.log.partition_log import TopicPartition
from bmq.log.partition_view import view_partition
from bmq.log.segment_index import IndexBuilder, SegmentIndex
from bmq.log.store import Durability, SegmentStore
from bmq.metadata.image import METADATA_TOPIC_ID, MetadataImage, ViewImage
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.record_batch import BatchHeader
from bmq.spark.jobs import stored_segments
from bmq.spark.jobs.outcome import JobFailed
from bmq.spark.jobs.ranges import OffsetRange
from bmq.spark.jobs.segment_check import Kind
from bmq.spark.jobs.stored_segments import SegmentTask, all_segments, count_codecs, feed, plan_segments, tasks_of
from bmq.spark.jobs.stores import StoreAddress
from bmq.spark.jobs.verify import check_segment
from bmq.spark.jobs.verify_report import SegmentResult
from tests.fakes.cluster_controller import image_of, topic_image

pytestmark = pytest.mark.unit

DIRECTORY = "topics/t/0"
PATHS = PartitionPaths(DIRECTORY, 9)
SEGMENT = PATHS.segment(1, 0)
INDEX = PATHS.index(1, 0, 1)
BATCHES = [
    encode_batch(
        [Record(key=b"k", value=b"v" * 30, headers=(), timestamp_ms=n, offset=0) for n in range(5)],
        base_offset=5 * number,
        leader_epoch=1,
    )
    for number in range(20)
]


class Partition:
    """A closed segment, its index, and the manifest that names both."""

    def __init__(self, root: Path) -> None:
        root.mkdir()
        self.root = root
        self.task = self.run(self._write)

    def run(self, work: Callable[[LocalStore], Awaitable[SegmentTask]]) -> SegmentTask:
        async def opened() -> SegmentTask:
            store = LocalStore(self.root, is_root_locked=False)
            try:
                return await work(store)
            finally:
                await store.close()

        return asyncio.run(opened())

    async def _write(self, store: LocalStore) -> SegmentTask:
        await store.make_directories(PATHS.epoch(1))
        writer = await store.create_segment(SEGMENT, holder="h", durability=Durability.HFLUSH, segment_bytes=1 << 20)
        await writer.append([b"".join(BATCHES)])
        size = await writer.close()
        builder = IndexBuilder(1, 0, writer.file_id, 0, interval_bytes=300)
        for batch in BATCHES:
            header = BatchHeader.parse(batch)
            builder.add(header, header.base_offset, builder.valid_bytes)
        self.index = builder.build(size)
        await store.write_file(INDEX, self.index.encode(), holder="h")
        await self._name(store, 0, (Extent.of(self.index, 1),))
        (task,) = tasks_of(await view_partition(store, DIRECTORY), "t", 0)
        return task

    async def _name(self, store: LocalStore, number: int, extents: tuple[Extent, ...]) -> None:
        manifest = Manifest(leader_epoch=1, next_roll=1, log_start_offset=0, end_offset=100, extents=extents)
        await store.write_file(f"{PATHS.epoch(1)}/manifest.{number:08d}", manifest.encode(), holder="h")

    def name_nothing(self) -> None:
        async def rename(store: LocalStore) -> SegmentTask:
            await self._name(store, 1, ())
            return self.task

        self.run(rename)

    def write_index(self, data: bytes) -> None:
        (self.root / INDEX).chmod(0o644)
        (self.root / INDEX).write_bytes(data)
        (self.root / INDEX).chmod(0o444)

    def remove(self, path: str) -> None:
        (self.root / path).unlink()

    def check(self, **more: object) -> SegmentResult:
        task = replace(self.task, **more)  # type: ignore[arg-type]
        return SegmentResult.from_json(check_segment(StoreAddress(str(self.root)), task, has_replicas=True))


@pytest.fixture
def partition(tmp_path: Path) -> Partition:
    return Partition(tmp_path / "store")


def kinds(result: SegmentResult) -> list[tuple[Kind, str]]:
    return [(finding.kind, finding.reason) for finding in result.findings]


@pytest.mark.parametrize("piece_bytes", [7, 61, 250, 1_000, 1 << 20])
def test_pieces_are_fed_in_order_and_only_a_cut_batch_is_copied(partition: Partition, piece_bytes: int) -> None:
    fed: list[int] = []
    used = bytearray()

    def take(position: int, data: memoryview) -> tuple[int, int]:
        assert position == len(used)
        fed.append(len(data))
        origin = partition.task.origin._replace(position_bytes=position)
        found = scan(data, origin, 0, rows_max=1 << 30, bytes_max=1 << 30, batch_bytes_max=1 << 30)
        used.extend(data[: found.end].tobytes())
        return found.end, found.missing_bytes

    async def fed_whole(store: SegmentStore) -> int:
        return await feed(store, partition.task, take, piece_bytes=piece_bytes)

    end = StoreAddress(f"file:{partition.root}").run(fed_whole)
    assert (end, bytes(used)) == (partition.task.valid_bytes, b"".join(map(bytes, BATCHES)))
    assert max(fed) <= max(piece_bytes, *map(len, BATCHES))


def test_a_segment_of_many_small_batches_is_fed_to_its_end(partition: Partition) -> None:
    batch = bytes(encode_batch([Record(None, b"v", (), 5)]))
    count = 70_000
    log = np.tile(np.frombuffer(batch, np.uint8), (count, 1))
    log[:, :8] = np.arange(count, dtype=">i8").view(np.uint8).reshape(count, 8)

    async def write(store: LocalStore) -> SegmentTask:
        path = PATHS.segment(1, 1)
        writer = await store.create_segment(path, holder="h", durability=Durability.HFLUSH, segment_bytes=8 << 20)
        await writer.append([log.tobytes()])
        size = await writer.close()
        return SegmentTask("t", 0, path, "", 1, 1, writer.file_id, 0, count, size, size, False, False)

    task = partition.run(write)
    store = StoreAddress(str(partition.root))
    assert count_codecs(store, task) == [["t", 0, "none", count, count, task.valid_bytes]]
    result = SegmentResult.from_json(check_segment(store, task, has_replicas=False))
    assert (result.findings, result.batches, result.end_offset) == ((), count, count)


def test_a_sound_segment_is_clean(partition: Partition) -> None:
    result = partition.check()
    assert result.findings == ()
    assert (result.base_offset, result.end_offset, result.records, result.batches) == (0, 100, 100, 20)
    assert (result.replicas, result.is_gone) == (None, False)


def test_a_missing_index_is_found(partition: Partition) -> None:
    partition.remove(INDEX)
    assert [kind for kind, _ in kinds(partition.check())] == [Kind.INDEX]
    assert "is missing" in partition.check().findings[0].reason


def test_a_damaged_index_is_found(partition: Partition) -> None:
    partition.write_index(partition.index.encode()[:-1])
    assert "is damaged" in partition.check().findings[0].reason


def test_an_index_that_is_not_true_is_found(partition: Partition) -> None:
    index = partition.index
    wrong = SegmentIndex(
        index.summary, array("q", [*index.offsets[:-1], index.offsets[-1] + 1]), index.positions, index.timestamps_ms
    )
    partition.write_index(wrong.encode())
    assert [kind for kind, _ in kinds(partition.check())] == [Kind.INDEX]


def test_an_index_for_another_file_is_found(partition: Partition) -> None:
    assert "is for another file" in partition.check(file_bytes=partition.task.file_bytes + 1).findings[0].reason


def test_a_manifest_that_says_another_end_is_found(partition: Partition) -> None:
    assert kinds(partition.check(end_offset=105)) == [
        (Kind.INDEX, "the manifest says that it ends at 105, its batches end at 100")
    ]


def test_a_batch_that_is_cut_is_found_unless_the_segment_is_open(partition: Partition) -> None:
    cut = {"valid_bytes": partition.task.valid_bytes - 3, "end_offset": -1}
    assert (Kind.BATCH, f"the batch there is cut: the segment ends at {cut['valid_bytes']}") in kinds(
        partition.check(**cut)
    )
    assert partition.check(**cut, is_open=True, index_path="").findings == ()


def test_a_segment_that_is_gone_is_damage_only_while_the_manifest_names_it(partition: Partition) -> None:
    partition.remove(SEGMENT)
    assert kinds(partition.check()) == [(Kind.FILE, "the manifest names this segment, and it is not there")]
    partition.name_nothing()
    result = partition.check()
    assert (result.is_gone, result.findings) == (True, ())


def test_codecs_are_counted_in_the_offsets_asked_for(partition: Partition) -> None:
    task = replace(partition.task, from_offset=12, to_offset=20)
    size = sum(map(len, BATCHES[2:4]))
    assert count_codecs(StoreAddress(str(partition.root)), task) == [["t", 0, "none", 2, 10, size]]


@pytest.mark.parametrize("is_damaged", [False, True])
def test_metadata_that_cannot_be_read_is_one_sentence(partition: Partition, is_damaged: bool) -> None:
    """Of a later release, or damaged: topics cannot be named then."""
    metadata = partition.root / partition_directory(TopicPartition(METADATA_TOPIC_ID, 0))
    metadata.parent.mkdir()
    (partition.root / DIRECTORY).rename(metadata)
    if is_damaged:
        segment = metadata / SEGMENT.removeprefix(f"{DIRECTORY}/")
        content = bytearray(segment.read_bytes())
        content[len(BATCHES[0]) - 1] ^= 1
        segment.chmod(0o644)
        segment.write_bytes(content)
    sentence = "checksum" if is_damaged else "metadata record frame version"
    with pytest.raises(JobFailed, match=sentence):
        all_segments(StoreAddress(str(partition.root)), [])


def test_a_store_that_is_not_there_is_one_sentence(tmp_path: Path, partition: Partition) -> None:
    with pytest.raises(JobFailed, match="is not on this machine"):
        check_segment(StoreAddress(str(tmp_path / "nowhere")), partition.task, has_replicas=False)


def test_files_of_a_view_are_its_topics_and_none_are_planned_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = topic_image("orders", 1, [1])
    view = replace(base, name="paid", topic_id=UUID(int=9), view=ViewImage("orders", base.topic_id, "TRUE"))

    async def image(store: object) -> MetadataImage:
        return replace(image_of([], [base, view]), views={view.topic_id: view})

    monkeypatch.setattr(stored_segments, "stored_image", image)
    store = StoreAddress(str(tmp_path))
    for names in (["orders", "paid"], ["paid"]):
        with pytest.raises(
            JobFailed, match="'paid' is a view, which has no files: its records are in those of 'orders'"
        ):
            all_segments(store, names)
        assert plan_segments(store, [OffsetRange(name, 0, 0, 5) for name in names]) == []
    assert all_segments(store, ["orders"]) == all_segments(store, []) == []
