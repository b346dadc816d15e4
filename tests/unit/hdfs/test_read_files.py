"""BlockReader against DataNodes that are slow, silent, gone, short or wrong: the right bytes, or one clear error in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from random import Random

import pytest
import structlog

from bmq.hdfs.bad_nodes import BadNodes
from bmq.hdfs.config import Address, HdfsConfig
from bmq.hdfs.hedge import FIRST_DELAY_S, SAVED_UP_MAX
from bmq.hdfs.proto.transfer_pb2 import ChecksumType
from bmq.hdfs.read_counts import ReadCounts
from bmq.hdfs.reader import READS_AT_ONCE_MAX, BlockReader
from bmq.log.store import CorruptFile, FileMissing, StorageUnavailable
from tests.fakes.loop_time import LoopTime
from tests.support.waiting import until
from tests.unit.hdfs.reading_datanode import (
    Behaviour,
    FakeLengths,
    FakeNameNode,
    ReadingDataNode,
    closed_file,
    datanodes,
    located,
    open_file,
)

pytestmark = [pytest.mark.unit, pytest.mark.timeout(20), pytest.mark.usefixtures("loop_time")]

CONTENT = Random(3).randbytes(300_000)
PATH = "/test/file"
FILE_ID = 42
# Tests move the time by these.
CONFIG = HdfsConfig(
    namenodes=(Address("127.0.0.1", 1),),
    root="/test",
    user="test",
    connect_timeout_s=10.0,
    read_timeout_s=60.0,
    hedge_least_s=60.0,
    idle_connection_s=60.0,
)
HEDGED_S = 0.02


def silent() -> Behaviour:
    return Behaviour(gate=asyncio.Event())


def corrupt(pieces: list[bytes]) -> list[bytes]:
    """The last byte of the first packet's data is another one."""
    wrong = bytearray(pieces[1])
    wrong[-1] ^= 0x40
    return [pieces[0], bytes(wrong), *pieces[2:]]


@dataclass
class Setup:
    nodes: list[ReadingDataNode]
    namenode: FakeNameNode
    lengths: FakeLengths
    bad_nodes: BadNodes
    counts: ReadCounts
    reader: BlockReader

    async def read(self, position: int = 0, length_bytes: int = 1000, path: str = PATH) -> bytes:
        data = await self.reader.read(path, file_id=FILE_ID, position=position, length_bytes=length_bytes)
        assert len(data) == length_bytes
        return bytes(data)

    def requests(self) -> list[int]:
        return [len(node.requests) for node in self.nodes]

    @property
    def silence_s(self) -> float:
        """After so long without a byte another DataNode is asked."""
        return self.reader._replicas.silence_s


@asynccontextmanager
async def setup(count: int = 3, reads_at_once_max: int = READS_AT_ONCE_MAX, **settings: float) -> AsyncIterator[Setup]:
    """DataNodes with block 7 = CONTENT, which is all of the file PATH. Afterwards no connection may be left."""
    config = replace(CONFIG, **settings)  # type: ignore[arg-type]
    async with datanodes(count, b7=CONTENT) as nodes:
        namenode, lengths, bad_nodes, counts = FakeNameNode(), FakeLengths(), BadNodes(60.0), ReadCounts()
        namenode.files[PATH] = (FILE_ID, closed_file(located(nodes, length_bytes=len(CONTENT))))
        reader = BlockReader(
            namenode, lengths, config, bad_nodes, Random(1), counts, reads_at_once_max=reads_at_once_max
        )
        try:
            yield Setup(nodes, namenode, lengths, bad_nodes, counts, reader)
        finally:
            reader.close()
            for node in nodes:
                await node.until(lambda node: node.open_count == 0)


# --- the usual


