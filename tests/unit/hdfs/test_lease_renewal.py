"""One task renews the leases of all holders there are, whatever the NameNode answers."""

from __future__ import annotations

import asyncio

import pytest

from bmq.hdfs.lease_renewal import RETRY_S, LeaseRenewal
from bmq.log.store import StorageUnavailable
from tests.fakes.loop_time import LoopTime

pytestmark = pytest.mark.unit

INTERVAL_S = 20.0


class FakeNameNode:
    """`renewed`: holders in the order of their calls; the first `failures` calls fail."""

    def __init__(self, failures: int = 0) -> None:
        self.renewed: list[str] = []
        self.failures = failures

    async def renew_lease(self, holder: str) -> None:
        self.renewed.append(holder)
        if self.failures:
            self.failures -= 1
            raise StorageUnavailable("not now")


async def test_every_holder_is_renewed_until_its_last_file_is_gone(loop_time: LoopTime) -> None:
    namenode = FakeNameNode()
    leases = LeaseRenewal(namenode, INTERVAL_S)
    leases.add("a")
    leases.add("a")
    leases.add("b")
    await loop_time.pass_s(3.1 * INTERVAL_S)
    assert namenode.renewed == ["a", "b"] * 3
    leases.remove("a")
    leases.remove("b")
    namenode.renewed.clear()
    await loop_time.pass_s(3.1 * INTERVAL_S)
    assert namenode.renewed == ["a"] * 3
    leases.remove("a")
    namenode.renewed.clear()
    await loop_time.pass_s(3.1 * INTERVAL_S)
    assert namenode.renewed == []
    assert len(asyncio.all_tasks()) == 1
    leases.add("c")
    await loop_time.pass_s(INTERVAL_S + 0.5)
    assert namenode.renewed == ["c"]
    await leases.close()


async def test_a_failure_is_retried_and_ends_nothing(loop_time: LoopTime) -> None:
    namenode = FakeNameNode(failures=3)
    leases = LeaseRenewal(namenode, INTERVAL_S)
    leases.add("a")
    await loop_time.pass_s(INTERVAL_S + 0.5)
    assert len(namenode.renewed) == 1
    await loop_time.pass_s(3 * RETRY_S)
    assert len(namenode.renewed) == 4
    await loop_time.pass_s(2 * INTERVAL_S)
    assert len(namenode.renewed) == 6
    await leases.close()


async def test_closing_ends_the_task_and_late_removals_do_no_harm(loop_time: LoopTime) -> None:
    namenode = FakeNameNode()
    leases = LeaseRenewal(namenode, INTERVAL_S)
    await leases.close()
    leases.add("a")
    await leases.close()
    assert len(asyncio.all_tasks()) == 1
    leases.remove("a")
    await loop_time.pass_s(3.1 * INTERVAL_S)
    assert namenode.renewed == []
