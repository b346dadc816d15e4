"""What a coordinator's client is told of an error of its shard's log (Kafka's GroupMetadataManager, CoordinatorRuntime)."""

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
    """As coordinator_error, of tombstones that were handed to the log: REQUEST_TIMED_OUT where they may be in it.

    After a coordinator's error a client sends the deletion again, and would delete what was committed since.
    """
    return coordinator_error(error) if error.code in _NOTHING_WRITTEN else ErrorCode.REQUEST_TIMED_OUT


def verification_error(code: ErrorCode, claim: TransactionClaim) -> ErrorCode:
    """What a TxnOffsetCommit is told when the transaction coordinator gave `code` for its partition.

    Clients before version 5 do not retry CONCURRENT_TRANSACTIONS, and none knows NETWORK_EXCEPTION here: both get a code
    that lets them ask this coordinator again.
    """
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not claim.is_abortable_told:
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.NETWORK_EXCEPTION or (code is ErrorCode.CONCURRENT_TRANSACTIONS and not claim.may_add):
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return _APPEND_ERRORS.get(code, code)


def marker_error(error: BmqError) -> ErrorCode:
    """What the transaction coordinator is told when its marker was not written: never a group coordinator's code.

    It looks for the partition's owner after NOT_LEADER_OR_FOLLOWER, and tries again.
    """
    return error.code if error.code in _MARKER_ERRORS else ErrorCode.NOT_LEADER_OR_FOLLOWER
