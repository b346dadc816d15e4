"""Directories of topics that the metadata does not know: a sign that metadata was lost (rules 18 and 25)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import UUID

import structlog

from bmq.log.damage import end_damage, require_accepted
from bmq.log.names import TOPICS_DIRECTORY, partition_directory, topic_directory
from bmq.log.partition_log import TopicPartition
from bmq.log.store import FileMissing, SegmentStore, StoreError
from bmq.metadata.image import METADATA_TOPIC_ID, MetadataImage

_NAMED_MAX: Final = 5

_log = structlog.get_logger("bmq.controller")


async def unknown_topics(store: SegmentStore, image: Callable[[], MetadataImage]) -> list[UUID]:
    """Ids of topics with files in the store that are neither in the metadata nor being deleted. Raises StoreError."""
    try:
        entries = await store.list_directory(TOPICS_DIRECTORY)
    except FileMissing:
        return []
    found = [topic_id for entry in entries if (topic_id := _topic_id(entry.name)) is not None]
    known = image()
    strange = [topic_id for topic_id in found if topic_id not in known.topics_by_id]
    # Check again: a topic's deletion may have ended since the listing.
    return [
        topic_id
        for topic_id in strange
        if topic_id not in known.deleted_topics and await store.status(topic_directory(topic_id)) is not None
    ]


async def require_no_topics(store: SegmentStore) -> None:
    """Call before the first record of a metadata log. Raises StateDamaged if the store has topics: the log was lost."""
    strange = await unknown_topics(store, MetadataImage)
    if strange:
        partition = partition_directory(TopicPartition(METADATA_TOPIC_ID, 0))
        await require_accepted(store, end_damage(partition, 0, f"but there are files of {_named(strange)}"))


async def report_unknown_topics(store: SegmentStore, image: Callable[[], MetadataImage]) -> None:
    """Log one error line. Nothing is deleted: files that the metadata lost can still be read."""
    try:
        strange = await unknown_topics(store, image)
    except StoreError as error:
        _log.info("unknown_topics_not_checked", reason=str(error))
        return
    if strange:
        _log.error(
            "topics_unknown_to_the_metadata",
            count=len(strange),
            reason=f"the store has files of {_named(strange)}, which the metadata does not know: metadata was lost",
        )


def _named(topic_ids: list[UUID]) -> str:
    shown = ", ".join(map(str, topic_ids[:_NAMED_MAX]))
    return f"{len(topic_ids)} topics ({shown}{', …' if len(topic_ids) > _NAMED_MAX else ''})"


def _topic_id(name: str) -> UUID | None:
    try:
        topic_id = UUID(name)
    except ValueError:
        return None
    return None if topic_id == METADATA_TOPIC_ID else topic_id
