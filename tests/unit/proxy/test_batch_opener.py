"""Small batches are opened at once, others away from the event loop, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from bmq.proxy.batch_opener import OPENED_AT_ONCE_BYTES_MAX, BatchOpener

pytestmark = pytest.mark.unit

GZIP = 1


class Aside:
    """Runs nothing before `gate` is set. `most`: so many functions were run at the same time."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.running = self.most = self.count = 0

    async def __call__(self, work: Callable[[], Any]) -> Any:
        self.running += 1
        self.count += 1
        self.most = max(self.most, self.running)
        try:
            await self.gate.wait()
            return work()
        finally:
            self.running -= 1


async def test_a_small_plain_batch_is_opened_at_once() -> None:
    aside = Aside()
    assert await BatchOpener(aside).open(0, OPENED_AT_ONCE_BYTES_MAX, lambda: "found") == "found"
    assert not aside.count


@pytest.mark.parametrize(("attributes", "size_bytes"), [(GZIP, 100), (0, OPENED_AT_ONCE_BYTES_MAX + 1)])
async def test_others_are_opened_one_at_a_time(attributes: int, size_bytes: int) -> None:
    aside = Aside()
    opener = BatchOpener(aside)
    opening = [asyncio.ensure_future(opener.open(attributes, size_bytes, lambda n=n: n)) for n in range(3)]  # type: ignore[misc]
    await asyncio.sleep(0)
    aside.gate.set()
    assert await asyncio.gather(*opening) == [0, 1, 2]
    assert (aside.count, aside.most) == (3, 1)


async def test_what_was_found_meanwhile_is_not_opened_again() -> None:
    aside = Aside()
    opener, found = BatchOpener(aside), dict[str, str]()

    def opened() -> str:
        found["key"] = "hashes"
        return "hashes"

    opening = [asyncio.ensure_future(opener.open(GZIP, 1, opened, lambda: found.get("key"))) for _ in range(3)]
    await asyncio.sleep(0)
    aside.gate.set()
    assert await asyncio.gather(*opening) == ["hashes"] * 3
    assert aside.count == 1


async def test_an_error_leaves_the_turn_to_the_next() -> None:
    aside = Aside()
    aside.gate.set()
    opener = BatchOpener(aside)

    def damaged() -> str:
        raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        await opener.open(GZIP, 1, damaged)
    assert await opener.open(GZIP, 1, lambda: "found") == "found"
