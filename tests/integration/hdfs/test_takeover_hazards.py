"""What an old owner, another taker or a dying taker can do at the worst moment of a takeover, played on a real HDFS.

The old owner here breaks every rule that only its own good behaviour keeps: it never looks at its directory. What must
hold all the same: the taker's answer is the file's length for good, every acknowledged byte lies below it, every replica
that counts has exactly these bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from random import Random

import psutil
import pytest

from bmq.dev.hdfs import HdfsCluster
from bmq.hdfs.block_stream import BlockStream, Stage
from bmq.hdfs.blocks import DataNode
from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.mending import SegmentMender
from bmq.hdfs.writer import BrokenSegment
from bmq.log.store import CorruptFile, StoreError, WriterBroken
from testing.hdfs import PATIENT, config_of, fresh_root
from tests.support.hdfs_rivals import Client, Segment, append, clients

pytestmark = [pytest.mark.contract, pytest.mark.safety]

CHUNK = 4_096


class Died(Exception):
    """The process ended here."""


async def die() -> None:
    raise Died


async def quietly(deed: object) -> object:
    """What a zombie's step gave, be it an error."""
    try:
        return await deed  # type: ignore[misc]
    except StoreError as error:
        return error


async def unequal(segment: Segment, lengths: Iterable[int]) -> dict[DataNode, BlockStream]:
    """Connected to every node, which hold these many bytes."""
    streams = await segment.connect_each()
    for stream, length_bytes in zip(streams.values(), lengths, strict=True):
        if length_bytes:
            await append(stream, length_bytes)
    return streams


def abort(streams: dict[DataNode, BlockStream]) -> None:
    for stream in streams.values():
        stream.abort()


def broken(segment: Segment, acked_bytes: int) -> BrokenSegment:
    assert segment.located is not None
    return BrokenSegment(
        path=segment.path,
        absolute_path=segment.path,
        file_id=segment.file_id,
        holder=segment.client.name,
        located=segment.located,
        failed=(),
        acked_bytes=acked_bytes,
    )


async def taken_at(
    new: Client, segment: Segment, length_bytes: int, *, nodes: Iterable[DataNode] | None = None
) -> None:
    """The file is closed here, whatever the old owner still tries."""
    await new.check_replicas(segment.path, nodes or segment.nodes, length_bytes)
    if segment.located is not None:
        # Refused, or answered with yes: that means nothing, the next line does.
        await quietly(segment.complete(length_bytes))
        await quietly(segment.complete(length_bytes + 1))
        assert isinstance(
            await quietly(
                segment.client.namenode.add_block(
                    segment.path, holder=segment.client.name, file_id=segment.file_id, previous=segment.block
                )
            ),
            StoreError,
        )
    blocks = await new.blocks(segment.path)
    assert not blocks.is_open
    assert blocks.length_bytes == length_bytes


# --- blocks that were never written


async def test_a_block_never_connected_is_closed_at_0_and_its_late_writer_refused(hdfs_config: HdfsConfig) -> None:
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.allocate(old, f"{hdfs_config.root}/f")
        assert await new.take_over(segment.path, old.name) == 0
        assert "recover_lease" not in new.namenode.called
        with pytest.raises(WriterBroken):
            await segment.connect()
        await new.check_replicas(segment.path, segment.nodes, 0)
        await taken_at(new, segment, 0)


async def test_lease_recovery_lets_a_late_writer_in_whose_bytes_count_for_nothing(hdfs_config: HdfsConfig) -> None:
    """Its acknowledgements and heartbeats are real: only the look at its own directory tells it (rule 7)."""
    root = hdfs_config.root
    async with clients(hdfs_config, "old", "new") as (old, new):
        await new.namenode.make_directory(f"{root}/5.open", with_parents=False)
        segment = await Segment.allocate(old, f"{root}/5.open/f")
        await new.namenode.rename(f"{root}/5.open", f"{root}/5")
        assert await new.take_over(f"{root}/5/f", None) == 0
        await segment.connect()
        assert await segment.append(1_000) == 1_000
        await segment.writing.heartbeat()
        assert await old.namenode.file_info(f"{root}/5.open") is None
        assert (await new.blocks(f"{root}/5/f")).length_bytes == 0
        assert await new.take_over(f"{root}/5/f", old.name) == 0
        segment.abort()


