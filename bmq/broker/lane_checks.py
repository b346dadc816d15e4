"""Refuses produced records with a bad lane, on topics with `bmq.lane.validate`. Pure."""

from __future__ import annotations

from typing import Final

from bmq.broker.record_errors import refuse_named
from bmq.log.lanes.produced_batch import refused_lanes
from bmq.log.lanes.record_lane import DEFAULT_HEADER
from bmq.log.opened_batch import BatchTooLong
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import BatchHeader
from bmq.records.records_twin import Damage

_HEADER: Final = DEFAULT_HEADER.encode()


def check_lanes(batch: memoryview, header: BatchHeader) -> None:
    """A batch that has passed the checks of its records. Raises KafkaError, RecordsRefused for bad lanes (KIP-467)."""
    try:
        refused = refused_lanes(batch, header, _HEADER)
    except BatchTooLong as error:  # the code has producers send the batch again in two halves
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error
    except Damage as error:  # of a compressed batch that the topic does not have validated
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    if refused:
        refuse_named(refused)
