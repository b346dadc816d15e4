"""Adds the lane to records of producers with a lane, before they go to the partition's owner.

A batch that its owner will refuse is passed on unchanged, because the owner has the right error code. A batch that is sent again
is changed again, and keeps its sequences.
"""

from __future__ import annotations

from typing import Final

from bmq.log.lanes.produced_batch import stamped
from bmq.log.lanes.record_lane import DEFAULT_HEADER
from bmq.log.lanes.stamps import lane_of_producer
from bmq.log.opened_batch import BatchTooLong
from bmq.log.partition_log import AppendResult, ProducedBatch
from bmq.metadata.image import TopicImage
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.record_batch import parsed_header, validate_client_batch, verify_crc
from bmq.protocol.request_context import RequestContext
from bmq.records.records_twin import Damage

_HEADER: Final = DEFAULT_HEADER.encode()


def lane_for(topic: TopicImage | None, context: RequestContext) -> str | None:
    """The lane that the topic's rules give this client's records; None if they stay as they are."""
    if topic is None or topic.is_internal:
        return None
    return lane_of_producer(topic.log_config.lane_producers, context.client_id, context.principal)


def stamp(batch: ProducedBatch, lane: str) -> AppendResult | None:
    """Add the lane to the batch's records that have none. Returns the refusal of a batch that is too long for that, or None."""
    header, records = batch.header, batch.records
    if header is None or header.size_bytes != len(records):
        return None
    try:
        verify_crc(records, 0, header)
        validate_client_batch(header)
        again = stamped(records, header, _HEADER, lane)
    except BatchTooLong as error:  # with this code producers send the batch again in two halves
        return AppendResult(ErrorCode.MESSAGE_TOO_LARGE, message=str(error))
    except (BmqError, Damage):
        return None
    if again is not None:
        batch.records = batch.view = memoryview(again)
        batch.header = parsed_header(batch.records)
    return None
