"""Producers, a coordinator with slow words and lost answers, and a network that delivers copies late: transactions stay whole.

At `transaction.version` 2: each end has a new epoch, a client begins its next transaction while markers still fly, and
partitions are added by their owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.broker.runtime import PartitionRuntime
from bmq.log.partition_log import AppendResult
from bmq.log.transactions import TransactionClaim, TransactionMarker
from bmq.protocol.batch_records import decode_records
from bmq.protocol.control_batch import ControlType, parse_end_transaction_marker
from bmq.protocol.error_codes import RETRIABLE, ErrorCode
from bmq.protocol.record_batch import batches
from tests.unit.broker.world import World, append, batch_of, produce, virtual

pytestmark = pytest.mark.unit

CLAIM = TransactionClaim("tx", may_add=True, is_abortable_told=True)
LATE_S = 0.3


class Coordinator:
    """Of all producers. A transaction is over when its marker was answered; the answer may be lost, and it is sent again."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.log: PartitionRuntime
        self.epochs: dict[int, int] = {}
        self.is_ending: dict[int, bool] = {}
        self.added: dict[int, int] = {}  # by producer, the epoch at which the partition is in its transaction
        self.endings: list[asyncio.Task[None]] = []

    async def verify(
        self, claim: TransactionClaim, producer_id: int, producer_epoch: int, topic: str, partitions: Sequence[int]
    ) -> Sequence[ErrorCode]:
        await self._pause()
        code = self._add(producer_id, producer_epoch)
        await self._pause()
        return [code]

    def _add(self, producer_id: int, producer_epoch: int) -> ErrorCode:
        if self.random.random() < 0.1:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if producer_epoch != self.epochs[producer_id]:
            return ErrorCode.PRODUCER_FENCED
        if self.is_ending.get(producer_id):
            return ErrorCode.CONCURRENT_TRANSACTIONS
        self.added[producer_id] = producer_epoch
        return ErrorCode.NONE

    def end(self, producer_id: int, *, is_commit: bool) -> int:
        """The producer's next epoch, at once."""
        epoch = self.epochs[producer_id] = self.epochs[producer_id] + 1
        if self.added.pop(producer_id, None) is not None:
            self.is_ending[producer_id] = True
            marker = TransactionMarker(producer_id, epoch, 0, is_commit, 2)
            self.endings.append(asyncio.ensure_future(self._write(marker)))
        return epoch

    async def _write(self, marker: TransactionMarker) -> None:
        while True:
            await self._pause()
            await self.log.write_marker(marker)
            await self._pause()
            if self.random.random() < 0.7:
                break
        self.is_ending[marker.producer_id] = False

    async def _pause(self) -> None:
        await asyncio.sleep(self.random.choice((0, 0, 0.001, 0.03, 0.15)))


class Producer:
    """Ends some of its transactions before all is acknowledged: then by an abort, as a client does that gives up."""

    def __init__(self, producer_id: int, coordinator: Coordinator, random: Random) -> None:
        self.producer_id = producer_id
        self.coordinator = coordinator
        self.random = random
        self.acknowledged: dict[int, list[bytes]] = {}  # by epoch
        self.outcomes: dict[int, ControlType] = {}
        self.late: list[asyncio.Task[object]] = []

    async def run(self, transaction_count: int) -> None:
        coordinator, random = self.coordinator, self.random
        epoch = coordinator.epochs[self.producer_id] = 0
        for _ in range(transaction_count):
            sends = [asyncio.ensure_future(self._send(epoch, number)) for number in range(random.randint(1, 4))]
            is_patient = random.random() < 0.7
            if is_patient:
                await asyncio.wait(sends)
            else:
                await asyncio.sleep(random.choice((0, 0.01, 0.1)))
            results = [one.done() and one.result() for one in sends]
            for one in sends:
                one.cancel()
            is_commit = all(results) and random.random() < 0.7
            self.acknowledged[epoch] = [_value(epoch, number) for number, is_in in enumerate(results) if is_in]
            self.outcomes[epoch] = ControlType.COMMIT if is_commit else ControlType.ABORT
            epoch = coordinator.end(self.producer_id, is_commit=is_commit)

    async def _send(self, epoch: int, number: int) -> bool:
        data = batch_of(
            _value(epoch, number),
            producer_id=self.producer_id,
            producer_epoch=epoch,
            base_sequence=number,
            is_transactional=True,
        )
        while True:
            if self.random.random() < 0.3:
                self.late.append(asyncio.ensure_future(self._send_late(data)))
            result = await self._append(data)
            if result.error_code is ErrorCode.NONE:
                return True
            # The second of two batches is out of order until the first, which was refused, has come again.
            if result.error_code not in RETRIABLE | {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}:
                return False
            await asyncio.sleep(self.random.choice((0.001, 0.02)))

    async def _send_late(self, data: bytearray) -> None:
        await asyncio.sleep(self.random.random() * LATE_S)
        await self._append(data)

    async def _append(self, data: bytearray) -> AppendResult:
        return await asyncio.shield(append(self.coordinator.log, data, claim=CLAIM))


