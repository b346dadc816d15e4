"""Whatever members do, each record reaches somebody: it is locked by one member at a time and accepted once."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from bmq.protocol.share_state_messages import BATCH_OPTIMIZED, RECORD_LIMIT
from tests.fakes.share_states import DONE
from tests.unit.proxy_fetch.cluster import TOPIC_ID
from tests.unit.proxy_share.share_client import Member, ShareCluster, acquired_of, turns

pytestmark = pytest.mark.unit

PARTITIONS = (0, 1)
STEPS = 60
DRAINS_MAX = 400


class Consumer:
    """A member, and the records that it has and has not acknowledged, by partition."""

    def __init__(self, cluster: ShareCluster, member_id: str, accepted: dict[tuple[int, int], int]) -> None:
        self.cluster = cluster
        self.member = Member(cluster, member_id)
        self.held: dict[int, list[int]] = {number: [] for number in PARTITIONS}
        self.accepted = accepted

    async def fetch(self, acks: dict[int, list[tuple[int, int, list[int]]]], **fields: int) -> None:
        response = await self.member.fetch(PARTITIONS if self.member.epoch == 0 else (), acks, **fields)
        for number in PARTITIONS:
            for low, high, _ in acquired_of(response, number):
                assert not set(range(low, high + 1)) & set(self.held[number])
                self.held[number] += range(low, high + 1)

    def answers(self, random: Random, kinds: list[int]) -> dict[int, list[tuple[int, int, list[int]]]]:
        """Acknowledgements of some of what it has."""
        acks: dict[int, list[tuple[int, int, list[int]]]] = {}
        for number, held in self.held.items():
            chosen = sorted(offset for offset in held if random.random() < 0.7)
            self.held[number] = [offset for offset in held if offset not in chosen]
            for offset in chosen:
                kind = random.choice(kinds)
                if kind == 1:
                    self.accepted[number, offset] = self.accepted.get((number, offset), 0) + 1
                acks.setdefault(number, []).append((offset, offset, [kind]))
        return acks

    def lose(self) -> None:
        self.member.lose()
        self.member = Member(self.cluster, self.member.member_id)
        self.held = {number: [] for number in PARTITIONS}


@pytest.mark.parametrize("seed", range(12))
async def test_every_record_is_accepted_once(cluster: ShareCluster, seed: int) -> None:
    random = Random(seed)
    cluster.states.locks_max = random.choice([5, 2_000])
    accepted: dict[tuple[int, int], int] = {}
    consumers = [Consumer(cluster, f"m{number}", accepted) for number in range(random.randint(1, 4))]
    fields = {
        "share_acquire_mode": random.choice([BATCH_OPTIMIZED, RECORD_LIMIT]),
        "max_records": random.choice([1, 3, 500]),
    }
    for _ in range(STEPS):
        action = random.random()
        consumer = random.choice(consumers)
        if action < 0.4:
            cluster.fetch_cluster.produce(random.choice(PARTITIONS), count=random.randint(1, 4))
        elif action < 0.5:
            consumer.lose()
            await turns()
        elif action < 0.6:
            log = cluster.fetch_cluster.log(random.choice(PARTITIONS))
            log.tail_start_offset = random.randint(0, log.log_end_offset)
        elif action < 0.8:
            acks = consumer.answers(random, [1, 2]) if consumer.member.epoch else {}
            await consumer.fetch(acks, **fields)
        else:
            await asyncio.gather(*(one.fetch({}, **fields) for one in consumers))
    for _ in range(DRAINS_MAX):
        for consumer in consumers:
            await consumer.fetch(consumer.answers(random, [1]) if consumer.member.epoch else {}, **fields)
        if all(not any(consumer.held.values()) for consumer in consumers) and is_drained(cluster):
            break
    for number in PARTITIONS:
        log = cluster.fetch_cluster.log(number)
        records = cluster.states.of("g", TOPIC_ID, number).records
        assert [offset for offset in range(log.log_end_offset) if records[offset].state != DONE] == []
        assert {accepted.get((number, offset)) for offset in range(log.log_end_offset)} <= {1}


def is_drained(cluster: ShareCluster) -> bool:
    for number in PARTITIONS:
        records = cluster.states.of("g", TOPIC_ID, number).records
        if len(records) < cluster.fetch_cluster.log(number).log_end_offset:
            return False
        if any(record.state != DONE for record in records.values()):
            return False
    return True