@pytest.mark.parametrize("step", ["bump", "update_pipeline", "complete"])
async def test_the_writer_of_a_block_never_connected_connects_meanwhile(hdfs_config: HdfsConfig, step: str) -> None:
    """`bump` is asked for twice: before the nodes say that they have no replica, and after."""
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.allocate(old, f"{hdfs_config.root}/f")

        async def connect() -> None:
            try:
                await segment.connect()
                await segment.append(5_000)
            except WriterBroken:
                pass

        async def nothing() -> None:
            pass

        new.namenode.before[step] = [nothing, connect] if step == "bump" else [connect]
        length_bytes = await new.take_over(segment.path, old.name)
        assert not new.namenode.before[step]
        assert length_bytes == segment.acked == (5_000 if step == "bump" else 0)
        await taken_at(new, segment, length_bytes)
        segment.abort()


@pytest.mark.parametrize("count", [1, 2])
async def test_a_block_connected_to_some_nodes_only(hdfs_config: HdfsConfig, count: int) -> None:
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.allocate(old, f"{hdfs_config.root}/f")
        assert segment.located is not None
        some = replace(segment, located=segment.located.with_nodes(segment.nodes[:count]))
        await some.connect()
        assert await new.take_over(segment.path, old.name) == 0
        assert "recover_lease" not in new.namenode.called
        with pytest.raises(StoreError):
            await some.append(1)
        await taken_at(new, segment, 0, nodes=segment.nodes[:count])
        some.abort()


# --- files without a block


async def test_an_empty_file_is_closed_and_no_block_can_be_added(hdfs_config: HdfsConfig) -> None:
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.create(old, f"{hdfs_config.root}/f")
        assert await new.take_over(segment.path, old.name) == 0
        assert "recover_lease" not in new.namenode.called
        with pytest.raises(StoreError):
            await old.namenode.add_block(segment.path, holder=old.name, file_id=segment.file_id)
        assert await old.namenode.complete(segment.path, holder=old.name, file_id=segment.file_id, last=None)
        assert await new.take_over(segment.path, old.name) == 0


@pytest.mark.parametrize("is_written", [False, True])
async def test_a_block_is_added_to_an_empty_file_just_before_it_is_completed(
    hdfs_config: HdfsConfig, is_written: bool
) -> None:
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.create(old, f"{hdfs_config.root}/f")

        async def add_block() -> None:
            segment.located = await old.namenode.add_block(segment.path, holder=old.name, file_id=segment.file_id)
            if is_written:
                await segment.connect()
                await segment.append(3_000)

        new.namenode.before["complete"] = [add_block]
        assert await new.take_over(segment.path, old.name) == segment.acked
        await taken_at(new, segment, segment.acked)
        segment.abort()


# --- the old owner closes its file meanwhile


@pytest.mark.parametrize("step", ["bump", "update_pipeline", "complete"])
async def test_the_old_owner_finishes_and_completes_meanwhile(hdfs_config: HdfsConfig, step: str) -> None:
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.open(old, f"{hdfs_config.root}/f", 9_000)

        async def close() -> None:
            if not isinstance(await quietly(segment.writing.finish()), StoreError):
                await quietly(segment.complete(9_000))

        new.namenode.before[step] = [close]
        assert await new.take_over(segment.path, old.name) == 9_000
        await taken_at(new, segment, 9_000)
        segment.abort()


async def test_finalized_everywhere_and_not_completed(hdfs_config: HdfsConfig) -> None:
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.open(old, f"{hdfs_config.root}/f", 9_000)
        await segment.writing.finish()
        assert await new.take_over(segment.path, old.name) == 9_000
        assert "recover_lease" not in new.namenode.called
        assert "update_pipeline" not in new.namenode.called  # no stamp that the old owner's complete() could cross
        await taken_at(new, segment, 9_000)
        last = (await new.blocks(segment.path)).last
        assert last is not None and last.block.generation_stamp == segment.block.generation_stamp


