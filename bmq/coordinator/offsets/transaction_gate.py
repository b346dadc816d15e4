"""Admits transactional commits to a shard's log only while their transaction is open at its coordinator.

A producer's first commit in a shard is verified with the transaction coordinator, which then has the shard's partition
in the transaction (KIP-890). The transaction may end here between that answer and the write. So a guard is made before
asking, and a marker breaks it: a commit with a broken guard is refused, so a late commit never becomes part of the
producer's next transaction. While the transaction is open in the log, no verification is needed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from bmq.coordinator.runtime.log_errors import verification_error
from bmq.coordinator.topics import OFFSETS_TOPIC
from bmq.log.state_log import Producer
from bmq.log.transactions import TransactionClaim, TransactionMarker, TransactionVerifier
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError


class _Guard:
    """`code`: error for the client, set once a marker has ended the commit's transaction.

    A producer whose epoch is bumped at each end (`has_own_epoch`) may continue after a marker with its epoch: that
    marker ended the previous transaction and is only repeated.
    """

    __slots__ = ("_epoch", "_has_own_epoch", "code")

    def __init__(self, epoch: int, has_own_epoch: bool) -> None:
        self.code = ErrorCode.NONE
        self._epoch = epoch
        self._has_own_epoch = has_own_epoch

    def ended(self, marker_epoch: int) -> None:
        if marker_epoch > self._epoch:
            self.code = ErrorCode.INVALID_PRODUCER_EPOCH
        elif not self._has_own_epoch:
            self.code = ErrorCode.INVALID_TXN_STATE


class TransactionGate:
    """The gate of one shard. `open_epoch`: epoch of a producer's open transaction in the applied part of the log."""

    def __init__(self, number: int, open_epoch: Callable[[int], int | None]) -> None:
        self._number = number
        self._open_epoch = open_epoch
        self._guards: dict[int, set[_Guard]] = {}
        self._writing: Counter[Producer] = Counter()  # commits in flight to the log
        self._ending: dict[int, set[asyncio.Future[int]]] = {}  # markers in flight, by producer id

    async def admit(self, verifier: TransactionVerifier, claim: TransactionClaim, producer: Producer) -> ErrorCode:
        """NONE if the producer may write now, before the next turn of the loop; else the code for the client."""
        producer_id, epoch = producer
        if producer_id not in self._ending and self._open_epoch(producer_id) == epoch:
            return ErrorCode.NONE
        guard = _Guard(epoch, has_own_epoch=claim.may_add)
        guards = self._guards.setdefault(producer_id, set())
        guards.add(guard)
        try:
            (code,) = await verifier.verify(claim, producer_id, epoch, OFFSETS_TOPIC, (self._number,))
            while producer_id in self._ending:
                await asyncio.wait(list(self._ending[producer_id]))  # a refused marker has ended nothing
        finally:
            guards.discard(guard)
            if not guards:
                self._guards.pop(producer_id, None)
        return verification_error(code, claim) or guard.code

    def check_marker(self, marker: TransactionMarker) -> None:
        """Raises KafkaError INVALID_PRODUCER_EPOCH for a late marker of an earlier transaction.

        From version 2 on each end bumps the epoch, so commits with the marker's own epoch belong to the next
        transaction. The log itself refuses epochs lower than the last one.
        """
        if marker.transaction_version < 2:
            return
        epochs = [epoch for producer_id, epoch in self._writing if producer_id == marker.producer_id]
        open_epoch = self._open_epoch(marker.producer_id)
        if marker.producer_epoch <= max(epochs, default=-1) or (
            open_epoch is not None and marker.producer_epoch <= open_epoch
        ):
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"a marker of epoch {marker.producer_epoch} for a transaction of producer {marker.producer_id} "
                "that began after it",
            )

    def writing(self, producer: Producer, done: asyncio.Future[int]) -> None:
        """Register a commit in flight to the log."""
        self._writing[producer] += 1

        def finish(done: asyncio.Future[int]) -> None:
            self._writing[producer] -= 1
            if not self._writing[producer]:
                del self._writing[producer]

        done.add_done_callback(finish)

    def ending(self, producer_id: int, done: asyncio.Future[int]) -> None:
        """Register a marker in flight to the log."""
        markers = self._ending.setdefault(producer_id, set())
        markers.add(done)

        def finish(done: asyncio.Future[int]) -> None:
            markers.discard(done)
            if not markers and self._ending.get(producer_id) is markers:
                del self._ending[producer_id]

        done.add_done_callback(finish)

    def ended(self, producer: Producer) -> None:
        """A marker is applied."""
        for guard in self._guards.get(producer.producer_id, ()):
            guard.ended(producer.producer_epoch)
