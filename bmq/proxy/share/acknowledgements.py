"""Checks the acknowledgements of one partition in a ShareFetch or ShareAcknowledge, and converts them for its shard. Pure.

Source: KIP-932, KIP-1222, Kafka's KafkaApis.validateAcknowledgementBatches (4.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.share_state_messages import AcknowledgedBatch, AckType
from bmq.protocol.turns import Pace
from bmq.protocol.wire_turns import InTurns

RENEW_FROM: Final = 2
"""The first version of both requests that can renew records."""


class AcknowledgementBatch(Protocol):
    """A batch of acknowledgements, as in both requests."""

    first_offset: int
    last_offset: int
    acknowledge_types: Sequence[int]


def acknowledged_batches(
    batches: Sequence[AcknowledgementBatch], version: int, *, is_renew_ack: bool, is_renew_enabled: bool = True
) -> InTurns[list[AcknowledgedBatch]]:
    """The acknowledgements for the shard, in order of offset; made in turns, because there may be many.

    Raises KafkaError INVALID_REQUEST, and INVALID_RECORD_STATE for a renewal in a group that does not allow it.
    """
    most = AckType.RENEW if version >= RENEW_FROM else AckType.REJECT
    checked: list[AcknowledgedBatch] = []
    is_renewing = False
    before_offset = -1
    pace = Pace()
    for batch in batches:
        if pace.is_over():
            yield
        first_offset, last_offset, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first_offset > last_offset:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "an acknowledgement ends before it begins")
        if first_offset < before_offset:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "acknowledgements are not in order of offset")
        if not types:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "an acknowledgement has no type")
        if len(types) > 1 and last_offset - first_offset != len(types) - 1:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "an acknowledgement has neither one type nor one for each offset"
            )
        if min(types) < AckType.GAP or max(types) > most:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "an acknowledgement has an unknown type")
        is_renewing = is_renewing or AckType.RENEW in types
        before_offset = last_offset
        checked.append(AcknowledgedBatch(first=first_offset, last=last_offset, types=types))
    if is_renewing and not is_renew_ack:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a renewal is in a request that is not marked as one")
    if is_renewing and not is_renew_enabled:
        raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "the group does not allow renewals")
    return checked
