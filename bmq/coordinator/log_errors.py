"""What a coordinator's client is told of an error of its shard's log (Kafka's GroupMetadataManager, CoordinatorRuntime)."""

from __future__ import annotations

from typing import Final

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError

_APPEND_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
_NOTHING_WRITTEN: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
    }
)


def coordinator_error(error: BmqError) -> ErrorCode:
    """The code for an error of an append, a load or a proof."""
    return _APPEND_ERRORS.get(error.code, error.code)


def deletion_error(error: BmqError) -> ErrorCode:
    """As coordinator_error, of tombstones that were handed to the log: REQUEST_TIMED_OUT where they may be in it.

    After a coordinator's error a client sends the deletion again, and would delete what was committed since.
    """
    return coordinator_error(error) if error.code in _NOTHING_WRITTEN else ErrorCode.REQUEST_TIMED_OUT
