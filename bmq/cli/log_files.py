"""A partition's stored files for looking at: batches of segments, and what manifests, indexes and snapshots say."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from bmq.cli.state_records import plain
from bmq.dataclass import dataclass
from bmq.log.aborted_transactions import AbortedTransactions
from bmq.log.checksummed_parts import CONTAINER_BYTES_MAX
from bmq.log.manifest import MANIFEST_BYTES_MAX, Manifest
from bmq.log.names import (
    TOPICS_DIRECTORY,
    parse_index,
    parse_manifest,
    parse_rebuilt_index,
    parse_segment,
    parse_snapshot,
    partition_directory,
    renamed_path,
)
from bmq.log.partition_log import TopicPartition
from bmq.log.partition_view import PartitionView, SegmentView, view_partition
from bmq.log.producer_state import ProducerStates
from bmq.log.segment_index import INDEX_BYTES_MAX, SegmentIndex
from bmq.log.segment_reader import SegmentReader
from bmq.log.store import FileMissing, SegmentStore
from bmq.metadata.image import METADATA_TOPIC_ID, METADATA_TOPIC_NAME, MetadataImage
from bmq.metadata.stored_image import stored_image
from bmq.protocol.compression import UnknownCompression
from bmq.protocol.errors import BmqError
from bmq.protocol.record_batch import NO_TIMESTAMP_MS, BatchHeader

SNAPSHOT_BYTES_MAX: Final = CONTAINER_BYTES_MAX  # whatever was written
_UNBOUNDED: Final = 1 << 62

T = TypeVar("T")


class UnknownTopic(BmqError):
    """A topic or partition that the metadata in the store does not have."""


class UnknownFile(BmqError):
    """A path in the store that names nothing, or nothing that can be shown."""


class StoredPartition(NamedTuple):
    """`directory`: in the store."""

    topic: str
    partition: int
    directory: str


class StoredBatch(NamedTuple):
    """One batch in `data` at `place`, at `position` of its file."""

    path: str
    position: int
    data: memoryview
    place: int
    header: BatchHeader


@dataclass(frozen=True, slots=True)
class OffsetBounds:
    """Batches that hold offsets of [start, end)."""

    start: int = 0
    end: int = _UNBOUNDED

    def has(self, header: BatchHeader) -> bool:
        return header.end_offset > self.start and header.base_offset < self.end


async def stored_partitions(store: SegmentStore, topic: str, partition: int | None) -> list[StoredPartition]:
    """All of a topic, or one. Raises UnknownTopic, CorruptFile, StorageUnavailable."""
    if topic == METADATA_TOPIC_NAME:
        # Its place is fixed, so a damaged metadata log can be looked at as well.
        topic_id, numbers = METADATA_TOPIC_ID, [0]
    else:
        image = await stored_image(store)
        found = image.topics.get(topic)
        if found is None:
            raise UnknownTopic(f"there is no topic {topic!r} in the store; it has {len(image.topics)} topics")
        topic_id, numbers = found.topic_id, [each.partition for each in found.partitions]
    if partition is not None and partition not in numbers:
        raise UnknownTopic(f"topic {topic!r} has no partition {partition}; it has {len(numbers)}")
    return [
        StoredPartition(topic, number, partition_directory(TopicPartition(topic_id, number)))
        for number in (numbers if partition is None else [partition])
    ]


async def partition_of_path(store: SegmentStore, path: str) -> StoredPartition:
    """The partition that the file belongs to; its topic is named by its id when the metadata lacks it. Raises UnknownFile."""
    parts = path.split("/")
    if len(parts) != 5 or parts[0] != TOPICS_DIRECTORY or not (parts[2].isascii() and parts[2].isdigit()):
        raise UnknownFile(
            f"{path!r} is no partition's file: those are called topics/<topic id>/<partition>/<epoch>/<file>"
        )
    partition = int(parts[2])
    try:
        topic_id = UUID(parts[1])
    except ValueError:
        topic_id = None
    directory = "/".join(parts[:3])
    if topic_id == METADATA_TOPIC_ID:
        return StoredPartition(METADATA_TOPIC_NAME, partition, directory)
    image = MetadataImage()
    try:
        image = await stored_image(store)
    except BmqError:
        pass  # a file can be looked at whatever became of the metadata
    found = None if topic_id is None else image.topics_by_id.get(topic_id)
    return StoredPartition(parts[1] if found is None else found.name, partition, directory)


async def view_of(store: SegmentStore, stored: StoredPartition) -> PartitionView | None:
    """None for a partition that was never written."""
    try:
        return await view_partition(store, stored.directory)
    except FileMissing:
        return None


async def segment_at(store: SegmentStore, path: str) -> SegmentView:
    """All of a segment's file, whatever manifests say of it. Raises UnknownFile."""
    status = await store.status(path)
    roll = parse_segment(path.rpartition("/")[2])
    if status is None or roll is None:
        raise UnknownFile(f"there is no segment {path} in the store")
    length = await store.visible_length(path) if status.is_open else status.length_bytes
    return SegmentView(path, -1, roll, status.file_id, None, None, length, length, status.is_open)


