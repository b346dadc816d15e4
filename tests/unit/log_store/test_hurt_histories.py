"""The histories with hurt nodes and clients, here with the fake on both sides: they are fair, and reach what matters."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest

from tests.fakes.store import FakeStore
from tests.unit.log_store.hurt_histories import FakeSite, play_hurt

pytestmark = pytest.mark.unit

SEEDS = 60


def test_the_same_history_has_the_same_outcomes() -> None:
    seen: Counter[str] = Counter()

    async def main() -> None:
        for seed in range(SEEDS):
            seen.update(await play_hurt(seed, FakeSite(Random(-seed - 1)), patience_s=10.0))

    asyncio.run(main())
    rare = {
        "append ok", "append refused", "burst ok", "burst refused", "close closed", "close refused", "create 1", "create 2",
        "create 3", "create StorageUnavailable", "die", "hang", "lose", "lengths differ", "list ok", "mend 1", "mend 2",
        "mend 3", "mend StorageUnavailable", "prove ok", "prove refused", "read ok", "read_file ok", "replicas ok",
        "take_over closed", "take_over StorageUnavailable", "write_file ok",
    }  # fmt: skip
    assert not rare - set(seen), seen


async def test_a_difference_is_found() -> None:
    """A store that goes on writing on a node that was restarted."""

    class Forgetful(FakeStore):
        def lose_node(self, name: str, *, is_hung: bool = False) -> None:
            super().lose_node(name, is_hung=True)

    found = 0
    for seed in range(SEEDS):
        careless = FakeSite(Random(seed))
        careless.store.__class__ = Forgetful
        try:
            await play_hurt(seed, careless)
        except AssertionError:
            found += 1
    assert found > SEEDS // 5
