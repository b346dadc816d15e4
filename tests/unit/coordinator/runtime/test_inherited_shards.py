"""Shards that were another owner's are loaded by themselves: a few at a time, in the order given, each until it is."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from bmq.coordinator.runtime.inherited_shards import InheritedShards
from bmq.coordinator.runtime.shard import Shard
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError

pytestmark = pytest.mark.unit

LOADS_MAX = 2


class Directory:
    """Loads a shard when the test says so: `asked` in order, `loading` those under way."""

    def __init__(self) -> None:
        self.is_closed = False
        self.ready: set[int] = set()
        self.asked: list[int] = []
        self.loading: dict[int, asyncio.Future[None]] = {}

    def is_ready(self, number: int) -> bool:
        return number in self.ready

    async def load(self, number: int, *, is_awaited: bool) -> Shard:
        assert not is_awaited, "no request waits for it"
        self.asked.append(number)
        self.loading[number] = asyncio.get_running_loop().create_future()
        try:
            await self.loading[number]
        finally:
            del self.loading[number]
        self.ready.add(number)
        return None  # type: ignore[return-value]

    async def end(self, number: int, error: Exception | None = None) -> None:
        if error is None:
            self.loading[number].set_result(None)
        else:
            self.loading[number].set_exception(error)
        await turns()


class Own:
    """Shards `inherited` and `owned` by this process."""

    def __init__(self, inherited: list[int], owned: list[int]) -> None:
        self._inherited = inherited
        self._owned = owned

    def owned(self) -> list[int]:
        return self._owned

    def inherited(self) -> list[int]:
        return self._inherited


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def made(directory: Directory, inherited: list[int], owned: tuple[int, ...] = ()) -> InheritedShards:
    # Without a first pause a refused shard is tried again at once.
    own = Own(inherited, list(owned))
    shards = InheritedShards(directory, own, Random(1), loads_max=LOADS_MAX, retry_min_ms=0, retry_max_ms=0)
    shards.changed()
    return shards


async def test_a_few_at_a_time_in_order() -> None:
    directory = Directory()
    made(directory, [7, 3, 9, 1])
    await turns()
    assert directory.asked == [7, 3]
    await directory.end(3)
    assert directory.asked == [7, 3, 9]
    await directory.end(9)
    await directory.end(7)
    await directory.end(1)
    assert directory.asked == [7, 3, 9, 1] and directory.ready == {7, 3, 9, 1}


async def test_what_was_loaded_or_lost_meanwhile_is_not_asked_for() -> None:
    directory, inherited = Directory(), [1, 2, 3, 4, 5]
    made(directory, inherited)
    await turns()
    directory.ready.add(3)
    inherited.remove(4)
    await directory.end(1)
    assert directory.asked == [1, 2, 5]


async def test_one_that_cannot_be_loaded_holds_up_no_other() -> None:
    directory = Directory()
    shards = made(directory, [1, 2, 3])
    await turns()
    await directory.end(1, KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert directory.asked == [1, 2, 3]
    await directory.end(2)
    assert directory.asked == [1, 2, 3, 1]
    directory.is_closed = True
    shards.close()
    await turns()
    assert not directory.loading


async def test_one_that_was_lost_here_is_loaded_again_unless_it_is_another_owners() -> None:
    directory = Directory()
    shards = made(directory, [], owned=(4, 5, 6))
    shards.lost(5)
    shards.lost(7)  # its partition went elsewhere with the same news
    await turns()
    assert directory.asked == [5]
    await directory.end(5)
    directory.ready.remove(5)
    shards.resigned(5)
    shards.changed()
    await turns()
    assert directory.asked == [5]