async def stored_batches(store: SegmentStore, segment: SegmentView, bounds: OffsetBounds) -> AsyncIterator[StoredBatch]:
    """In order, with their checksums compared. Raises BadBatch, FileMissing and what the store raises."""
    reader = SegmentReader(store, segment.path, file_id=segment.file_id, position=0, valid_bytes=segment.valid_bytes)
    while (run := await reader.next_run()) is not None:
        for place, header in run.batches:
            if header.base_offset >= bounds.end:
                return
            if bounds.has(header):
                yield StoredBatch(segment.path, run.position + place, run.data, place, header)


async def read_manifest(store: SegmentStore, path: str) -> Manifest:
    """Raises FileMissing, CorruptManifest, UnfinishedParts."""
    return Manifest.decode(
        await _under_either_name(path, lambda at: store.read_file(at, length_bytes_max=MANIFEST_BYTES_MAX))
    )


async def read_index(store: SegmentStore, path: str) -> SegmentIndex:
    """Raises FileMissing, CorruptIndex."""
    return SegmentIndex.decode(
        await _under_either_name(path, lambda at: store.read_file(at, length_bytes_max=INDEX_BYTES_MAX))
    )


async def read_snapshot(store: SegmentStore, path: str) -> bytes:
    """Raises FileMissing, CorruptFile."""
    return await _under_either_name(path, lambda at: store.read_file(at, length_bytes_max=SNAPSHOT_BYTES_MAX))


async def _under_either_name(path: str, read: Callable[[str], Awaitable[T]]) -> T:
    """An epoch's directory is renamed when it is sealed."""
    try:
        return await read(path)
    except FileMissing:
        return await read(renamed_path(path))


def file_kind(path: str) -> str:
    """segment, index, manifest or snapshot. Raises UnknownFile."""
    name = path.rpartition("/")[2]
    if parse_segment(name) is not None:
        return "segment"
    if parse_index(name) is not None or parse_rebuilt_index(name) is not None:
        return "index"
    if parse_manifest(name) is not None:
        return "manifest"
    if parse_snapshot(name) is not None:
        return "snapshot"
    raise UnknownFile(f"{name!r} is no segment, index, manifest or snapshot")


# --- as JSON can hold them


def batch_row(partition: int, batch: StoredBatch) -> dict[str, Any]:
    header = batch.header
    try:
        codec = header.compression.name.lower()
    except UnknownCompression:
        codec = "unknown"
    return {
        "partition": partition,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "leader_epoch": header.leader_epoch,
        "bytes": header.size_bytes,
        "codec": codec,
        "max_timestamp_ms": None if header.max_timestamp_ms == NO_TIMESTAMP_MS else header.max_timestamp_ms,
        "timestamp_type": header.timestamp_type.name,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "producer_id": header.producer_id if header.has_producer_id else None,
        "producer_epoch": header.producer_epoch if header.has_producer_id else None,
        "base_sequence": header.base_sequence if header.base_sequence >= 0 else None,
        "delete_horizon_ms": header.delete_horizon_ms,
        "crc": header.crc,
        "path": batch.path,
        "position": batch.position,
    }


def manifest_document(manifest: Manifest) -> dict[str, Any]:
    """`producers` None: they are in the last extent's index. `aborted_files`: have the transactions before `aborted`."""
    return {
        "leader_epoch": manifest.leader_epoch,
        "next_roll": manifest.next_roll,
        "log_start_offset": manifest.log_start_offset,
        "end_offset": manifest.end_offset,
        "extents": plain(manifest.extents),
        "cuts": plain(manifest.cuts),
        "epoch_history": [{"leader_epoch": epoch, "start_offset": start} for epoch, start in manifest.epoch_history],
        "snapshots": plain(manifest.snapshots),
        "aborted": _aborted(manifest.aborted),
        "aborted_files": plain(manifest.aborted_files),
        "timers": plain(manifest.timers),
        "producers": None if manifest.producers is None else _producers(manifest.producers),
    }


def index_document(index: SegmentIndex) -> dict[str, Any]:
    """`max_timestamp_ms` of an entry: the greatest of all batches before its position; None for none."""
    entries = zip(index.offsets, index.positions, index.timestamps_ms, strict=True)
    return {
        "summary": plain(index.summary),
        "entries": [
            {"offset": offset, "position": position, "max_timestamp_ms": None if time_ms < 0 else time_ms}
            for offset, position, time_ms in entries
        ],
        "aborted": _aborted(index.aborted),
        "producers": _producers(index.producers) if index.producers else None,
    }


def _aborted(aborted: AbortedTransactions) -> list[Any]:
    return [plain(each) for each in aborted]


def _producers(data: bytes) -> list[dict[str, Any]]:
    """Raises CorruptSnapshot."""
    return [
        {"producer_id": producer_id, **plain(entry)}
        for producer_id, entry in ProducerStates.decode_snapshot(data).entries()
    ]
