"""Rule 25 at a partition's owner: a state that is not whole takes the partition offline, until an operator decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest

from bmq.broker.partition_offline import PartitionOffline
from bmq.broker.runtime import PartitionRuntime
from bmq.controller.partition_reports import OFFLINE
from bmq.coordinator.topics import OFFSETS_TOPIC
from bmq.log.damage import StateDamaged, accept
from bmq.log.damage_report import accepted_losses, report_damage
from bmq.log.names import partition_directory
from bmq.log.partition_log import PartitionLog, TopicPartition
from bmq.log.state_log import StateLog
from bmq.log.store import CorruptFile
from bmq.membership.load_reports import LoadReports
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import batches
from tests.fakes.store import FakeStore
from tests.unit.broker.world import CONFIG, KEY, Owner, World, append, batch_of, read_all, virtual
from tests.unit.coordinator.cluster import Cluster

pytestmark = pytest.mark.unit

OFFSETS_ID = UUID(int=8)
SHARDS = 4
SMALL = replace(CONFIG, segment_bytes=2048)
PARTITION = partition_directory(KEY)


def missing(store: FakeStore, path: str) -> None:
    store.namespace.delete(path, recursive=False)


def flipped(store: FakeStore, path: str) -> None:
    store.flip_bit(path, len(store.files()[path]) // 2)


def cut_short(store: FakeStore, path: str) -> None:
    data = store.namespace.file(path).data
    del data[len(data) // 2 :]


Harm = Callable[[FakeStore, str], None]
HARMS = [missing, flipped, cut_short]


class State:
    """A small state machine over a log."""

    def __init__(self, world: World, log: PartitionLog) -> None:
        self.values: dict[bytes | None, bytes | None] = {}
        self.log = StateLog(log, world.clock)  # type: ignore[arg-type]

    async def replay(self) -> State:
        await self.log.replay(self.values.__setitem__, self._take)
        return self

    def _take(self, data: bytes) -> None:
        self.values.update(pair.split(b"=") for pair in data.split(b"|"))  # type: ignore[misc]

    async def save(self) -> None:
        await self.log.save_snapshot(
            lambda: b"|".join(b"%b=%b" % (key or b"", value or b"") for key, value in self.values.items()), force=True
        )


async def state_with_a_snapshot(world: World) -> tuple[PartitionRuntime, State, str]:
    """Its records below the snapshot are gone from the log, but for those of the open segment; the snapshot's path."""
    owner = world.owner(SMALL)
    log = await owner.log()
    state = await State(world, log).replay()
    for number in range(40):
        await state.log.append([(b"offset-%d" % number, b"x" * 100)])
    await asyncio.sleep(1)  # indexes follow in the background
    await state.save()
    for number in range(40, 43):
        await state.log.append([(b"offset-%d" % number, b"x" * 100)])
    assert log.log_start_offset > 0
    owner.kill()
    (path,) = (path for path in world.store.files() if "snapshot" in path)
    return log, state, path


def sealed(path: str) -> str:
    return path.replace(".open/", "/")


@pytest.mark.parametrize("harm", HARMS)
def test_a_lost_snapshot_takes_the_partition_offline(harm: Harm) -> None:
    async def main() -> None:
        world = World()
        before, state, path = await state_with_a_snapshot(world)
        harm(world.store, path)
        owner = world.owner(SMALL, floor=before.high_watermark)
        log = await owner.log()
        with pytest.raises(StateDamaged, match=r"snapshot\.00000000 is (missing|damaged)") as found:
            await State(world, log).replay()
        assert log.state_name == "offline"
        assert (await append(log, batch_of(b"x"))).error_code is ErrorCode.KAFKA_STORAGE_ERROR
        with pytest.raises(PartitionOffline, match="bmq log accept-loss"):
            await owner.log()
        (report,) = LoadReports(owner.manager).changed()
        assert report.high_watermark == OFFLINE  # so an operator may name it in an unclean election
        # A new leader epoch alone changes nothing; the operator's decision does, and everything that is left is there.
        assert owner.manager.leader_epoch(KEY) is not None
        with pytest.raises(StateDamaged):
            await State(world, await next_leader(world, owner)).replay()
        await accept(world.store.client("operator"), found.value.damage, holder="operator", now_ms=1)
        log = await next_leader(world, owner)
        again = await State(world, log).replay()
        assert again.log.has_gap
        left = {b"offset-%d" % number for number in range(log.log_start_offset, 43)}
        assert set(again.values) == left and len(left) < len(state.values)

    virtual(main)