@pytest.mark.parametrize(
    ("position", "length_bytes"), [(0, 1), (1000, 70_000), (len(CONTENT) - 1, 1), (0, len(CONTENT)), (4096, 4096)]
)
@pytest.mark.parametrize("checksum_type", [ChecksumType.CHECKSUM_CRC32, ChecksumType.CHECKSUM_CRC32C])
async def test_exactly_the_range_is_read(position: int, length_bytes: int, checksum_type: int) -> None:
    async with setup() as s:
        s.nodes[0].checksum_type = checksum_type
        s.nodes[0].chunk_bytes = 512
        assert await s.read(position, length_bytes) == CONTENT[position : position + length_bytes]
        assert s.requests() == [1, 0, 0]
        assert s.counts == ReadCounts(reads=1, bytes=length_bytes, connections_opened=1)


async def test_an_empty_range_asks_nobody() -> None:
    async with setup() as s:
        assert await s.read(5, 0) == b""
        assert s.requests() == [0, 0, 0]


async def test_the_next_read_uses_the_same_connection_and_no_namenode() -> None:
    async with setup() as s:
        await s.read()
        s.namenode.is_down = True
        assert await s.read(2000, 3000) == CONTENT[2000:5000]
        assert s.nodes[0].connection_count == 1
        assert s.namenode.look_count == 1
        s.reader.forget(FILE_ID)
        with pytest.raises(StorageUnavailable):
            await s.read()


async def test_a_range_over_several_blocks_is_put_together() -> None:
    async with setup() as s:
        for node in s.nodes:
            node.replicas = {7: CONTENT[:1000], 8: CONTENT[1000:1007], 9: CONTENT[1007:20_000]}
        blocks = [
            located(s.nodes, block_id=7, length_bytes=1000),
            located(s.nodes, block_id=8, length_bytes=7, offset=1000),
            located(s.nodes, block_id=9, length_bytes=18_993, offset=1007),
        ]
        s.namenode.files[PATH] = (FILE_ID, closed_file(*blocks))
        assert await s.read(990, 10_000) == CONTENT[990:10_990]


async def test_read_all_gives_a_closed_file_within_its_bound() -> None:
    async with setup() as s:
        assert await s.reader.read_all(PATH, length_bytes_max=len(CONTENT)) == CONTENT
        with pytest.raises(CorruptFile, match="at most 299999"):
            await s.reader.read_all(PATH, length_bytes_max=len(CONTENT) - 1)
        with pytest.raises(FileMissing):
            await s.reader.read_all("/test/other", length_bytes_max=10)


async def test_read_replica_asks_that_one_only() -> None:
    async with setup() as s:
        block = located(s.nodes, length_bytes=0)
        got = await s.reader.read_replica(
            block, s.nodes[2].node, position=100, length_bytes=5000, visible_bytes=len(CONTENT)
        )
        assert isinstance(got, bytearray)
        assert bytes(got) == CONTENT[100:5100]
        s.nodes[2].behaviour = Behaviour(rewrite=corrupt)
        with pytest.raises(CorruptFile):
            await s.reader.read_replica(block, s.nodes[2].node, position=0, length_bytes=50, visible_bytes=1000)
        s.nodes[2].behaviour = Behaviour(refuse="no")
        with pytest.raises(StorageUnavailable, match="no"):
            await s.reader.read_replica(block, s.nodes[2].node, position=0, length_bytes=50, visible_bytes=1000)
        assert s.requests() == [0, 0, 3]
        assert s.nodes[2].requests[0].header.base_header.block.num_bytes == len(CONTENT)


# --- names


async def test_a_name_that_is_gone_or_another_files_is_missing() -> None:
    async with setup() as s:
        with pytest.raises(FileMissing):
            await s.read(path="/test/gone")
        s.namenode.files[PATH] = (43, closed_file(located(s.nodes, length_bytes=len(CONTENT))))
        with pytest.raises(FileMissing, match="is file 43 now, not 42"):
            await s.read()
        assert s.requests() == [0, 0, 0]


