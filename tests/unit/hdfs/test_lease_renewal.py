"""One task renews the leases of all holders there are, whatever the NameNode answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from bmq.hdfs.lease_renewal import LeaseRenewal
from bmq.log.store import StorageUnavailable

pytestmark = pytest.mark.unit


class FakeNameNode:
    """`renewed`: holders in the order of their calls; the first `failures` calls fail."""

    def __init__(self, failures: int = 0) -> None:
        self.renewed: list[str] = []
        self.failures = failures
        self._news = asyncio.Event()

    async def renew_lease(self, holder: str) -> None:
        self.renewed.append(holder)
        self._news.set()
        if self.failures:
            self.failures -= 1
            raise StorageUnavailable("not now")

    async def until(self, is_so: Callable[[list[str]], bool]) -> None:
        async with asyncio.timeout(5):
            while not is_so(self.renewed):
                self._news.clear()
                await self._news.wait()


async def idle(seconds: float = 0.03) -> None:
    await asyncio.sleep(seconds)


async def test_every_holder_is_renewed_until_its_last_file_is_gone() -> None:
    namenode = FakeNameNode()
    leases = LeaseRenewal(namenode, 0.002)
    leases.add("a")
    leases.add("a")
    leases.add("b")
    await namenode.until(lambda renewed: renewed.count("a") > 2 and renewed.count("b") > 2)
    leases.remove("a")
    leases.remove("b")
    namenode.renewed.clear()
    await namenode.until(lambda renewed: len(renewed) > 3)
    assert set(namenode.renewed[1:]) == {"a"}
    leases.remove("a")
    await idle(0)
    namenode.renewed.clear()
    await idle()
    assert namenode.renewed == []
    assert len(asyncio.all_tasks()) == 1
    leases.add("c")
    await namenode.until(lambda renewed: "c" in renewed)
    await leases.close()


async def test_a_failure_is_retried_and_ends_nothing() -> None:
    namenode = FakeNameNode(failures=3)
    leases = LeaseRenewal(namenode, 0.002)
    leases.add("a")
    await namenode.until(lambda renewed: len(renewed) > 5)
    await leases.close()


async def test_closing_ends_the_task_and_late_removals_do_no_harm() -> None:
    namenode = FakeNameNode()
    leases = LeaseRenewal(namenode, 0.002)
    await leases.close()
    leases.add("a")
    await leases.close()
    assert len(asyncio.all_tasks()) == 1
    leases.remove("a")
    await idle()
    assert namenode.renewed == []
