"""The histories that compare the fake with HDFS, here with the fake on both sides: they are fair, and reach what matters."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest

from bmq.log.store import Durability, SegmentStore
from tests.fakes.store import FakeClient, FakeStore
from tests.unit.log_store.rivals import CLIENTS, Players, draw_history

pytestmark = pytest.mark.unit

SEEDS = 60


def clients_of(store: FakeStore) -> list[SegmentStore]:
    return [store.client(f"client-{number}") for number in range(CLIENTS)]


def test_the_same_history_has_the_same_outcomes() -> None:
    seen: Counter[str] = Counter()

    async def main() -> None:
        for seed in range(SEEDS):
            players = Players([clients_of(FakeStore(Random(seed))), clients_of(FakeStore(Random(-seed), node_count=5))])
            await players.play(draw_history(seed))
            seen.update(players.outcomes)

    asyncio.run(main())
    rare = {
        "append ok", "append refused", "burst ok", "burst refused", "claim ok", "close ok", "close refused",
        "create ok", "create AlreadyExists", "create FileMissing", "mend ok", "mend FencedWriter", "prove ok",
        "prove refused", "seal ok", "seal FileMissing",
        "seal AlreadyExists", "take_over ok", "take_over FileMissing", "delete ok", "delete refused", "list ok",
        "read ok", "read CorruptFile", "read_file CorruptFile", "write_file FileMissing", "locate ok",
    }  # fmt: skip
    assert not rare - set(seen), seen


async def test_a_difference_is_found() -> None:
    class Unfenced(FakeClient):
        async def take_over(
            self, path: str, *, previous_holder: str | None, durability: Durability = Durability.HFLUSH
        ) -> int:
            file = self._store.namespace.file(path)
            return len(file.data)

    found = 0
    for seed in range(SEEDS):
        other = FakeStore(Random(seed))
        careless: list[SegmentStore] = [Unfenced(other, "a"), Unfenced(other, "b")]
        try:
            await Players([clients_of(FakeStore(Random(seed))), careless]).play(draw_history(seed))
        except AssertionError:
            found += 1
    assert found > SEEDS // 5