async def test_a_file_known_by_its_id_is_read_under_any_name() -> None:
    async with setup() as s:
        await s.read()
        assert await s.read(path="/test/sealed/file") == CONTENT[:1000]


async def test_reading_past_the_end_is_corrupt_and_asks_no_datanode() -> None:
    async with setup() as s:
        with pytest.raises(CorruptFile, match="ends at byte 300000, 2 bytes were wanted from byte 299999"):
            await s.read(len(CONTENT) - 1, 2)
        assert s.namenode.look_count == 1
        assert s.requests() == [0, 0, 0]


async def test_a_file_that_grew_a_block_since_the_last_look_is_read() -> None:
    async with setup() as s:
        for node in s.nodes:
            node.replicas = {7: CONTENT[:1000], 8: CONTENT[1000:]}
        first = located(s.nodes, block_id=7, length_bytes=1000)
        second = located(s.nodes, block_id=8, length_bytes=len(CONTENT) - 1000, offset=1000)
        s.namenode.files[PATH] = (FILE_ID, closed_file(first))
        assert await s.read(0, 1000) == CONTENT[:1000]
        s.namenode.files[PATH] = (FILE_ID, closed_file(first, second))
        assert await s.read(500, 1000) == CONTENT[500:1500]
        assert s.counts.refreshes == 1


# --- replicas that fail


async def test_wrong_bytes_are_read_from_another_replica_and_reported() -> None:
    async with setup() as s:
        s.nodes[0].behaviour = Behaviour(rewrite=corrupt)
        with structlog.testing.capture_logs() as logs:
            assert await s.read() == CONTENT[:1000]
        assert [line["event"] for line in logs] == ["replica_corrupt"]
        assert logs[0]["datanode"] == str(s.nodes[0].node.transfer)
        assert (s.counts.checksum_errors, s.counts.failovers, s.counts.refreshes) == (1, 1, 0)
        assert s.requests() == [1, 1, 0]


async def test_wrong_bytes_everywhere_are_corrupt_for_that_range_only() -> None:
    async with setup() as s:
        for node in s.nodes:
            node.behaviours = [Behaviour(rewrite=corrupt)]
        with pytest.raises(CorruptFile, match="cannot be read from any replica"):
            await s.read()
        assert s.requests() == [1, 1, 1], "a replica known to be corrupt was asked again"
        assert s.counts.checksum_errors == 3
        assert await s.read(10_000, 10) == CONTENT[10_000:10_010]


async def test_wrong_bytes_and_a_silent_replica_are_not_yet_corrupt(loop_time: LoopTime) -> None:
    """Who did not answer may have the right ones."""
    async with setup(count=2) as s:
        s.nodes[0].behaviour = Behaviour(rewrite=corrupt)
        s.nodes[1].behaviour = silent()
        reading = asyncio.create_task(s.read())
        await s.nodes[1].until(lambda node: bool(node.requests))
        await loop_time.pass_s(CONFIG.read_timeout_s + 1)  # what the first one sent earned some
        with pytest.raises(StorageUnavailable):
            await reading


async def test_replicas_added_since_the_last_look_are_found() -> None:
    async with setup() as s:
        s.namenode.files[PATH] = (FILE_ID, closed_file(located(s.nodes[:1], length_bytes=len(CONTENT))))
        s.nodes[0].behaviour = Behaviour(rewrite=corrupt)

        def heal() -> None:
            if s.namenode.look_count == 2:
                healed = located(s.nodes[:2], length_bytes=len(CONTENT))
                s.namenode.files[PATH] = (FILE_ID, closed_file(healed))

        s.namenode.on_look = heal
        assert await s.read() == CONTENT[:1000]
        assert s.requests() == [1, 1, 0]
        assert s.counts.refreshes == 1


