"""An announcement and its batch are right behind each other in the log, or the batch is not placed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from bmq.broker.append_budget import AppendBudget
from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.partition_events import ProduceArrived
from bmq.broker.timers.announced_batches import place_pair
from bmq.log.partition_log import ProducedBatch, internal_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.record_batch import BatchHeader
from tests.unit.broker.world import KEY, batch_of

pytestmark = pytest.mark.unit


class Machine:
    """Places batches at once. `between`: offsets that others take before `feed` returns."""

    def __init__(self, between: int) -> None:
        self.log = SimpleNamespace(log_end_offset=5)
        self.fed: list[int] = []
        self._between = between

    def feed(self, event: ProduceArrived) -> None:
        batch = cast(ProducedBatch, event.batch)
        batch.base_offset = self.log.log_end_offset
        self.fed.append(batch.base_offset)
        self.log.log_end_offset += batch.offset_count + self._between


def place(between: int) -> tuple[ErrorCode, Machine, list[int], AppendBudget]:
    machine, budget, placed = Machine(between), AppendBudget(1 << 20), list[int]()
    partition: Any = SimpleNamespace(
        machine=machine,
        log=machine.log,
        context=SimpleNamespace(budget=budget),
        closed_code=lambda: ErrorCode.NONE,
    )
    view = memoryview(batch_of(b"a"))
    batch = internal_batch(KEY, view, lambda _: None)
    batch.header, batch.offset_count, batch.size_bytes = BatchHeader.parse(view), 1, len(view)
    code = place_pair(cast(OwnedPartition, partition), batch_of(b"announcement"), batch, placed.append)
    return code, machine, placed, budget


def test_a_batch_is_placed_right_behind_its_announcement() -> None:
    code, machine, placed, _ = place(between=0)
    assert (code, machine.fed, placed) == (ErrorCode.NONE, [5, 6], [5])


def test_a_batch_is_not_placed_where_another_one_came_behind_its_announcement() -> None:
    """The announcement names the batch behind it: with another one there it is void, and the records would be lost."""
    code, machine, placed, budget = place(between=1)
    assert code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (machine.fed, placed) == ([5], []), "the announcement alone"
    assert budget.bytes_used == len(batch_of(b"announcement")), "which is answered later"
