"""Ends of logs for the lag of groups: own ones at once, others by a question that has a bound."""

from __future__ import annotations

import asyncio
from typing import cast
from uuid import UUID

import pytest

from bmq.log.partition_log import PartitionLog, TopicPartition
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.server import log_ends
from bmq.server.log_ends import ROUND_S, OwnedLogEnds
from tests.fakes.cluster_controller import image_of, topic_image

pytestmark = pytest.mark.unit

IMAGE = image_of([], [topic_image("orders", 1, [1, 2, 2, -1])])
KEYS = [TopicPartition(IMAGE.topics["orders"].topic_id, partition) for partition in range(4)]
ME = 1


class Log:
    """A log whose owner answers, refuses or is silent."""

    def __init__(self, end: int, *, error: ErrorCode | None = None, is_silent: bool = False) -> None:
        self.high_watermark = end
        self._error = error
        self._is_silent = is_silent

    async def glance(self) -> int:
        if self._is_silent:
            await asyncio.get_running_loop().create_future()
        if self._error is not None:
            raise KafkaError(self._error)
        return self.high_watermark


class Others:
    """Other nodes, and a clock that the test sets."""

    def __init__(self, logs: dict[TopicPartition, Log]) -> None:
        self.logs = logs
        self.asked: list[TopicPartition] = []
        self.now_s = 0.0

    async def glance(self, topic_partition: TopicPartition) -> int:
        self.asked.append(topic_partition)
        return await self.logs[topic_partition].glance()


def ends_of(others: Others, own: dict[TopicPartition, int] | None = None, wait_s: float = 10.0) -> OwnedLogEnds:
    def owned(key: TopicPartition) -> PartitionLog | None:
        return None if own is None or key not in own else cast(PartitionLog, Log(own[key]))

    return OwnedLogEnds(owned, others, lambda: IMAGE, ME, wait_s, lambda: others.now_s)


async def test_own_logs_are_not_asked_and_others_are() -> None:
    others = Others({KEYS[1]: Log(20), KEYS[2]: Log(30)})
    assert await ends_of(others, {KEYS[0]: 10}).of(KEYS) == {KEYS[0]: 10, KEYS[1]: 20, KEYS[2]: 30}
    assert sorted(others.asked) == sorted(KEYS[1:3])  # the last one has no owner


async def test_a_log_of_this_node_that_is_not_started_stays_so() -> None:
    others = Others({})
    assert await ends_of(others).of(KEYS[:1]) == {}
    assert others.asked == []


async def test_owners_that_refuse_or_are_silent_do_not_hold_the_scrape() -> None:
    others = Others({KEYS[1]: Log(20, is_silent=True), KEYS[2]: Log(30, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)})
    assert await ends_of(others, wait_s=0.01).of(KEYS[:3]) == {}
    others.logs[KEYS[1]] = Log(21)
    assert await ends_of(others, wait_s=0.01).of([KEYS[1]]) == {KEYS[1]: 21}


async def test_many_are_asked_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_ends, "ASKED_MAX", 1)
    others = Others({KEYS[1]: Log(20), KEYS[2]: Log(30)})
    ends = ends_of(others)
    found = []
    for _ in range(3):
        found.append(await ends.of(KEYS[1:3]))
        others.now_s += ROUND_S
    assert found == [{KEYS[1]: 20}, {KEYS[2]: 30}, {KEYS[1]: 20}]


async def test_scrapes_between_two_rounds_ask_no_other_node() -> None:
    others, own = Others({KEYS[1]: Log(20)}), {KEYS[0]: 10}
    ends = ends_of(others, own)
    await ends.of(KEYS[:2])
    for _ in range(4):
        others.now_s += 3.0
        assert await ends.of(KEYS[:2]) == {KEYS[0]: 10}
    assert len(others.asked) == 1
    others.now_s += 3.0
    assert await ends.of(KEYS[:2]) == {KEYS[0]: 10, KEYS[1]: 20}
    assert len(others.asked) == 2


async def test_partitions_of_unknown_topics_are_left_out() -> None:
    assert await ends_of(Others({})).of([TopicPartition(UUID(int=99), 0)]) == {}
