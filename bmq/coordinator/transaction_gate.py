"""Which transactional commits may be written to a shard's log: those whose transaction is open, by its coordinator's word.

A producer's first commit in a shard is verified with the transaction coordinator, which knows the shard's partition as
part of the transaction then (KIP-890). Between that word and the write the transaction may end here. So a guard is made
before the question, and a marker breaks it: what comes back to a broken guard is refused, and a late commit never becomes
part of the producer's next transaction. While the transaction is open in the log nothing has to be asked.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from bmq.coordinator.log_errors import verification_error
from bmq.coordinator.topics import OFFSETS_TOPIC
from bmq.log.state_log import Producer
from bmq.log.transactions import TransactionClaim, TransactionMarker, TransactionVerifier
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError


class _Guard:
    """`code`: for the client, once a marker has ended the transaction that the commit belongs to.

    A producer whose epoch is bumped by each end (`has_own_epoch`) goes on behind a marker of its epoch: that ended the
    transaction before, and is only repeated.
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
    """Of one shard. `open_epoch`: of a producer's transaction that is open in what is applied of the log."""

    def __init__(self, number: int, open_epoch: Callable[[int], int | None]) -> None:
        self._number = number
        self._open_epoch = open_epoch
        self._guards: dict[int, set[_Guard]] = {}
        self._writing: Counter[Producer] = Counter()  # commits on their way into the log
        self._ending: dict[int, set[asyncio.Future[int]]] = {}  # markers on their way, by producer id

    async def admit(self, verifier: TransactionVerifier, claim: TransactionClaim, producer: Producer) -> ErrorCode:
        """Whether the producer may write now, before anything else happens; else the code for the client."""
        producer_id, epoch = producer
        if producer_id not in self._ending and self._open_epoch(producer_id) == epoch:
            return ErrorCode.NONE
        guard = _Guard(epoch, has_own_epoch=claim.may_add)
        guards = self._guards.setdefault(producer_id, set())
        guards.add(guard)
        try:
            (code,) = await verifier.verify(claim, producer_id, epoch, OFFSETS_TOPIC, (self._number,))
            while producer_id in self._ending:
                await asyncio.wait(list(self._ending[producer_id]))  # it may be refused, and then nothing has ended
        finally:
            guards.discard(guard)
            if not guards:
                self._guards.pop(producer_id, None)
        return verification_error(code, claim) or guard.code

    def check_marker(self, marker: TransactionMarker) -> None:
        """Raises KafkaError INVALID_PRODUCER_EPOCH for a late marker of a transaction that is over.

        From version 2 on each end bumps the epoch: what is written with the marker's own belongs to the next transaction.
        The log itself refuses epochs lower than the last one.
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
        """A commit is on its way into the log."""
        self._writing[producer] += 1

        def finish(done: asyncio.Future[int]) -> None:
            self._writing[producer] -= 1
            if not self._writing[producer]:
                del self._writing[producer]

        done.add_done_callback(finish)

    def ending(self, producer_id: int, done: asyncio.Future[int]) -> None:
        """A marker is on its way into the log."""
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
