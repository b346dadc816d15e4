"""Reads the metadata image from the store, for tools that run beside the servers, or without them."""

from __future__ import annotations

from typing import Final

from crc32c import crc32c

from bmq.log.names import partition_directory
from bmq.log.partition_log import TopicPartition
from bmq.log.partition_view import read_view, view_partition
from bmq.log.store import CorruptFile, FileMissing, SegmentStore
from bmq.metadata.image import METADATA_TOPIC_ID, MetadataImage
from bmq.metadata.state import MetadataState
from bmq.protocol.batch_records import decode_records
from bmq.protocol.metadata_records import decode_record

_NOBODY: Final = -1


async def stored_image(store: SegmentStore, cluster_id: str = "") -> MetadataImage:
    """Everything that was durable in the metadata log when we looked; an empty image when there is no such log yet.

    Raises CorruptFile, StorageUnavailable.
    """
    state, offset = await stored_state(store, cluster_id)
    return state.image_at(offset)


async def stored_state(store: SegmentStore, cluster_id: str = "") -> tuple[MetadataState, int]:
    """As `stored_image`: the state, and the end of the log that it is of. Raises CorruptFile, StorageUnavailable."""
    state = MetadataState(cluster_id, _NOBODY, {})
    try:
        view = await view_partition(store, partition_directory(TopicPartition(METADATA_TOPIC_ID, 0)))
    except FileMissing:
        return state, 0
    offset = 0
    if view.manifest is not None:
        offset = view.manifest.log_start_offset
        for snapshot in sorted(view.manifest.snapshots, key=lambda snapshot: snapshot.next_offset, reverse=True):
            path = view.paths.snapshot(snapshot.leader_epoch, snapshot.number)
            data = await store.read_file(path, length_bytes_max=snapshot.length)
            if crc32c(data) != snapshot.crc:
                raise CorruptFile(f"{path} does not have the checksum that the manifest names")
            state.replay_snapshot(data)
            offset = snapshot.next_offset
            break
    async for run in read_view(store, view, offset):
        for position, header in run.batches:
            if header.is_control or header.end_offset <= offset:
                continue
            for record in decode_records(run.data, position):
                if record.offset >= offset:
                    state.replay(decode_record(record.value or b""))
            offset = header.end_offset
    return state, offset
