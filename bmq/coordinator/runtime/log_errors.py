"""Maps errors of a shard's log to the codes that clients get (Kafka's GroupMetadataManager, CoordinatorRuntime).

Pure.
"""

from __future__ import annotations

from typing import Final

from bmq.log.transactions import TransactionClaim
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
_MARKER_ERRORS: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


def coordinator_error(error: BmqError) -> ErrorCode:
    """The code for an error of an append, a load or a proof."""
    return _APPEND_ERRORS.get(error.code, error.code)


def deletion_error(error: BmqError) -> ErrorCode:
    """Like coordinator_error, for tombstones that were handed to the log: REQUEST_TIMED_OUT if they may have been
    written.

    A client retries after a coordinator error, and would delete offsets that were committed since.
    """
    return coordinator_error(error) if error.code in _NOTHING_WRITTEN else ErrorCode.REQUEST_TIMED_OUT


def verification_error(code: ErrorCode, claim: TransactionClaim) -> ErrorCode:
    """The code for a TxnOffsetCommit when the transaction coordinator answered `code` for its partition.

    Clients before version 5 do not retry CONCURRENT_TRANSACTIONS, and no client expects NETWORK_EXCEPTION here: both
    become a code that makes the client retry at this coordinator.
    """
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not claim.is_abortable_told:
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.NETWORK_EXCEPTION or (code is ErrorCode.CONCURRENT_TRANSACTIONS and not claim.may_add):
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return _APPEND_ERRORS.get(code, code)


def marker_error(error: BmqError) -> ErrorCode:
    """The code for the transaction coordinator when its marker was not written: never a group coordinator's code.

    After NOT_LEADER_OR_FOLLOWER it looks for the partition's owner and tries again.
    """
    return error.code if error.code in _MARKER_ERRORS else ErrorCode.NOT_LEADER_OR_FOLLOWER
