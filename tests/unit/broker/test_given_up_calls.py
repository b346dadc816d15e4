"""What an owner gave up may still happen: rules 20, 21 and 24 against a store that carries calls out late."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmq.broker.partition_states import Fenced, Idle, Writing
from bmq.broker.runtime import PartitionRuntime
from bmq.log.names import partition_directory
from bmq.log.partition_log import StateSnapshot
from bmq.log.store import FencedWriter, SegmentWriter, StorageUnavailable
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from tests.support.given_up import GivenUp, LateCalls
from tests.unit.broker.world import CONFIG, KEY, Owner, World, append, batch_of, produce, read_from_store, virtual

pytestmark = pytest.mark.unit


def segments_of(world: World) -> list[str]:
    return sorted(path.rpartition("/")[2] for path in world.store.files() if path.endswith(".log"))


class Deposed:
    """An owner whose mkdirs was given up, and the owner after it. `carry_out` makes the first one's directory again."""

    def __init__(
        self, world: World, first: Owner, log: PartitionRuntime, second: Owner, log2: PartitionRuntime
    ) -> None:
        self.world, self.first, self.log, self.second, self.log2 = world, first, log, second, log2

    @classmethod
    async def make(cls, world: World, *, is_idle: bool = False, **config: Any) -> Deposed:
        """With one record of each owner in the log. `is_idle`: the first one has no segment open when it is replaced."""
        settings = replace(CONFIG, segment_idle_close_ms=1000, **config) if is_idle else replace(CONFIG, **config)
        first = world.owner(settings)
        log = await first.log()
        await produce(log, b"one")
        if is_idle:
            await asyncio.sleep(5)
            assert isinstance(log.state, Idle)
        first.client.pause()
        second = world.owner(settings)
        log2 = await second.log()
        await produce(log2, b"two")
        first.client.resume()
        return cls(world, first, log, second, log2)

    def carry_out(self) -> None:
        self.world.store.namespace.make_directory(self.log.inspect().paths.own, with_parents=False)


@pytest.mark.parametrize("is_idle", [False, True])
def test_a_directory_that_is_made_again_late_does_not_make_an_owner(is_idle: bool) -> None:
    """Rule 20: both owners would acknowledge offset 1."""

    async def main() -> None:
        deposed = await Deposed.make(World(), is_idle=is_idle)
        deposed.carry_out()
        results = [await append(deposed.log, batch_of(b"zombie"))]
        await asyncio.sleep(2)
        results.append(await append(deposed.log, batch_of(b"zombie")))
        assert {result.error_code for result in results} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
        assert isinstance(deposed.log.state, Fenced)
        assert await produce(deposed.log2, b"three") == 2
        assert [value for _, value in await read_from_store(deposed.world.owner())] == [b"one", b"two", b"three"]

    virtual(main)


def test_a_proof_without_an_open_segment_compares_the_directory() -> None:
    async def main() -> None:
        deposed = await Deposed.make(World(), is_idle=True)
        deposed.carry_out()
        with pytest.raises(FencedWriter):
            await deposed.log.prove_ownership()
        assert isinstance(deposed.log.state, Fenced)

    virtual(main)


@pytest.mark.parametrize("action", ["delete_records", "save_snapshot"])
def test_a_manifest_in_another_directory_changes_nothing(action: str) -> None:
    """Rule 20: DeleteRecords is answered after a look; and the files that such a manifest leaves out stay there."""

    async def main() -> None:
        world = World()
        settings: dict[str, Any] = {"segment_bytes": 200, "file_delete_delay_ms": 0}
        first = world.owner(replace(CONFIG, **settings))
        log = await first.log()
        for number in range(6):
            await produce(log, b"%d" % number)
        await asyncio.sleep(1)
        first.client.pause()
        second = world.owner(replace(CONFIG, **settings))
        await second.log()
        first.client.resume()
        deposed = Deposed(world, first, log, second, await second.log())
        deposed.carry_out()
        before = set(segments_of(world))
        with pytest.raises(KafkaError) as raised:
            if action == "delete_records":
                await log.delete_records(4)
            else:
                await log.save_snapshot(StateSnapshot(4, b"state"))
        assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        await asyncio.sleep(5)
        assert before <= set(segments_of(world))
        assert [value for _, value in await read_from_store(second)] == [b"%d" % number for number in range(6)]

    virtual(main)


def test_a_look_that_fails_after_the_manifest_keeps_delete_records_unanswered() -> None:
    async def main() -> None:
        owner = World().owner()
        log = await owner.log()
        await produce(log, b"one")
        await produce(log, b"two")
        GivenUp(owner.client, "prove")
        with pytest.raises(KafkaError) as raised:
            await log.delete_records(1)
        assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert log.log_start_offset == 0
        assert await log.delete_records(1) == 1

    virtual(main)