async def test_finalized_everywhere_and_the_old_owner_completes_first(hdfs_config: HdfsConfig) -> None:
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.open(old, f"{hdfs_config.root}/f", 9_000)
        await segment.writing.finish()
        new.namenode.before["complete"] = [lambda: segment.complete(9_000)]
        assert await new.take_over(segment.path, old.name) == 9_000
        await taken_at(new, segment, 9_000)


async def test_a_complete_without_finalized_replicas_is_healed_by_lease_recovery(hdfs_config: HdfsConfig) -> None:
    """No correct writer does this: the block is committed under the old stamp and can be neither renewed nor closed."""
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.open(old, f"{hdfs_config.root}/f", 9_000)
        new.namenode.before["update_pipeline"] = [lambda: segment.complete(9_000)]
        assert await new.take_over(segment.path, old.name) == 9_000
        assert "recover_lease" in new.namenode.called
        last = (await new.blocks(segment.path)).last
        assert last is not None
        await new.check_replicas(segment.path, last.nodes, 9_000)


@pytest.mark.parametrize(
    ("finalized_bytes", "writing_bytes"),
    [(9_000, 9_000), (9_000, 5_000), (8_192, 0), (500_001, 3 * CHUNK)],
)
async def test_some_replicas_are_finalized_and_others_lag(
    hdfs_config: HdfsConfig, finalized_bytes: int, writing_bytes: int
) -> None:
    """The writer died while its last packets were on their way."""
    async with clients(hdfs_config, "old", "new") as (old, new):
        for finalized in (1, 2):
            segment = await Segment.allocate(old, f"{hdfs_config.root}/{finalized}")
            lengths = [finalized_bytes] * finalized + [writing_bytes] * (3 - finalized)
            streams = await unequal(segment, lengths)
            for stream in list(streams.values())[:finalized]:
                await stream.finish()
            assert await new.take_over(segment.path, old.name) == finalized_bytes
            await taken_at(new, segment, finalized_bytes)
            abort(streams)
        assert "recover_lease" not in new.namenode.called


async def test_a_block_committed_before_any_replica_was_reported(hdfs_config: HdfsConfig) -> None:
    """complete() came before the last packet, which only a broken writer does; the taker finds the block committed."""
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.open(old, f"{hdfs_config.root}/f", 9_000)
        assert not await segment.complete(9_000)
        await segment.writing.finish()
        assert await new.take_over(segment.path, old.name) == 9_000
        last = (await new.blocks(segment.path)).last
        assert last is not None
        await new.check_replicas(segment.path, last.nodes, 9_000)


async def test_committed_below_what_the_replicas_have_is_not_completed(hdfs_config: HdfsConfig) -> None:
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.open(old, f"{hdfs_config.root}/f", 9_000)
        assert not await segment.complete(8_000)
        assert await new.take_over(segment.path, old.name) == 9_000
        assert "recover_lease" in new.namenode.called
        last = (await new.blocks(segment.path)).last
        assert last is not None
        await new.check_replicas(segment.path, last.nodes, 9_000)
        segment.abort()


# --- lengths


@pytest.mark.parametrize("seed", range(8))
async def test_unequal_replicas_all_get_the_longest_length(hdfs_config: HdfsConfig, seed: int) -> None:
    """The NameNode lists the nodes in another order each time: a mix-up would fill the wrong ones."""
    random = Random(seed)
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.allocate(old, f"{hdfs_config.root}/f")
        longest = random.choice([1, CHUNK - 1, CHUNK, 10 * CHUNK, 100_001, 2_500_000])
        lengths = [random.randrange(longest + 1), random.randrange(longest + 1), longest]
        random.shuffle(lengths)
        streams = await unequal(segment, lengths)
        assert await new.take_over(segment.path, old.name) == longest
        assert "recover_lease" not in new.namenode.called
        await taken_at(new, segment, longest)
        abort(streams)


async def test_the_length_is_believed_only_when_the_namenode_says_it_again(hdfs_config: HdfsConfig) -> None:
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.open(old, f"{hdfs_config.root}/f", 9_000)
        shorter = await Segment.open(old, f"{hdfs_config.root}/g", 5_000)

        async def swap() -> None:
            # Not possible on one file, as long as nobody abandons blocks; so another file takes its name.
            await old.namenode.rename(segment.path, f"{segment.path}.away")
            await old.namenode.rename(shorter.path, segment.path)

        new.namenode.after["complete"] = [swap]
        with pytest.raises(StoreError, match="another file"):
            await new.take_over(segment.path, old.name)
        segment.abort()
        shorter.abort()