@pytest.mark.parametrize(
    "behaviour",
    [
        Behaviour(refuse="ReplicaNotFoundException"),
        Behaviour(drop_after=0),
        Behaviour(drop_after=1),
        Behaviour(drop_after=2),
        Behaviour(rewrite=lambda pieces: [b"\xff" * 100]),
    ],
)
async def test_a_failing_replica_is_replaced(behaviour: Behaviour) -> None:
    async with setup() as s:
        s.nodes[0].behaviour = behaviour
        assert await s.read(0, 100_000) == CONTENT[:100_000]
        assert (s.counts.failovers, s.counts.checksum_errors) == (1, 0)
        assert s.requests()[1:] == [1, 0]


async def test_a_replica_that_leaves_bytes_out_is_replaced(loop_time: LoopTime) -> None:
    async with setup() as s:
        s.nodes[0].behaviour = Behaviour(rewrite=lambda pieces: [pieces[0], pieces[1][:100], pieces[2]], stop_after=3)
        reading = asyncio.create_task(s.read(0, 100_000))
        await fall_silent(s, loop_time)
        assert await reading == CONTENT[:100_000]
        assert (s.counts.failovers, s.counts.checksum_errors) == (1, 0)
        assert s.requests()[1:] == [1, 0]


async def test_a_dead_datanode_is_replaced_and_then_asked_last() -> None:
    async with setup() as s:
        dead = located(s.nodes, length_bytes=len(CONTENT))
        await s.nodes[0].stop()
        s.namenode.files[PATH] = (FILE_ID, closed_file(dead))
        assert await s.read() == CONTENT[:1000]
        assert s.bad_nodes.is_bad(dead.nodes[0])
        for _ in range(5):
            await s.read()
        assert s.counts.failovers == 1
        await s.nodes[0].start()


async def test_all_datanodes_dead_is_unavailable_and_names_them() -> None:
    async with setup(count=2) as s:
        block = located(s.nodes, length_bytes=len(CONTENT))
        s.namenode.files[PATH] = (FILE_ID, closed_file(block))
        for node in s.nodes:
            await node.stop()
        with pytest.raises(StorageUnavailable) as raised:
            await s.read()
        for datanode in block.nodes:
            assert str(datanode.transfer) in str(raised.value)
        for node in s.nodes:
            await node.start()


async def test_a_block_without_datanodes_is_unavailable() -> None:
    async with setup() as s:
        s.namenode.files[PATH] = (FILE_ID, closed_file(located([], length_bytes=len(CONTENT))))
        with pytest.raises(StorageUnavailable, match="knows no DataNode"):
            await s.read()


async def test_a_connection_closed_meanwhile_is_no_failover() -> None:
    async with setup() as s:
        await s.read()
        # The request reaches the DataNode on the kept connection and gets no answer, as when both ends act at once.
        s.nodes[0].behaviours = [Behaviour(drop_after=0)]
        assert await s.read() == CONTENT[:1000]
        assert s.requests() == [3, 0, 0]
        assert (s.counts.stale_connections, s.counts.failovers) == (1, 0)


async def test_a_datanode_that_drops_the_new_connection_too_has_failed() -> None:
    async with setup() as s:
        await s.read()
        s.nodes[0].behaviour = Behaviour(drop_after=0)
        assert await s.read() == CONTENT[:1000]
        assert s.requests() == [3, 1, 0]
        assert (s.counts.stale_connections, s.counts.failovers) == (1, 1)


# --- replicas that are late


async def be_late(s: Setup, loop_time: LoopTime, count: int = 1) -> None:
    """The first DataNode has this many requests, and so long that a second one is asked."""
    await s.nodes[0].until(lambda node: len(node.requests) == count)
    await loop_time.pass_s(0.9 * FIRST_DELAY_S)
    assert not s.nodes[1].requests
    await loop_time.pass_s(0.2 * FIRST_DELAY_S)


async def fall_silent(s: Setup, loop_time: LoopTime) -> None:
    """The first DataNode has sent all that it will send, and another one is asked."""
    await s.nodes[0].until(lambda node: node.sent_count == 1)
    while not s.counts.failovers:
        await loop_time.pass_s(s.silence_s)