@pytest.mark.parametrize("records_per_batch", [1, 2])
@pytest.mark.parametrize("bit", [1, 2, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("batch_index", [0, 1, 2, 3])
def test_a_batch_that_is_not_where_it_should_be_is_not_passed_over(
    batch_index: int, bit: int, records_per_batch: int
) -> None:
    """A batch's checksum does not cover its own offset. A replay without it would give a state that is not whole."""

    async def main() -> None:
        world = World()
        log = await world.owner(SMALL).log()
        state = await State(world, log).replay()
        for number in range(16):
            await state.log.append([(b"%d-%d" % (number, n), b"x" * 200) for n in range(records_per_batch)])
        await asyncio.sleep(1)  # indexes follow in the background
        files = log.inspect().files
        extent = files.extents[1] if files else None
        assert extent is not None
        data = world.store.namespace.file(log.inspect().paths.segment(extent.leader_epoch, extent.roll)).data
        starts = [position for position, _ in batches(bytes(data))]
        data[starts[batch_index] + 7] ^= bit
        log.inspect().tail.clear()
        with pytest.raises((KafkaError, CorruptFile), match="offset"):
            await State(world, log).replay()

    virtual(main)


async def next_leader(world: World, owner: Owner) -> PartitionRuntime:
    world.leader_epoch += 1
    owner.manager.assign(KEY, world.leader_epoch, "topic", SMALL)
    return await owner.log()


def test_a_snapshot_that_can_be_read_again_costs_a_moment() -> None:
    async def main() -> None:
        world = World()
        before, state, path = await state_with_a_snapshot(world)
        flipped(world.store, path)
        log = await world.owner(SMALL, floor=before.high_watermark).log()
        asyncio.get_running_loop().call_later(0.7, flipped, world.store, sealed(path))
        again = await State(world, log).replay()
        assert again.values == state.values and log.state_name == "writing"

    virtual(main)


@pytest.mark.parametrize("harm", [flipped])
def test_a_damaged_manifest_takes_the_partition_offline(harm: Harm) -> None:
    """Also an ordinary partition: an older manifest would bring deleted records back, or name files that are gone."""

    async def main() -> None:
        world = World()
        log = await world.owner(SMALL).log()
        for number in range(40):
            await append(log, batch_of(b"%d" % number * 50))
        await asyncio.sleep(1)
        await log.delete_records(30)
        world.owners[-1].kill()
        path = max(path for path in world.store.files() if "manifest" in path)
        harm(world.store, path)
        owner = world.owner(SMALL, floor=log.high_watermark)
        with pytest.raises(PartitionOffline, match=r"manifest\.\d+ is damaged"):
            await owner.log()
        report = await report_damage(world.store.client("x"), PARTITION, is_state=False)
        assert [damage.name for damage in report.damages] == [f"00000001.{path.rpartition('/')[2]}"]
        await accept(world.store.client("operator"), report.damages[0], holder="operator", now_ms=1)
        assert await accepted_losses(world.store.client("x"), PARTITION) == (report.damages[0].name,)
        again = await world.owner(SMALL, floor=log.high_watermark).log()
        assert (report.log_start_offset, report.end_offset) == (again.log_start_offset, again.high_watermark)
        assert [offset for offset, _ in await read_all(again)] == list(range(again.log_start_offset, 40))

    virtual(main)


def test_who_was_replaced_reports_no_damage() -> None:
    """A newer owner's retention deletes what an older one reads: that one is fenced, nothing is lost."""

    async def main() -> None:
        world = World()
        before, _, path = await state_with_a_snapshot(world)
        owner = world.owner(SMALL, floor=before.high_watermark)
        log = await owner.log()
        await world.owner(SMALL, floor=before.high_watermark).log()
        missing(world.store, sealed(path))
        with pytest.raises(KafkaError) as refused:
            await State(world, log).replay()
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER and log.state_name == "fenced"

    virtual(main)


def test_a_dry_run_says_what_is_left_and_changes_nothing() -> None:
    async def main() -> None:
        world = World()
        before, _, path = await state_with_a_snapshot(world)
        flipped(world.store, path)
        files = world.store.files()
        report = await report_damage(world.store.client("x"), PARTITION, is_state=True)
        assert [damage.name for damage in report.damages] == ["00000001.snapshot.00000000"]
        assert (report.log_start_offset, report.end_offset) == (before.log_start_offset, before.high_watermark)
        assert report.snapshot is None
        assert world.store.files() == files
        flipped(world.store, path)
        report = await report_damage(world.store.client("x"), PARTITION, is_state=True)
        assert report.damages == () and report.snapshot is not None

    virtual(main)


class Shards:
    """The shards of the group coordinator, over the partition manager of one process."""

    def __init__(self, owner: Owner, leader_epoch: int) -> None:
        self._owner = owner
        for number in range(SHARDS):
            owner.manager.assign(TopicPartition(OFFSETS_ID, number), leader_epoch, "__consumer_offsets", SMALL)

    def partition_count(self) -> int:
        return SHARDS

    def owned(self) -> range:
        return range(SHARDS)

    def inherited(self) -> range:
        return range(SHARDS)

    async def open(self, shard: int, *, is_awaited: bool) -> PartitionLog:
        return await self._owner.manager.leader_of(TopicPartition(OFFSETS_ID, shard))

    def ask(self, shard: int) -> None:
        """Opening a shard takes no turn here."""


def test_one_damaged_group_shard_harms_no_other() -> None:
    async def main() -> None:
        world, groups = World(), Cluster(shard_count=SHARDS)
        groups.topics.add(OFFSETS_TOPIC, OFFSETS_ID.int)
        owner = world.owner(SMALL)
        groups.shards = Shards(owner, 1)  # type: ignore[assignment]
        coordinator = groups.restart()
        harmed = coordinator.directory.number_of("g")
        other = next(f"h{number}" for number in range(99) if coordinator.directory.number_of(f"h{number}") != harmed)
        for number in range(60):
            await groups.commit("g", {("t", 0): number})
            await groups.commit(other, {("t", 0): number})
        await asyncio.sleep(1)
        for shard in coordinator.directory.ready.values():
            await shard.save_snapshot(force=True)
        owner.kill()
        directory = partition_directory(TopicPartition(OFFSETS_ID, harmed))
        (path,) = (path for path in world.store.files() if path.startswith(directory) and "snapshot" in path)
        flipped(world.store, path)

        groups.shards = Shards(world.owner(SMALL), 2)  # type: ignore[assignment]
        groups.restart()
        assert await groups.fetch(other, "t", 0) == (0, 59)
        for _ in range(2):
            # Consumers before 3.9 retry an OffsetFetch after this code only, as in Kafka.
            assert await groups.fetch("g", "t", 0) == (ErrorCode.NOT_COORDINATOR, -1)
        assert await groups.commit("g", {("t", 0): 1}) == {("t", 0): ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert (await groups.join("g")).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await groups.commit(other, {("t", 0): 60}) == {("t", 0): 0}
        report = await report_damage(world.store.client("x"), directory, is_state=True)
        await accept(world.store.client("operator"), report.damages[0], holder="operator", now_ms=1)
        groups.shards = Shards(world.owner(SMALL), 3)  # type: ignore[assignment]
        groups.restart()
        assert (await groups.fetch("g", "t", 0))[0] == 0
        assert await groups.fetch(other, "t", 0) == (0, 60)

    virtual(main)