async def test_a_block_that_an_old_owner_abandons_is_missed_although_complete_succeeds(hdfs_config: HdfsConfig) -> None:
    """The NameNode drops the block even though it has a newer stamp by then, and completes the file without it."""
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.open(old, f"{hdfs_config.root}/f", 9_000)

        async def abandon() -> None:
            await old.namenode.abandon_block(segment.path, holder=old.name, block=segment.block)

        new.namenode.before["complete"] = [abandon]
        with pytest.raises(CorruptFile, match="closed at 9000 bytes, the NameNode says 0"):
            await new.take_over(segment.path, old.name)
        segment.abort()


async def test_a_complete_that_lies_is_not_believed(hdfs_config: HdfsConfig) -> None:
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.open(old, f"{hdfs_config.root}/f", 9_000)
        real = new.namenode.complete
        answers = [True]

        async def complete(*args: object, **kwargs: object) -> bool:
            return answers.pop() if answers else await real(*args, **kwargs)  # type: ignore[arg-type]

        object.__setattr__(new.namenode, "complete", complete)
        assert await new.take_over(segment.path, old.name) == 9_000
        await taken_at(new, segment, 9_000)
        segment.abort()


# --- the old owner repairs its file meanwhile


@pytest.mark.parametrize("step", ["bump", "update_pipeline", "complete"])
async def test_the_old_owner_repairs_the_whole_file_meanwhile(hdfs_config: HdfsConfig, step: str) -> None:
    """Its look at its directory came before the rename: here the path is still its own."""
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.open(old, f"{hdfs_config.root}/f", 9_000)

        async def mend() -> None:
            segment.abort()
            length_bytes, _ = await SegmentMender(old.tools).mend(broken(segment, 9_000))
            assert length_bytes == 9_000

        new.namenode.before[step] = [mend]
        assert await new.take_over(segment.path, old.name) == 9_000
        last = (await new.blocks(segment.path)).last
        assert last is not None
        await new.check_replicas(segment.path, last.nodes, 9_000)


@pytest.mark.parametrize("step", ["update_pipeline", "complete"])
@pytest.mark.parametrize("is_longer", [True, False])
async def test_the_old_owner_repairs_onto_the_node_that_was_left_out(
    hdfs_config: HdfsConfig, step: str, is_longer: bool
) -> None:
    """Between the taker's stamp and its complete(), under the same name: it takes the file back, onto one node."""
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.allocate(old, f"{hdfs_config.root}/f")
        streams = await unequal(segment, [5_000, 5_000, 8_000] if is_longer else [8_000, 8_000, 5_000])
        left_out = segment.nodes[2]
        new.bad_nodes.add(left_out)
        steals: list[object] = []

        async def steal() -> None:
            steals.append(await quietly(steal_onto(segment, left_out, 8_000 if is_longer else 5_000)))

        new.namenode.before[step] = [steal]
        length_bytes = await new.take_over(segment.path, old.name)
        assert steals
        if is_longer or step == "update_pipeline":
            assert steals == [None]
        assert length_bytes == 8_000
        last = (await new.blocks(segment.path)).last
        assert last is not None
        if step == "update_pipeline":
            # The nodes it stole the block from hold a prefix, so they are filled up again: three replicas, not one.
            await taken_at(new, segment, 8_000)
        else:
            await taken_at(new, segment, 8_000, nodes=last.nodes)
        abort(streams)


async def steal_onto(segment: Segment, node: DataNode, length_bytes: int) -> None:
    """What an owner does that repairs without looking: a new stamp for its own block, on one node."""
    assert segment.located is not None
    namenode, holder = segment.client.namenode, segment.client.name
    listed = (await namenode.locations(segment.path)).last
    assert listed is not None
    renewed = await namenode.bump(listed.block, holder=holder)
    stream = await BlockStream.open(
        segment.located.with_nodes((node,)),
        holder=holder,
        config=segment.client.config,
        stage=Stage.PIPELINE_SETUP_STREAMING_RECOVERY,
        new_stamp=renewed.block.generation_stamp,
        bytes_most=1 << 50,
        is_fanout=True,
    )
    try:
        new = renewed.block.with_length(length_bytes)
        await namenode.update_pipeline(holder=holder, old=listed.block, new=new, nodes=(node,))
    finally:
        stream.abort()


