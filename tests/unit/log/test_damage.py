"""Rule 25: what a log depends on is whole, or its loss is reported and waits for an operator. Each damage, each place."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from bmq.log.damage import StateDamaged, accept
from bmq.log.manifest import Manifest
from bmq.log.names import PartitionPaths
from bmq.log.partition_log import StateSnapshot
from bmq.log.store import CorruptFile, FileMissing, SegmentStore, StorageUnavailable
from tests.fakes.store import FakeClient, FakeStore
from tests.unit.broker.world import virtual
from tests.unit.log.owned_log import PARTITION, Owner, batch_of

pytestmark = pytest.mark.unit

FIRST = PartitionPaths(PARTITION, 1)
OPERATOR = "operator"


class FlakyStore:
    """Passes everything on, but fails the first reads of one file, as a store does whose good replica is away."""

    def __init__(self, client: FakeClient, path: str, failures: list[Exception]) -> None:
        self._client = client
        self._path = path
        self.failures = failures

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def read_file(self, path: str, *, length_bytes_max: int) -> bytes:
        if path == self._path and self.failures:
            raise self.failures.pop(0)
        return await self._client.read_file(path, length_bytes_max=length_bytes_max)


Harm = Callable[[FakeStore, str], None]


def missing(fake: FakeStore, path: str) -> None:
    fake.namespace.delete(path, recursive=False)


def flipped(fake: FakeStore, path: str) -> None:
    fake.flip_bit(path, len(fake.files()[path]) // 2)


def cut_short(fake: FakeStore, path: str) -> None:
    data = fake.namespace.file(path).data
    del data[len(data) // 2 :]


def grown(fake: FakeStore, path: str) -> None:
    fake.namespace.file(path).data += b"\0"


async def written(fake: FakeStore, segments: list[int]) -> Owner:
    """Epoch 1: as many batches of two records as told in each segment, all closed and indexed."""
    owner = await Owner(fake.client("a"), 1).start()
    for count in segments:
        for _ in range(count):
            await owner.produce(batch_of(2))
        await owner.roll_segment()
    return owner


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    virtual(main)


# --- the newest manifest


@pytest.mark.parametrize("harm", [flipped, grown])
def test_a_damaged_newest_manifest_is_not_replaced_by_an_older_one(harm: Harm) -> None:
    """The older one knows nothing of the records that were deleted on demand since."""

    async def main() -> None:
        fake = FakeStore()
        old = await written(fake, [2, 2, 2])
        await old.files.write_manifest()
        await old.files.advance_log_start(5)
        harm(fake, FIRST.manifest(2))
        with pytest.raises(
            StateDamaged, match=r"00000001/manifest\.00000002 is damaged .*bmq log accept-loss"
        ) as found:
            await Owner(fake.client("b"), 2).start()
        # It stays so for whoever comes next, until an operator accepts it by name.
        with pytest.raises(StateDamaged):
            await Owner(fake.client("c"), 3).start()
        await accept(fake.client("x"), found.value.damage, holder=OPERATOR, now_ms=1)
        owner = await Owner(fake.client("d"), 4).start()
        assert (owner.recovered.log_start_offset, owner.recovered.end_offset) == (0, 12)
        assert await owner.read_all() == b"".join(old.acknowledged)

    run(main)


def test_the_only_manifest_of_an_epoch_is_damaged() -> None:
    """What the epoch before it wrote is found again by its own manifest, once the loss is accepted."""

    async def main() -> None:
        fake = FakeStore()
        old = await written(fake, [2])
        new = await Owner(fake.client("b"), 2).start()
        await new.produce(batch_of(2))
        flipped(fake, new.paths.manifest(0))
        with pytest.raises(StateDamaged, match=r"00000002/manifest\.00000000 is damaged") as found:
            await Owner(fake.client("c"), 3).start()
        await accept(fake.client("x"), found.value.damage, holder=OPERATOR, now_ms=1)
        owner = await Owner(fake.client("d"), 4).start()
        assert await owner.read_all() == b"".join(old.acknowledged + new.acknowledged)

    run(main)


def test_records_without_any_manifest_wait_for_an_operator() -> None:
    async def main() -> None:
        fake = FakeStore()
        old = await written(fake, [2])
        missing(fake, FIRST.manifest(0))
        with pytest.raises(StateDamaged, match="00000001/manifest is missing, and there are records") as found:
            await Owner(fake.client("b"), 2).start()
        await accept(fake.client("x"), found.value.damage, holder=OPERATOR, now_ms=1)
        owner = await Owner(fake.client("c"), 3).start()
        assert await owner.read_all() == b"".join(old.acknowledged)

    run(main)


@pytest.mark.parametrize("length", [0, 5, 30, 200])
def test_a_manifest_that_was_never_finished_is_passed_over(length: int) -> None:
    """Its writer died over it, so nothing was done on the strength of it: the one before it is exact."""

    async def main() -> None:
        fake = FakeStore()
        old = await written(fake, [2, 2])
        await old.files.write_manifest()
        half = old.files.manifest().encode()
        assert length < len(half)
        fake.put_file(old.paths.manifest(2), half[:length], is_open=True, holder=old.holder)
        owner = await Owner(fake.client("b"), 2).start()
        assert await owner.read_all() == b"".join(old.acknowledged)

    run(main)


def test_a_manifest_that_was_cut_short_after_files_were_deleted_is_damage() -> None:
    """It must have been whole once: files that the one before it names are deleted on the strength of it only."""

    async def main() -> None:
        fake = FakeStore()
        old = await written(fake, [2, 2, 2])
        await old.files.write_manifest()
        for path in await old.files.advance_log_start(5):
            missing(fake, path)
        cut_short(fake, FIRST.manifest(2))
        with pytest.raises(StateDamaged, match=r"manifest\.00000002 is cut short, and .*00000000\.log") as found:
            await Owner(fake.client("b"), 2).start()
        await accept(fake.client("x"), found.value.damage, holder=OPERATOR, now_ms=1)
        owner = await Owner(fake.client("c"), 3).start()
        assert (owner.recovered.log_start_offset, owner.recovered.end_offset) == (4, 12)
        assert await owner.read_all() == b"".join(old.acknowledged[2:])

    run(main)


def test_what_is_behind_a_gap_is_kept_once_the_loss_is_accepted() -> None:
    """The newest records and the end of the log are worth more than the oldest."""

    async def main() -> None:
        fake = FakeStore()
        old = await Owner(fake.client("a"), 1).start()
        for _ in range(3):
            await old.produce(batch_of(2))
            await old.roll_segment()
        await old.files.write_manifest()  # names segments 0 to 2
        for _ in range(2):
            await old.produce(batch_of(2))
            await old.roll_segment()
        for path in await old.files.advance_log_start(8):
            missing(fake, path)
        flipped(fake, FIRST.manifest(2))
        with pytest.raises(StateDamaged) as found:
            await Owner(fake.client("b"), 2).start()
        await accept(fake.client("x"), found.value.damage, holder=OPERATOR, now_ms=1)
        owner = await Owner(fake.client("c"), 3).start()
        assert (owner.recovered.log_start_offset, owner.recovered.end_offset) == (8, 10)
        assert await owner.read_all() == old.acknowledged[4]

    run(main)


def test_a_manifest_of_another_epoch_is_damage() -> None:
    async def main() -> None:
        fake = FakeStore()
        old = await written(fake, [2])
        fake.put_file(f"{old.paths.own}/manifest.00000009", Manifest(7, 0, 0, 0).encode())
        with pytest.raises(StateDamaged, match="it is of epoch 7"):
            await Owner(fake.client("b"), 2).start()

    run(main)


@pytest.mark.parametrize("error", [FileMissing, CorruptFile])
def test_a_manifest_that_can_be_read_again_is_no_damage(error: type[Exception]) -> None:
    async def main() -> None:
        fake = FakeStore()
        old = await written(fake, [2])
        path = f"{PARTITION}/00000001/manifest.00000000"
        store = FlakyStore(fake.client("b"), path, [error("once"), error("twice")])
        owner = await Owner(_as_store(store), 2).start()
        assert store.failures == []
        assert await owner.read_all() == b"".join(old.acknowledged)

    run(main)


def test_a_store_that_is_away_says_nothing_about_damage() -> None:
    async def main() -> None:
        fake = FakeStore()
        await written(fake, [2])
        path = f"{PARTITION}/00000001/manifest.00000000"
        store = FlakyStore(fake.client("b"), path, [StorageUnavailable("away")])
        with pytest.raises(StorageUnavailable):
            await Owner(_as_store(store), 2).start()

    run(main)


# --- snapshots


@pytest.mark.parametrize("harm", [missing, flipped, cut_short, grown])
def test_a_snapshot_whose_records_are_gone_is_not_done_without(harm: Harm) -> None:
    async def main() -> None:
        fake = FakeStore()
        old = await written(fake, [2, 2])
        await old.files.save_snapshot(StateSnapshot(6, b"the state so far"))
        assert old.files.log_start_offset == 4
        harm(fake, FIRST.snapshot(1, 0))
        owner = await Owner(fake.client("b"), 2).start()
        with pytest.raises(StateDamaged, match=r"00000001/snapshot\.00000000 is (missing|damaged)") as found:
            await owner.files.latest_snapshot(8)
        await accept(fake.client("x"), found.value.damage, holder=OPERATOR, now_ms=1)
        assert await owner.files.latest_snapshot(8) is None

    run(main)


@pytest.mark.parametrize("harm", [missing, flipped, cut_short, grown])
def test_a_snapshot_is_done_without_while_the_log_has_everything(harm: Harm) -> None:
    async def main() -> None:
        fake = FakeStore()
        old = await written(fake, [2, 2])
        await old.files.save_snapshot(StateSnapshot(3, b"the state so far"))
        assert old.files.log_start_offset == 0
        harm(fake, FIRST.snapshot(1, 0))
        owner = await Owner(fake.client("b"), 2).start()
        assert await owner.files.latest_snapshot(8) is None

    run(main)


@pytest.mark.parametrize("error", [FileMissing, CorruptFile])
def test_a_snapshot_that_can_be_read_again_is_no_damage(error: type[Exception]) -> None:
    async def main() -> None:
        fake = FakeStore()
        old = await written(fake, [2, 2])
        await old.files.save_snapshot(StateSnapshot(6, b"the state so far"))
        path = f"{PARTITION}/00000001/snapshot.00000000"
        store = FlakyStore(fake.client("b"), path, [error("once"), error("twice"), error("three times")])
        owner = await Owner(_as_store(store), 2).start()
        assert await owner.files.latest_snapshot(8) == StateSnapshot(6, b"the state so far")

    run(main)


def test_a_state_whose_records_were_deleted_without_a_snapshot_is_not_whole() -> None:
    async def main() -> None:
        fake = FakeStore()
        owner = await written(fake, [2, 2])
        await owner.files.save_snapshot(StateSnapshot(3, b"the state so far"))
        await owner.files.advance_log_start(5)
        with pytest.raises(
            StateDamaged, match="begins at offset 5, but the state before it is known only up to 3"
        ) as found:
            await owner.files.latest_snapshot(8)
        await accept(fake.client("x"), found.value.damage, holder=OPERATOR, now_ms=1)
        assert await owner.files.latest_snapshot(8) == StateSnapshot(3, b"the state so far")

    run(main)


def test_a_snapshot_stands_for_records_that_the_log_lost_behind_its_end() -> None:
    """It was synced, and made of durable records; the segment's tail was only in memory."""

    async def main() -> None:
        fake = FakeStore()
        old = await written(fake, [2])
        await old.produce(batch_of(2))
        await old.files.save_snapshot(StateSnapshot(6, b"the state so far"))
        segment = fake.namespace.file(old.paths.segment(1, 1))
        del segment.data[:]
        segment.synced_bytes = 0
        owner = await Owner(fake.client("b"), 2).start()
        assert (owner.recovered.log_start_offset, owner.recovered.end_offset) == (6, 6)
        assert await owner.files.latest_snapshot(6) == StateSnapshot(6, b"the state so far")

    run(main)


def _as_store(store: FlakyStore) -> SegmentStore:
    return store
