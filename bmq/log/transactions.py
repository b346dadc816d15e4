"""Transaction messages between brokers and coordinators: plain values, and the port to the transaction coordinator. Pure.

Source: KIP-98, KIP-890 (verification by the partition's leader, `transaction.version` 2), KIP-664.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from bmq.protocol.error_codes import ErrorCode


class TransactionClaim(NamedTuple):
    """The transaction that a request claims for its records.

    `may_add`: the server that takes the records adds their partition to the transaction (Produce 12, TxnOffsetCommit 5 and
    later); else the client has added it, and the server only verifies that. `is_abortable_told`: the client knows the error
    TRANSACTION_ABORTABLE (Produce 11, TxnOffsetCommit 4 and later).
    """

    transactional_id: str
    may_add: bool = False
    is_abortable_told: bool = False


_PRODUCE_ADDS_FROM: Final = 12
_PRODUCE_ABORTABLE_FROM: Final = 11


def claim_of_produce(transactional_id: str, version: int) -> TransactionClaim:
    """The claim of a Produce request of this version."""
    return TransactionClaim(transactional_id, version >= _PRODUCE_ADDS_FROM, version >= _PRODUCE_ABORTABLE_FROM)


def produce_version_of(claim: TransactionClaim) -> int:
    """A version of Produce that stands for the same claim."""
    if claim.may_add:
        return _PRODUCE_ADDS_FROM
    return _PRODUCE_ABORTABLE_FROM if claim.is_abortable_told else _PRODUCE_ABORTABLE_FROM - 1


class TransactionMarker(NamedTuple):
    """The end of a transaction in one partition. With `transaction_version` 2 and later each end bumps the producer's epoch."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int = 0


class ActiveProducer(NamedTuple):
    """An active producer of a partition, with the fields of DescribeProducersResponse."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_first_offset: int


class TransactionVerifier(Protocol):
    """A partition owner's port to the coordinator of a transactional id, wherever that coordinator is."""

    async def verify(
        self, claim: TransactionClaim, producer_id: int, producer_epoch: int, topic: str, partitions: Sequence[int]
    ) -> Sequence[ErrorCode]:
        """Verify that these partitions are in the producer's open transaction; adds them if `claim.may_add`. One code for each.

        The codes are those of AddPartitionsToTxn 4 and later (verify-only without `claim.may_add`), or COORDINATOR_NOT_AVAILABLE
        and similar ones if the coordinator was not reached. Faults of other processes raise nothing.
        """