async def test_a_node_that_was_left_out_goes_on_answering_and_that_means_nothing(hdfs_config: HdfsConfig) -> None:
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.allocate(old, f"{hdfs_config.root}/f")
        streams = await unequal(segment, [5_000, 5_000, 5_000])
        left_out = segment.nodes[2]
        new.bad_nodes.add(left_out)
        assert await new.take_over(segment.path, old.name) == 5_000
        await streams[left_out].heartbeat()
        assert await append(streams[left_out], 100) == 5_100
        for node in segment.nodes[:2]:
            with pytest.raises(StoreError):
                await streams[node].heartbeat()
        await taken_at(new, segment, 5_000, nodes=segment.nodes[:2])
        abort(streams)


# --- several takers


async def test_takers_at_once_agree(hdfs_config: HdfsConfig) -> None:
    """A finalized replica takes any higher stamp. Given one while a rival completes the file, it would be corrupt."""
    async with clients(hdfs_config, "old", "new", "newer", "newest") as (old, *takers):
        for number in range(12):
            segment = await Segment.open(old, f"{hdfs_config.root}/{number}", 20_000 + number)
            writing = asyncio.create_task(segment.append_until_broken(10_007))
            async with asyncio.timeout(60):
                lengths = await asyncio.gather(*(taker.take_over(segment.path, old.name) for taker in takers))
                await writing
            assert len(set(lengths)) == 1
            assert lengths[0] >= segment.acked
            last = (await takers[0].blocks(segment.path)).last
            assert last is not None
            await takers[0].check_replicas(segment.path, last.nodes, lengths[0])


@pytest.mark.parametrize("is_sync", [False, True])
async def test_a_rival_completes_the_file_on_finalized_replicas_before_they_get_our_stamp(
    hdfs_config: HdfsConfig, is_sync: bool
) -> None:
    """The rival left out the replica that we hold, so holding it does not keep the rival from completing the file.

    Given our stamp before the NameNode knows it, the finalized replicas would be corrupt, and they are all that count.
    """
    async with clients(hdfs_config, "old", "new", "rival") as (old, new, rival):
        segment = await Segment.allocate(old, f"{hdfs_config.root}/f")
        streams = await unequal(segment, [9_000] * 3)
        *finalized, held = segment.nodes
        for node in finalized:
            await streams[node].finish()
        rival.bad_nodes.add(held)
        lengths: list[int] = []

        async def nothing() -> None:
            pass

        async def complete() -> None:
            lengths.append(await rival.take_over(segment.path, old.name))

        # Two refusals show that the replicas are finalized; the third stamp is the one that all of them would get.
        new.namenode.after["bump"] = [nothing, nothing, complete]
        assert await new.take_over(segment.path, old.name, is_sync=is_sync) == 9_000
        assert lengths == [9_000]
        assert "recover_lease" not in new.namenode.called
        await taken_at(new, segment, 9_000, nodes=finalized)
        abort(streams)


STEPS = ["bump", "update_pipeline", "complete"]
UNEQUAL_BYTES = [9_000, 2_000, 5_000]


async def in_state(segment: Segment, state: str) -> dict[DataNode, BlockStream]:
    """9,000 bytes on at least one node, or nothing when the block was never connected."""
    if state == "never connected":
        return {}
    streams = await unequal(segment, UNEQUAL_BYTES if state == "unequal" else [9_000] * 3)
    for stream in list(streams.values())[: {"finalized": 3, "half finalized": 2}.get(state, 0)]:
        await stream.finish()
    return streams


STATES = ["writing", "unequal", "finalized", "half finalized", "never connected"]


