"""Partitions that nobody has asked for since a restart: retention reaches those that have records."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from bmq.broker.idle_starts import SHARE, IdleStarts
from bmq.log.names import partition_directory
from bmq.log.partition_log import PartitionStarting, TopicPartition
from bmq.log.store import CorruptFile, FileMissing, FileStatus, StorageUnavailable
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from tests.unit.broker.test_manager import keys
from tests.unit.broker.world import CONFIG, KEY, World, produce, virtual

pytestmark = pytest.mark.unit

CHECK_S = 10.0
TAKES_S = 0.1


def test_retention_reaches_a_partition_that_nobody_asked_for_since_a_restart() -> None:
    async def main() -> None:
        world = World(retention_check_interval_ms=int(CHECK_S * 1000))
        config = replace(CONFIG, retention_ms=60_000)
        first = world.owner(config)
        await produce(await first.manager.leader_of(KEY), b"old")
        await first.manager.close()
        world.clock.advance(3_600_000)
        second = world.owner(config)
        await asyncio.sleep(CHECK_S - 1)
        assert second.manager.states() == {"unopened": 1}
        await asyncio.sleep(2)
        log = second.manager.ready(KEY)
        assert log is not None and log.log_start_offset == 0
        await asyncio.sleep(CHECK_S)
        assert (log.log_start_offset, log.log_end_offset) == (1, 1)
        await second.manager.close()

    virtual(main)


@pytest.mark.parametrize("started_max", [1, 2, 64])
def test_a_few_are_started_soon_though_nobody_asks(started_max: int) -> None:
    async def main() -> None:
        world = World(idle_starts_max=started_max, idle_start_delay_s=1.0)
        other = keys(2)[1]
        managers = []
        for _ in range(2):
            owner = world.owner()
            owner.manager.assign(other, world.leader_epoch, "topic", CONFIG)
            managers.append(owner.manager)
            if len(managers) == 1:
                for key in (KEY, other):
                    await produce(await owner.manager.leader_of(key), b"old")
                await owner.manager.close()
        await asyncio.sleep(0.9)
        assert managers[1].states() == {"unopened": 2}
        await asyncio.sleep(30)
        assert managers[1].states()["unopened"] == 2 - min(started_max, 2)
        await managers[1].close()

    virtual(main)


def test_a_partition_without_files_is_known_to_be_unwritten_once_somebody_has_looked() -> None:
    async def main() -> None:
        world = World(idle_starts_max=64, idle_start_delay_s=1.0)
        owner = world.owner()
        new, written = keys(2)
        owner.manager.assign(new, 0, "topic", CONFIG)  # a new topic's: nobody has had it before
        owner.manager.assign(written, 0, "topic", CONFIG)
        await produce(await owner.manager.leader_of(written), b"some")
        assert list(owner.manager.unwritten()) == [new]
        await asyncio.sleep(5)
        assert set(owner.manager.unwritten()) == {KEY, new}
        await produce(await owner.manager.leader_of(KEY), b"some")
        assert list(owner.manager.unwritten()) == [new]
        await owner.manager.close()

    virtual(main)


class Node:
    """Lists directories, and starts partitions: `trouble` says by a partition's number what comes of it."""

    def __init__(self, empty: frozenset[int] = frozenset()) -> None:
        self.empty = empty
        self.trouble: dict[int, Exception] = {}
        self.looked: list[int] = []
        self.started: list[int] = []
        self.times_s: list[float] = []
        self.idle_starts = IdleStarts(self, self.start)  # type: ignore[arg-type]

    async def list_directory(self, path: str) -> tuple[FileStatus, ...]:
        number = next(key.partition for key in keys(9) if partition_directory(key) == path)
        self.looked.append(number)
        error = self.trouble.get(number)
        if error is not None:
            raise error
        if number in self.empty:
            raise FileMissing(path)
        return (FileStatus("00000001", True, 0, 0, False),)

    async def start(self, key: TopicPartition) -> None:
        self.times_s.append(asyncio.get_running_loop().time())
        await asyncio.sleep(TAKES_S)
        self.started.append(key.partition)
        if key.partition == 4:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "it has moved")


def test_those_that_nobody_ever_started_stay_idle_and_are_looked_for_once() -> None:
    async def main() -> None:
        node = Node(empty=frozenset({0, 2}))
        idle = dict.fromkeys(keys(3), 5)
        assert await node.idle_starts.round({**idle, keys(4)[3]: 0}) == 1
        assert (node.looked, node.started) == ([0, 1, 2], [1])  # nobody had 3 before
        assert await node.idle_starts.round({key: 5 for key in idle if key.partition != 1}) == 0
        assert node.looked == [0, 1, 2]
        # In another epoch somebody else may have written to them.
        assert await node.idle_starts.round({key: 6 for key in idle if key.partition != 1}) == 0
        assert node.looked == [0, 1, 2, 0, 2]

    virtual(main)


def test_one_that_cannot_be_started_does_not_keep_the_others() -> None:
    async def main() -> None:
        node = Node()
        node.trouble = {1: CorruptFile("no directory"), 3: RuntimeError("a bug")}
        idle = dict.fromkeys(keys(6), 5)
        assert await node.idle_starts.round(idle) == 3  # nor 4, which has moved
        assert node.started == [0, 2, 4, 5]
        node.trouble = {}
        assert await node.idle_starts.round({keys(2)[1]: 5}) == 1

    virtual(main)


@pytest.mark.parametrize("error", [StorageUnavailable("no NameNode answers"), PartitionStarting("still claiming")])
def test_a_store_that_is_away_ends_the_round(error: Exception) -> None:
    async def main() -> None:
        node = Node()
        node.trouble = {1: error}
        assert await node.idle_starts.round(dict.fromkeys(keys(3), 5)) == 1
        assert (node.looked, node.started) == ([0, 1], [0])
        node.trouble = {}
        assert await node.idle_starts.round(dict.fromkeys(keys(3)[1:], 5)) == 2

    virtual(main)


def test_they_take_a_share_of_the_time_one_after_the_other() -> None:
    async def main() -> None:
        node = Node()
        await node.idle_starts.round(dict.fromkeys(keys(3), 5))
        first, second, third = node.times_s
        assert second - first == pytest.approx(TAKES_S / SHARE) == third - second

    virtual(main)


def test_no_more_are_started_than_the_round_may() -> None:
    async def main() -> None:
        node = Node(empty=frozenset({0}))
        assert await node.idle_starts.round(dict.fromkeys(keys(6), 5), starts_max=2, share=1 / 2) == 2
        assert node.started == [1, 2]
        assert node.times_s[1] - node.times_s[0] == pytest.approx(2 * TAKES_S)

    virtual(main)