async def test_a_late_datanode_is_hedged_and_then_spared(loop_time: LoopTime) -> None:
    async with setup(hedge_least_s=HEDGED_S) as s:
        s.nodes[0].behaviour = silent()
        reading = asyncio.create_task(s.read())
        await be_late(s, loop_time)
        assert await reading == CONTENT[:1000]
        assert (s.counts.hedges, s.counts.hedges_won, s.counts.failovers) == (1, 1, 0)
        for _ in range(5):
            await s.read()
        assert s.requests() == [1, 6, 0]
        # Late is not bad: writers go on using it.
        assert not s.bad_nodes.current()
        await s.nodes[0].until(lambda node: node.open_count == 0)


async def test_the_first_datanode_may_still_win(loop_time: LoopTime) -> None:
    async with setup(hedge_least_s=HEDGED_S) as s:
        late = silent()
        s.nodes[0].behaviour = late
        s.nodes[1].behaviour = silent()
        reading = asyncio.create_task(s.read())
        await be_late(s, loop_time)
        await s.nodes[1].until(lambda node: bool(node.requests))
        assert late.gate is not None
        late.gate.set()
        assert await reading == CONTENT[:1000]
        assert (s.counts.hedges, s.counts.hedges_won) == (1, 0)
        await s.nodes[1].until(lambda node: node.open_count == 0)


async def test_a_hedge_that_fails_leaves_the_first_datanode_its_time(loop_time: LoopTime) -> None:
    async with setup(count=2, hedge_least_s=HEDGED_S) as s:
        late = silent()
        s.nodes[0].behaviour = late
        s.nodes[1].behaviour = Behaviour(refuse="no")
        reading = asyncio.create_task(s.read())
        await be_late(s, loop_time)
        await s.nodes[1].until(lambda node: bool(node.requests) and node.open_count == 0)
        assert late.gate is not None
        late.gate.set()
        assert await reading == CONTENT[:1000]


async def test_a_hedge_that_fails_is_replaced_while_the_first_datanode_is_silent(loop_time: LoopTime) -> None:
    async with setup(hedge_least_s=HEDGED_S) as s:
        s.nodes[0].behaviour = silent()
        s.nodes[1].behaviour = Behaviour(refuse="no")
        reading = asyncio.create_task(s.read())
        await be_late(s, loop_time)
        assert await reading == CONTENT[:1000]
        assert s.requests() == [1, 1, 1]