@pytest.mark.parametrize("state", STATES)
async def test_takers_at_once_agree_on_what_a_dead_owner_left(hdfs_config: HdfsConfig, state: str) -> None:
    random = Random(state)
    async with clients(hdfs_config, "old", "new", "newer") as (old, *takers):
        for number in range(8):
            segment = await Segment.allocate(old, f"{hdfs_config.root}/{number}")
            streams = await in_state(segment, state)

            async def take(taker: Client, delay_s: float, path: str = segment.path) -> int:
                await asyncio.sleep(delay_s)
                return await taker.take_over(path, old.name)

            async with asyncio.timeout(60):
                lengths = await asyncio.gather(*(take(taker, 0.03 * random.random()) for taker in takers))
            last = (await takers[0].blocks(segment.path)).last
            is_recovered = any("recover_lease" in taker.namenode.called for taker in takers)
            if last is None:
                # Lease recovery removes a block that no DataNode has.
                assert state == "never connected" and is_recovered
                assert lengths == [0, 0]
                continue
            expected = {0 if state == "never connected" else 9_000}
            if state == "unequal":
                # A DataNode may refuse the replica of an interrupted writer: it is left out, and the longest of the others
                # counts, which all have what was acknowledged. A rival may have filled them up from it before.
                assert len(last.nodes) >= 2
                sizes = dict(zip(streams, UNEQUAL_BYTES, strict=True))
                expected = {max(sizes[node] for node in last.nodes), max(UNEQUAL_BYTES)}
                if is_recovered:
                    # Lease recovery closes at the shortest of replicas that were being written: what was acknowledged.
                    expected |= {2_000, 5_000, 9_000}
            assert len(set(lengths)) == 1
            assert set(lengths) <= expected
            await takers[0].check_replicas(segment.path, last.nodes, lengths[0])
            abort(streams)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("is_done", [False, True])
async def test_a_taker_that_dies_is_followed_by_another(
    hdfs_config: HdfsConfig, state: str, step: str, is_done: bool
) -> None:
    """At every step, before it and after it."""
    async with clients(hdfs_config, "old", "new", "newer") as (old, new, newer):
        segment = await Segment.allocate(old, f"{hdfs_config.root}/f")
        streams = await in_state(segment, state)
        expected = 0 if state == "never connected" else 9_000
        deeds = new.namenode.after if is_done else new.namenode.before
        deeds[step] = [die]
        with pytest.raises(Died):
            await new.take_over(segment.path, old.name)
            assert state == "finalized" and step == "update_pipeline"  # not needed then
            raise Died
        assert await newer.take_over(segment.path, old.name) == expected
        assert "recover_lease" not in newer.namenode.called
        last = (await newer.blocks(segment.path)).last
        assert last is not None
        await taken_at(newer, segment, expected, nodes=last.nodes)
        abort(streams)


async def test_a_failed_try_leaves_nothing_behind_that_breaks_the_next(hdfs_config: HdfsConfig) -> None:
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.open(old, f"{hdfs_config.root}/f", 9_000)

        async def fail() -> None:
            raise WriterBroken("as if a rival had interfered")

        new.namenode.before["update_pipeline"] = [fail, fail]
        new.namenode.before["complete"] = [fail]
        assert await new.take_over(segment.path, old.name) == 9_000
        assert "recover_lease" not in new.namenode.called
        await taken_at(new, segment, 9_000)
        segment.abort()


async def test_a_failed_try_closes_its_connections_before_the_next_begins(
    hdfs: HdfsCluster, hdfs_config: HdfsConfig
) -> None:
    """Else its own connection, cut by its own next stamp, would look like a rival's doing."""
    ports = {address.port for address in hdfs.datanodes}
    counts: list[int] = []

    async def count() -> None:
        connections = psutil.Process().net_connections("tcp")
        counts.append(sum(1 for c in connections if c.raddr and c.raddr.port in ports and c.status == "ESTABLISHED"))

    async def fail() -> None:
        await count()
        raise WriterBroken("as if a rival had interfered")

    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.open(old, f"{hdfs_config.root}/f", 9_000)
        segment.abort()
        new.namenode.before["update_pipeline"] = [fail, fail]
        new.namenode.before["bump"] = [count, count, count]
        assert await new.take_over(segment.path, old.name) == 9_000
        assert counts == [0, 3, 0, 3, 0]