def _value(epoch: int, number: int) -> bytes:
    return b"%d.%d" % (epoch, number)


async def check(log: PartitionRuntime, producer: Producer) -> None:
    """What lies between two markers of a producer is one transaction, whole and in order, with the outcome it was given."""
    between: list[Any] = []
    offset, first_offset = 0, -1
    told = {(one.producer_id, one.first_offset) for one in log.aborted_transactions(0, log.last_stable_offset)}
    aborted, epochs_seen = set(), []
    while (chunk := await log.read(offset, 100_000)) is not None:
        for position, header in batches(chunk.data):
            offset = header.end_offset
            if header.producer_id != producer.producer_id:
                continue
            if not header.is_control:
                first_offset = header.base_offset if not between else first_offset
                between += [(header.producer_epoch, record.value) for record in decode_records(chunk.data, position)]
                continue
            marker = parse_end_transaction_marker(chunk.data, position)
            assert marker is not None
            if between:
                ((epoch, _), *_) = between
                assert between == [(epoch, _value(epoch, number)) for number in range(len(between))]
                assert set(producer.acknowledged[epoch]) <= {value for _, value in between}
                assert marker.control_type is producer.outcomes[epoch] and header.producer_epoch == epoch + 1
                if marker.control_type is ControlType.ABORT:
                    aborted.add((producer.producer_id, first_offset))
                epochs_seen.append(epoch)
            between = []
    assert not between, "a transaction was left open"
    assert epochs_seen == sorted(set(epochs_seen))
    assert {epoch for epoch, values in producer.acknowledged.items() if values} <= set(epochs_seen)
    assert {one for one in told if one[0] == producer.producer_id} == aborted


@given(seed=st.integers(0, 2**32))
def test_transactions_stay_whole(seed: int) -> None:
    async def main() -> None:
        random = Random(seed)
        world = World(seed=seed)
        owner = world.owner()
        coordinator = Coordinator(random)
        owner.manager.use_transactions(coordinator)
        log = coordinator.log = await owner.log()
        producers = [Producer(number, coordinator, random) for number in (1, 2)]
        stables = [0]

        async def watch() -> None:
            while True:
                stables.append(log.last_stable_offset)
                assert stables[-2] <= stables[-1] <= log.high_watermark
                await asyncio.sleep(0.005)
                if random.random() < 0.1:
                    await produce(log, b"plain")

        watching = asyncio.ensure_future(watch())
        await asyncio.gather(*(producer.run(5) for producer in producers))
        for producer in producers:
            await asyncio.gather(*producer.late)
        await asyncio.gather(*coordinator.endings)
        # A batch that came after its producer had given up may have added the partition again.
        for producer in producers:
            coordinator.end(producer.producer_id, is_commit=False)
        await asyncio.gather(*coordinator.endings)
        watching.cancel()
        assert log.last_stable_offset == log.high_watermark
        for producer in producers:
            await check(log, producer)
        await owner.manager.close()
        assert owner.manager.budget.bytes_used == 0

    virtual(main)
