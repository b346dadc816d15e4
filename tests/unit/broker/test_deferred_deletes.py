"""Files of dropped segments go after their delay, a few at a time and so many a second, whatever the store does."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any, cast

import pytest

from bmq.broker.deferred_deletes import DeferredDeletes
from bmq.log.store import SegmentStore, StorageUnavailable
from tests.unit.broker.world import virtual

pytestmark = pytest.mark.unit


class SlowStore:
    """Deletes after `delay_s`; `began_s`: when each deletion began, in order."""

    def __init__(self, delay_s: float = 0.0) -> None:
        self.delay_s = delay_s
        self.began_s: dict[str, float] = {}
        self.under_way = self.under_way_max = 0
        self.fails: set[str] = set()

    async def delete(self, path: str, *, recursive: bool = False) -> bool:
        self.began_s[path] = asyncio.get_running_loop().time()
        self.under_way += 1
        self.under_way_max = max(self.under_way, self.under_way_max)
        await asyncio.sleep(self.delay_s)
        self.under_way -= 1
        if path in self.fails:
            raise StorageUnavailable(path)
        return True


def paths(count: int) -> list[str]:
    return [f"p/{number}" for number in range(count)]


def trash_over(store: Any, deletions_max: int, deletions_per_s: float) -> DeferredDeletes:
    return DeferredDeletes(cast(SegmentStore, store), deletions_max, deletions_per_s)


def test_thousands_of_files_take_their_time() -> None:
    async def main() -> None:
        store = SlowStore()
        trash = trash_over(store, 4, 200)
        trash.put(paths(2_000), 60)
        begun_s = asyncio.get_running_loop().time()
        await asyncio.sleep(60 + 5)
        assert trash.deleted == pytest.approx(1_000, abs=10)
        await asyncio.sleep(5.1)
        assert trash.deleted == 2_000
        times = [began_s - begun_s for began_s in store.began_s.values()]
        assert times[0] == pytest.approx(60)
        assert all(later - earlier > 0.0049 for earlier, later in pairwise(times))
        await trash.close()

    virtual(main)


def test_a_slow_store_has_no_more_than_a_few_to_do() -> None:
    async def main() -> None:
        store = SlowStore(delay_s=1.0)
        store.fails = {"p/3"}
        trash = trash_over(store, 4, 1_000)
        trash.put(paths(10), 0)
        await asyncio.sleep(10)
        assert store.under_way_max == 4
        assert trash.deleted == 9 and len(store.began_s) == 10
        await trash.close()

    virtual(main)


def test_what_comes_later_waits_for_its_turn_and_the_end_forgets_the_rest() -> None:
    async def main() -> None:
        store = SlowStore()
        trash = trash_over(store, 4, 10)
        trash.put(["a", "b"], 1)
        trash.put(["c"], 0)
        await asyncio.sleep(1.05)
        assert list(store.began_s) == ["c", "a"]
        await trash.close()
        await asyncio.sleep(5)
        assert list(store.began_s) == ["c", "a"]

    virtual(main)