async def test_after_too_many_failed_tries_the_lease_is_recovered(hdfs_config: HdfsConfig) -> None:
    async with clients(hdfs_config, "old", "new") as (old, new):
        segment = await Segment.open(old, f"{hdfs_config.root}/f", 9_000)

        async def fail() -> None:
            raise WriterBroken("as if a rival had interfered")

        new.namenode.before["update_pipeline"] = [fail] * 100
        assert await new.take_over(segment.path, old.name) == 9_000
        assert "recover_lease" in new.namenode.called
        last = (await new.blocks(segment.path)).last
        assert last is not None
        await new.check_replicas(segment.path, last.nodes, 9_000)


async def test_an_owner_that_writes_on_repairs_and_is_taken_over_at_random_times(hdfs_config: HdfsConfig) -> None:
    """Method: an owner that obeys rule 7 (its repair looks first) and a taker that renames first, with random pauses.

    What the owner was acknowledged, or read from its repair and then confirmed by a look, is in the file for good.
    """
    root = hdfs_config.root
    async with clients(hdfs_config, "new") as (new,):
        for seed in range(25):
            random = Random(seed)
            async with clients(hdfs_config, f"old{seed}") as (old,):
                await new.namenode.make_directory(f"{root}/{seed}.open", with_parents=False)
                segment = await Segment.open(old, f"{root}/{seed}.open/f", random.randrange(20_000))
                acked = segment.acked

                async def own(
                    segment: Segment = segment, old: Client = old, random: Random = random, acked: int = acked
                ) -> int:
                    for _ in range(random.randrange(5)):
                        try:
                            acked = await segment.append(random.randrange(1, 9_000))
                        except StoreError:
                            break
                    await asyncio.sleep(random.choice([0, 0.002, 0.02]) * random.random())
                    segment.abort()
                    try:
                        length_bytes, replicas = await SegmentMender(old.tools).mend(broken(segment, acked))
                    except StoreError:
                        return acked
                    assert replicas >= 1
                    assert length_bytes >= acked
                    return length_bytes

                async def take(seed: int = seed, random: Random = random, old: Client = old) -> int:
                    await asyncio.sleep(random.choice([0, 0.01, 0.05]) * random.random())
                    await new.namenode.rename(f"{root}/{seed}.open", f"{root}/{seed}")
                    return await new.take_over(f"{root}/{seed}/f", old.name)

                async with asyncio.timeout(60):
                    acked, length_bytes = await asyncio.gather(own(), take())
                assert length_bytes >= acked
                last = (await new.blocks(f"{root}/{seed}/f")).last
                assert last is not None and last.nodes
                await new.check_replicas(f"{root}/{seed}/f", last.nodes, length_bytes)


# --- what shows only later


@pytest.mark.hurt
async def test_nothing_is_corrupt_when_all_datanodes_have_reported_everything_again(own_hdfs: HdfsCluster) -> None:
    """A length that is not the replicas', or a stamp, looks healthy until the next full block report.

    Method: many ways to leave a block, takers at once among them; then restart the DataNodes, which report everything.
    """
    config = config_of(own_hdfs, fresh_root("reported"), **PATIENT)  # type: ignore[arg-type]
    async with clients(config, "own", "new", "newer") as (own, new, newer):
        closed: dict[str, int] = {}
        for number in range(24):
            name = f"{config.root}/{number}"
            if number % 4 == 0:
                segment = await Segment.allocate(own, name)
                abort(await unequal(segment, [5_000 + number, 9_000, 4_096]))
            else:
                segment = await Segment.open(own, name, 9_000)
            if number % 4 == 2:
                await segment.writing.finish()
            writing = asyncio.create_task(segment.append_until_broken()) if number % 4 in (1, 3) else None
            if number % 4 == 3:
                lengths = await asyncio.gather(new.take_over(name, own.name), newer.take_over(name, own.name))
                assert len(set(lengths)) == 1
                closed[name] = lengths[0]
            else:
                closed[name] = await new.take_over(name, own.name)
            if writing is not None:
                await writing
        for index in range(3):
            await own_hdfs.datanode(index).restart()
        await own_hdfs.wait_live(3)
        for name, length_bytes in closed.items():
            last = (await new.blocks(name)).last
            assert last is not None
            assert last.nodes
            await new.check_replicas(name, last.nodes, length_bytes)