class FailingOpening:
    """`create_segment` as HDFS does it on a bad day: the file is made, its block is not, and the clean-up is given up.

    That may happen `count` times. `clean_up` carries the deletions out.
    """

    def __init__(self, world: World, owner: Owner, count: int = 1) -> None:
        self.world, self.count = world, count
        self.paths: list[str] = []
        self._create = owner.client.create_segment
        owner.client.create_segment = self  # type: ignore[method-assign,assignment]

    async def __call__(self, path: str, **options: Any) -> SegmentWriter:
        if len(self.paths) == self.count:
            return await self._create(path, **options)
        self.paths.append(path)
        self.world.store.namespace.create(path, options["holder"])
        raise StorageUnavailable("no block; the deletion of the file got no answer")

    def clean_up(self) -> None:
        for path in self.paths:
            self.world.store.namespace.delete(path, recursive=False)


@pytest.mark.parametrize("count", [1, 3])
def test_a_late_clean_up_of_a_first_segment_takes_nothing(count: int) -> None:
    """Rule 21: it would remove acknowledged batches."""

    async def main() -> None:
        world = World()
        owner = world.owner()
        opening = FailingOpening(world, owner, count)
        log = await owner.log()
        for number in range(5):
            assert await produce(log, b"%d" % number) == number
        opening.clean_up()
        assert await produce(log, b"5") == 5
        owner.kill()
        expected = [b"%d" % number for number in range(6)]
        assert [value for _, value in await read_from_store(world.owner())] == expected

    virtual(main)


@pytest.mark.parametrize("is_idle", [False, True])
def test_a_late_clean_up_of_a_later_segment_takes_nothing(is_idle: bool) -> None:
    """The next segment of one that is full, and the first one after a rest."""

    async def main() -> None:
        world = World()
        settings = {"segment_idle_close_ms": 1000} if is_idle else {"segment_bytes": 200}
        owner = world.owner(replace(CONFIG, **settings))  # type: ignore[arg-type]
        log = await owner.log()
        await produce(log, b"0")
        opening = FailingOpening(world, owner, 2)
        for number in range(1, 6):
            assert await produce(log, b"%d" % number) == number
            await asyncio.sleep(3)
        assert len(set(opening.paths)) == 2
        opening.clean_up()
        assert await produce(log, b"6") == 6
        owner.kill()
        expected = [b"%d" % number for number in range(7)]
        assert [value for _, value in await read_from_store(world.owner())] == expected

    virtual(main)


def test_a_late_creation_of_a_segment_takes_nothing() -> None:
    """It makes an empty file beside the segment that was opened instead; the next owner passes it over."""

    async def main() -> None:
        world = World()
        owner = world.owner()
        given_up = GivenUp(owner.client, "create_segment", count=2)
        log = await owner.log()
        await produce(log, b"one")
        await given_up.carry_out()
        await produce(log, b"two")
        assert segments_of(world) == ["00000000.log", "00000001.log", "00000002.log"]
        owner.kill()
        successor = world.owner()
        assert [value for _, value in await read_from_store(successor)] == [b"one", b"two"]

    virtual(main)


def test_a_segment_that_was_opened_without_a_look_is_removed() -> None:
    """A node that holds a block reserves room for it, so it is not left open; and its roll is not used again."""

    async def main() -> None:
        world = World()
        owner = world.owner(replace(CONFIG, segment_idle_close_ms=1000))
        log = await owner.log()
        await produce(log, b"one")
        await asyncio.sleep(5)
        GivenUp(owner.client, "prove", count=2)
        await produce(log, b"two")
        await asyncio.sleep(0.1)
        assert segments_of(world) == ["00000000.log", "00000003.log"]
        assert isinstance(log.state, Writing) and log.state.segment.roll == 3

    virtual(main)


def test_a_late_deletion_of_a_segment_without_a_batch_takes_nothing() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(replace(CONFIG, segment_idle_close_ms=1000))
        log = await owner.log()
        given_up = GivenUp(owner.client, "delete", ".log")
        await asyncio.sleep(5)
        assert isinstance(log.state, Idle) and given_up.held_count
        await produce(log, b"one")
        await given_up.carry_out()
        await produce(log, b"two")
        owner.kill()
        assert [value for _, value in await read_from_store(world.owner())] == [b"one", b"two"]

    virtual(main)


