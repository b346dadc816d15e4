"""What a controller writes first when the end of the metadata log is lost, and an operator accepted that (rule 55). Decisions only.

The lost records may have given leader epochs to partitions and blocks of ids to producers. Both are known outside of the log, to
consumers and to producers that live, so none of them may be given a second time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from bmq.metadata.image import MetadataImage
from bmq.metadata.state import partition_record
from bmq.protocol.metadata_records import MetadataRecord, ProducerIdsRecord

SKIPPED_MIN: Final = 1_000
"""More records than are known to be lost: those that nobody has told of, or all of them where nobody could."""


def records_after_loss(
    image: MetadataImage, node_id: int, lost_records: int, *, producer_ids_per_block: int
) -> Iterator[MetadataRecord]:
    """Leader epochs and producer ids above all that the lost records can have given out: each gave at most one of them.

    `lost_records`: as many as are known. `node_id`: the controller's.
    """
    skipped = lost_records + SKIPPED_MIN
    next_producer_id = image.next_producer_id + skipped * producer_ids_per_block
    yield ProducerIdsRecord(broker_id=node_id, next_producer_id=next_producer_id)
    for topic in image.logs():
        for partition in topic.partitions:
            raised = replace(
                partition,
                leader_epoch=partition.leader_epoch + skipped,
                partition_epoch=partition.partition_epoch + 1,
            )
            yield partition_record(topic.topic_id, raised)
