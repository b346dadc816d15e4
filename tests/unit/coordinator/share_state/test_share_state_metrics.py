"""Metrics of share partitions' state: redeliveries, locks, writes, and how old the oldest open record is."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from bmq.coordinator.share_state.group_figures import GROUPS_MAX, GroupFigures, PartitionFigures, by_group
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.share_state_messages import AckType
from tests.unit.broker.world import virtual
from tests.unit.coordinator.share_state.states import States

pytestmark = pytest.mark.unit

AGE = "bmq_share_group_oldest_unacknowledged_seconds"


def test_what_is_out_is_counted_and_aged_until_it_is_done() -> None:
    async def main() -> None:
        states = States()
        registry = CollectorRegistry()
        states.coordinator.metrics.register(registry)

        def value(name: str, **labels: str) -> float | None:
            return registry.get_sample_value(name, labels)

        await states.initialize(start=0)
        assert (value("bmq_share_partitions"), value(AGE, group="g")) == (1, None)
        await states.acquire("a")
        await asyncio.sleep(10)
        assert value("bmq_share_locked_records") == value("bmq_share_group_locked_records", group="g") == 10
        assert value("bmq_share_locks") == 1
        assert value(AGE, group="g") == pytest.approx(10, abs=1)
        assert await states.acknowledge("a", (0, 0, AckType.ACCEPT), (1, 1, AckType.RELEASE)) == 0
        await asyncio.sleep(5)
        assert value(AGE, group="g") == pytest.approx(5, abs=1), "record 1 is the oldest since then"
        await states.acquire("b", 1)
        assert value("bmq_share_records_redelivered_total") == 1
        assert value("bmq_share_records_acquired_total") == 11
        assert await states.acknowledge("a", (2, 9, AckType.ACCEPT)) == 0
        assert await states.acknowledge("b", (1, 1, AckType.REJECT)) == 0
        assert (value("bmq_share_locked_records"), value(AGE, group="g")) == (0, None)
        writes = value("bmq_share_state_writes_total")
        assert writes == 6 and value("bmq_share_state_writes_failed_total") == 0
        states.log().refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
        assert (await states.acquire("a", batches=[(10, 19)])).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert value("bmq_share_state_writes_failed_total") == 1

    virtual(main)


def test_groups_that_hold_something_up_come_first_and_no_more_than_so_many() -> None:
    figures = [PartitionFigures(f"g{number:03d}", 1, 1, 0, 0, float(number)) for number in range(GROUPS_MAX + 50)]
    figures += [PartitionFigures("idle", 0, 0, 0, 0, 0.0), PartitionFigures("g000", 5, 2, 0, 0, 900.0)]
    found = by_group(figures)
    assert len(found) == GROUPS_MAX
    assert found[0] == GroupFigures("g000", 6, 900.0)
    assert found[1].group_id == f"g{GROUPS_MAX + 49}" and "idle" not in {one.group_id for one in found}