async def test_a_hedge_that_fails_is_not_replaced_once_the_first_datanode_sends(loop_time: LoopTime) -> None:
    async with setup(hedge_least_s=HEDGED_S) as s:
        first, second = silent(), silent()
        first.stop_after = 2
        second.refuse = "no"
        s.nodes[0].behaviour, s.nodes[1].behaviour = first, second
        reading = asyncio.create_task(s.read(0, 200_000))
        await be_late(s, loop_time)
        await s.nodes[1].until(lambda node: bool(node.requests))
        assert first.gate is not None
        assert second.gate is not None
        first.gate.set()
        await s.nodes[0].until(lambda node: node.sent_count == 1)
        for _ in range(20):
            await asyncio.sleep(0)  # what was sent is received
        second.gate.set()
        await s.nodes[1].until(lambda node: node.open_count == 0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert s.requests() == [1, 1, 0]
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading


async def test_without_budget_a_silent_datanode_is_replaced_after_a_while(loop_time: LoopTime) -> None:
    async with setup(hedge_least_s=HEDGED_S) as s:
        while s.reader._replicas.budget.take():
            pass
        s.nodes[0].behaviour = silent()
        reading = asyncio.create_task(s.read())
        await s.nodes[0].until(lambda node: bool(node.requests))
        await loop_time.pass_s(s.silence_s - 0.1)
        assert s.counts.failovers == 0
        await loop_time.pass_s(0.1)
        assert await reading == CONTENT[:1000]
        assert (s.counts.hedges, s.counts.failovers) == (0, 1)
        assert s.bad_nodes.current() == (s.nodes[0].node,)


async def test_hedges_do_not_double_every_read_of_a_slow_cluster(loop_time: LoopTime) -> None:
    async with setup(hedge_least_s=HEDGED_S) as s:
        gates = [silent() for _ in s.nodes]
        for node, behaviour in zip(s.nodes, gates, strict=True):
            node.behaviour = behaviour
        reads = [asyncio.create_task(s.read(index, 100)) for index in range(40)]
        await be_late(s, loop_time, len(reads))
        await s.nodes[1].until(lambda node: len(node.requests) >= int(SAVED_UP_MAX))
        for behaviour in gates:
            assert behaviour.gate is not None
            behaviour.gate.set()
        await asyncio.gather(*reads)
        assert s.counts.hedges <= SAVED_UP_MAX + 0.05 * 40
        assert s.reader._replicas.budget.at_once == 0


async def test_a_transfer_that_stalls_is_taken_over_by_another_replica(loop_time: LoopTime) -> None:
    async with setup() as s:
        s.nodes[0].behaviour = Behaviour(stop_after=2)
        reading = asyncio.create_task(s.read(0, 200_000))
        await fall_silent(s, loop_time)
        assert await reading == CONTENT[:200_000]
        assert s.counts.failovers == 1
        await s.nodes[0].until(lambda node: node.open_count == 0)


async def hang(s: Setup, loop_time: LoopTime, count: int = 1) -> None:
    """One DataNode after the other gets this many requests, until nearly all their time is over."""
    for node in s.nodes:
        await node.until(lambda node: len(node.requests) == count)
        await loop_time.pass_s(s.silence_s)
    await loop_time.pass_s(CONFIG.read_timeout_s - len(s.nodes) * s.silence_s - 0.1)


async def test_hung_datanodes_cost_no_more_than_the_read_timeout(loop_time: LoopTime) -> None:
    async with setup() as s:
        for node in s.nodes:
            node.behaviour = silent()
        reading = asyncio.create_task(s.read())
        await hang(s, loop_time)
        assert not reading.done()
        await loop_time.pass_s(0.1)
        with pytest.raises(StorageUnavailable, match="no answer in time"):
            await reading
        assert s.requests() == [1, 1, 1]
        for node in s.nodes:
            await node.until(lambda node: node.open_count == 0)


async def test_a_cancelled_read_leaves_nothing_behind(loop_time: LoopTime) -> None:
    async with setup(hedge_least_s=HEDGED_S) as s:
        await s.read()
        for node in s.nodes:
            node.behaviour = silent()
        reading = asyncio.create_task(s.read())
        await be_late(s, loop_time, 2)
        await s.nodes[1].until(lambda node: bool(node.requests))
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        for node in s.nodes:
            await node.until(lambda node: node.open_count == 0)
        assert s.reader._replicas.budget.at_once == 0


async def test_reads_wait_for_their_turn_but_not_for_ever(loop_time: LoopTime) -> None:
    async with setup(reads_at_once_max=2) as s:
        for node in s.nodes:
            node.behaviour = silent()
        reads = [asyncio.create_task(s.read()) for _ in range(3)]
        await hang(s, loop_time, 2)
        assert not any(reading.done() for reading in reads)
        await loop_time.pass_s(0.1)
        results = await asyncio.gather(*reads, return_exceptions=True)
        assert all(isinstance(result, StorageUnavailable) for result in results)
        assert "2 reads have been under way" in str(results[2])
        for node in s.nodes:
            node.behaviour = Behaviour()
        assert await asyncio.gather(*(s.read() for _ in range(5))) == [CONTENT[:1000]] * 5


# --- open files


def open_block(s: Setup, lengths: Sequence[int]) -> None:
    """The file is being written; so many bytes of it are on each DataNode."""
    for node, length_bytes in zip(s.nodes, lengths, strict=True):
        node.replicas = {7: CONTENT[:length_bytes]}
        s.lengths.lengths[node.name] = length_bytes
    s.namenode.files[PATH] = (FILE_ID, open_file(located(s.nodes, length_bytes=0)))


async def test_an_open_file_is_read_and_its_length_asked_for_once() -> None:
    async with setup() as s:
        open_block(s, [20_000] * 3)
        assert await s.read(0, 20_000) == CONTENT[:20_000]
        assert await s.read(5000, 10) == CONTENT[5000:5010]
        assert s.lengths.asked == ["uuid-0"]
        assert s.nodes[0].requests[1].header.base_header.block.num_bytes == 5010
        open_block(s, [30_000] * 3)
        assert await s.read(25_000, 5000) == CONTENT[25_000:30_000]
        assert s.lengths.asked == ["uuid-0", "uuid-0"]
        assert s.counts.refreshes == 0


async def test_a_replica_that_lags_behind_is_not_asked_for_what_it_has_not() -> None:
    async with setup() as s:
        open_block(s, [10_000, 20_000, 20_000])
        assert await s.read(15_000, 5000) == CONTENT[15_000:20_000]
        assert s.requests() == [0, 1, 0]


async def test_past_the_end_of_an_open_file_is_corrupt_after_a_second_look() -> None:
    async with setup() as s:
        open_block(s, [20_000] * 3)
        with pytest.raises(CorruptFile, match="20000 bytes of the block are there, 20001 are needed"):
            await s.read(0, 20_001)
        assert s.namenode.look_count == 2
        assert s.requests() == [0, 0, 0]


async def test_past_the_end_is_not_believed_while_a_replica_is_out_of_reach() -> None:
    async with setup() as s:
        open_block(s, [20_000] * 3)
        s.lengths.failures["uuid-1"] = StorageUnavailable("nobody there")
        with pytest.raises(StorageUnavailable):
            await s.read(0, 20_001)


async def test_a_replica_that_waits_for_recovery_is_not_read() -> None:
    async with setup() as s:
        open_block(s, [20_000] * 3)
        s.lengths.lengths["uuid-0"] = 2**64 - 1
        assert await s.read(0, 20_000) == CONTENT[:20_000]
        assert s.requests() == [0, 1, 0]


async def test_a_datanode_that_does_not_tell_its_length_is_hedged(loop_time: LoopTime) -> None:
    async with setup(hedge_least_s=HEDGED_S) as s:
        open_block(s, [20_000] * 3)
        del s.lengths.lengths["uuid-0"]
        reading = asyncio.create_task(s.read(0, 20_000))
        await until(lambda: s.lengths.asked == ["uuid-0"])
        await loop_time.pass_s(FIRST_DELAY_S)
        assert await reading == CONTENT[:20_000]
        assert s.counts.hedges_won == 1


async def test_a_file_closed_since_the_last_look_ends_where_it_was_closed() -> None:
    async with setup() as s:
        open_block(s, [20_000] * 3)
        await s.read(0, 20_000)
        s.namenode.files[PATH] = (FILE_ID, closed_file(located(s.nodes, length_bytes=20_000, stamp=1001)))
        with pytest.raises(CorruptFile, match="ends at byte 20000"):
            await s.read(0, 20_001)
        assert await s.read(0, 20_000) == CONTENT[:20_000]
        assert s.nodes[0].requests[-1].header.base_header.block.generation_stamp == 1001


async def test_read_all_refuses_a_file_that_is_still_written() -> None:
    async with setup() as s:
        open_block(s, [20_000] * 3)
        with pytest.raises(CorruptFile, match="is still open"):
            await s.reader.read_all(PATH, length_bytes_max=1000)