def test_a_process_does_not_start_the_same_epoch_twice() -> None:
    """Rule 24: the second start would remove the first one's segment. It is fenced, and asks for a new epoch by that."""

    async def main() -> None:
        world = World()
        owner = world.owner()
        log = await owner.log()
        for number in range(3):
            await produce(log, b"%d" % number)
        owner.client.pause()
        await owner.manager.unassign(KEY)  # ends without having sealed the directory
        owner.client.resume()
        await asyncio.sleep(1)
        owner.manager.assign(KEY, 1, "topic", CONFIG)
        with pytest.raises(KafkaError) as raised:
            await owner.log()
        assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert [runtime.state_name for runtime in owner.manager.unserved()] == ["fenced"]
        owner.manager.assign(KEY, 2, "topic", CONFIG)
        assert [value for _, value in await read_from_store(owner)] == [b"0", b"1", b"2"]
        await produce(await owner.log(), b"3")
        world.leader_epoch = 2
        owner.kill()
        assert [value for _, value in await read_from_store(world.owner())] == [b"0", b"1", b"2", b"3"]

    virtual(main)


@pytest.mark.parametrize(
    "method", ["make_directory", "write_file", "list_directory", "rename", "create_segment", "prove"]
)
def test_a_start_goes_on_when_calls_are_given_up(method: str) -> None:
    async def main() -> None:
        world = World()
        first = world.owner()
        log = await first.log()
        await produce(log, b"one")
        first.kill()
        owner = world.owner()
        given_up = GivenUp(owner.client, method, count=2)
        log = await owner.log()
        await produce(log, b"two")
        assert not given_up.count
        await given_up.carry_out()
        await produce(log, b"three")
        owner.kill()
        assert [value for _, value in await read_from_store(world.owner())] == [b"one", b"two", b"three"]

    virtual(main)


CHANGES = ("make_directory", "make_directories", "write_file", "create_segment", "rename", "delete")


@settings(max_examples=12)
@given(seed=st.integers(0, 10_000), rate=st.sampled_from([0.1, 0.3, 0.5]), is_idle=st.booleans())
def test_whatever_is_carried_out_late_an_acknowledged_record_is_kept_in_its_place(
    seed: int, rate: float, is_idle: bool
) -> None:
    """Three owners, each replaced while it stands still, and all of them go on producing and deleting records."""

    async def main() -> None:
        world, random = World(seed), Random(seed)
        config = replace(CONFIG, segment_bytes=300, segment_idle_close_ms=500 if is_idle else 600_000)
        acknowledged: dict[int, bytes] = {}
        log_start_offset = 0
        logs: list[PartitionRuntime] = []
        late: list[LateCalls] = []
        for epoch in range(1, 4):
            owner = world.owner(config)
            late.append(LateCalls(owner.client, CHANGES, random, rate=rate))
            log = None
            while log is None:
                try:
                    log = await owner.log()
                except KafkaError as error:
                    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR  # it goes on trying
            logs.append(log)
            for number in range(12):
                value = b"%d/%d" % (epoch, number)
                results = [(value, append(log, batch_of(value)))]
                results += [(b"zombie", append(each, batch_of(b"zombie"))) for each in logs[:-1]]
                for value, result in [(value, await result) for value, result in results]:
                    if result.error_code is ErrorCode.NONE:
                        assert result.base_offset not in acknowledged, "two owners acknowledged one offset"
                        acknowledged[result.base_offset] = value
                if number % 5 == 4:
                    try:
                        log_start_offset = await log.delete_records(random.randint(0, log.high_watermark))
                    except KafkaError as error:
                        assert error.code in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.OFFSET_OUT_OF_RANGE)
                await asyncio.sleep(random.uniform(0.0, 2.0))
            if epoch < 3:
                owner.client.pause()
                asyncio.get_running_loop().call_later(random.uniform(0.1, 5.0), owner.client.resume)
        assert any(each.given_up for each in late)
        for each in late:
            each.rate = 0.0
        await asyncio.sleep(10)
        last = world.owner(config)
        found = dict(await read_from_store(last))
        assert (await last.log()).log_start_offset >= log_start_offset
        kept = {
            offset: value for offset, value in acknowledged.items() if offset >= (await last.log()).log_start_offset
        }
        assert kept.items() <= found.items()

    virtual(main)


def test_a_name_left_open_behind_an_unfinished_manifest_holds_no_start_up() -> None:
    """Epoch 2 claimed late: epoch 3 had listed the partition, and began its manifest. Another owner sealed 2 and died.

    Nobody looks for open files behind a manifest, but the walk of the log goes on behind an unfinished one.
    """

    async def main() -> None:
        world = World()
        first = world.owner()
        await produce(await first.log(), b"one")
        await first.manager.unassign(KEY)
        partition = partition_directory(KEY)
        world.store.put_file(f"{partition}/00000002/owner.late", b"", is_open=True, holder="late")
        world.store.put_file(f"{partition}/00000003/owner.early", b"")
        world.store.put_file(f"{partition}/00000003/manifest.00000000", b"")
        world.leader_epoch = 3
        async with asyncio.timeout(10):
            owner = world.owner()
            assert await produce(await owner.log(), b"two") == 1
        assert not [path for path in world.open_files() if "/00000002/" in path]
        assert [value for _, value in await read_from_store(owner)] == [b"one", b"two"]

    virtual(main)
