"""The router: the right log at once when it is known, patience when it is not, and order through every move."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from bmq.broker.manager import PartitionManager
from bmq.broker.runtime import PartitionRuntime
from bmq.log.partition_log import AppendResult, PartitionStarting, TopicPartition
from bmq.metadata.image import NO_LEADER
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.proxy.appender import PARTITIONS_HELD_MAX, Appender
from bmq.routing.remote_log import RemoteLog
from bmq.routing.router import Router
from bmq.routing.settings import RouterSettings
from tests.support.produced_batch import produced_batch
from tests.unit.routing.owner_nodes import (
    LOG_CONFIG,
    SETTINGS,
    Cluster,
    append,
    batch_of,
    key,
    records_of,
    until,
)

pytestmark = pytest.mark.unit

MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER
IN_FLIGHT_MAX = 5  # of one producer in one partition: so many batches the owner recognizes (KIP-98)


async def remote(cluster: Cluster, partition: int = 0) -> RemoteLog:
    log = await cluster.router.leader_of(key(partition))
    assert isinstance(log, RemoteLog)
    return log


async def refused(work: Coroutine[Any, Any, Any]) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        await work
    return caught.value


def test_a_glance_starts_no_partition_and_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()

    async def not_proved(_: PartitionRuntime) -> None:
        raise AssertionError("a proof asks the store")

    async def main() -> None:
        assert (await refused(cluster.router.glance(key()))).code is MOVED
        assert cluster.nodes[2].manager.ready(key()) is None
        assert (await append(await remote(cluster), b"a", b"b")).error_code is ErrorCode.NONE
        monkeypatch.setattr(PartitionRuntime, "prove_ownership", not_proved)
        assert await cluster.router.glance(key()) == 2
        cluster.name_owner(0, 3)  # which has not begun
        assert (await refused(cluster.router.glance(key()))).code is MOVED

    cluster.run(main)


def test_a_log_is_ready_once_its_owner_was_reached() -> None:
    cluster = Cluster()

    async def main() -> None:
        assert cluster.router.ready(key()) is None
        log = await remote(cluster)
        assert cluster.router.ready(key()) is log
        assert (log.owner, log.leader_epoch) == (2, 1)
        assert await remote(cluster) is log

    cluster.run(main)


def test_all_who_ask_at_once_share_one_way() -> None:
    cluster = Cluster()

    async def main() -> None:
        logs = await asyncio.gather(*(remote(cluster) for _ in range(20)))
        assert len(set(logs)) == 1
        assert cluster.nodes[2].requests(ApiKey.PROVE_OWNERSHIP) == 1

    cluster.run(main)


@pytest.mark.parametrize("name", [TopicPartition(UUID(int=99), 0), key(1), key(-1)])
def test_what_is_not_in_the_image_is_not_waited_for(name: TopicPartition) -> None:
    cluster = Cluster()

    async def main() -> None:
        assert (await refused(cluster.router.leader_of(name))).code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert cluster.loop.time() < 0.001

    cluster.run(main)


def test_a_partition_without_an_owner_is_waited_for() -> None:
    cluster = Cluster()

    async def main() -> None:
        cluster.name_owner(0, NO_LEADER)
        waiting = asyncio.ensure_future(remote(cluster))
        await asyncio.sleep(3)
        assert not waiting.done()
        begun_s = cluster.loop.time()
        cluster.take_over(0, 3)
        log = await waiting
        assert (log.owner, log.leader_epoch) == (3, 3)
        assert cluster.loop.time() - begun_s < 0.1

    cluster.run(main)


def test_nobody_waits_longer_than_the_limit() -> None:
    cluster = Cluster(config=RouterSettings(move_wait_ms=2_000))

    async def main() -> None:
        cluster.name_owner(0, NO_LEADER)
        error = await refused(cluster.router.leader_of(key()))
        assert error.code is MOVED and "no owner" in str(error)
        assert 2 <= cluster.loop.time() < 2.3

    cluster.run(main)


@pytest.mark.parametrize("is_hung", [False, True], ids=["no owner", "a hung owner"])
def test_nobody_waits_once_the_node_stops(is_hung: bool) -> None:
    cluster = Cluster(config=RouterSettings(move_wait_ms=60_000))

    async def main() -> None:
        if is_hung:
            await cluster.links.link(2)
            cluster.network.cut("node-1", "node-2")
        else:
            cluster.name_owner(0, NO_LEADER)
        waiting = asyncio.ensure_future(refused(cluster.router.leader_of(key())))
        await asyncio.sleep(1)
        begun_s = cluster.loop.time()
        cluster.router.end_waits()
        assert (await waiting).code is MOVED
        assert (await refused(cluster.router.leader_of(key()))).code is MOVED
        assert cluster.loop.time() - begun_s < 0.01
        cluster.network.heal()

    cluster.run(main)


def test_who_has_an_owner_is_served_while_the_node_stops() -> None:
    cluster = Cluster()

    async def main() -> None:
        log = await remote(cluster)
        cluster.router.end_waits()
        assert await remote(cluster) is log

    cluster.run(main)


def test_an_owner_that_does_not_answer_is_given_up_at_the_limit() -> None:
    cluster = Cluster(config=RouterSettings(move_wait_ms=1_500, call_timeout_ms=60_000))

    async def main() -> None:
        await remote(cluster)
        cluster.network.reset_between("node-2")
        cluster.network.cut("node-1", "node-2")
        await asyncio.sleep(0.01)
        assert (await refused(cluster.router.leader_of(key()))).code is MOVED
        assert 1.5 <= cluster.loop.time() < 1.8
        cluster.network.heal()

    cluster.run(main)


def test_a_newer_image_ends_the_wait_for_a_hung_owner() -> None:
    cluster = Cluster()

    async def main() -> None:
        await cluster.links.link(2)
        cluster.network.cut("node-1", "node-2")
        waiting = asyncio.ensure_future(remote(cluster))
        await asyncio.sleep(1)
        begun_s = cluster.loop.time()
        cluster.take_over(0, 3)
        assert (await waiting).owner == 3
        assert cluster.loop.time() - begun_s < 0.1
        cluster.network.heal()

    cluster.run(main)


def test_refusals_are_not_met_by_a_busy_loop() -> None:
    """The image names an owner that knows nothing of it, and so on for a while."""
    cluster = Cluster(config=RouterSettings(move_wait_ms=60_000))

    async def main() -> None:
        epoch = cluster.name_owner(0, 3)
        waiting = asyncio.ensure_future(remote(cluster))
        await asyncio.sleep(10)
        asked = cluster.nodes[3].requests(ApiKey.PROVE_OWNERSHIP)
        assert 40 <= asked <= 110  # from 10 ms between tries up to 0.2 s
        cluster.assign(0, 3, epoch)
        begun_s = cluster.loop.time()
        assert (await waiting).owner == 3
        assert cluster.loop.time() - begun_s < 0.25

    cluster.run(main)


def test_news_of_other_topics_wake_nobody() -> None:
    cluster = Cluster(config=RouterSettings(move_wait_ms=60_000, backoff_min_ms=5_000, backoff_max_ms=5_000))

    async def main() -> None:
        cluster.name_owner(0, 3)
        waiting = asyncio.ensure_future(cluster.router.leader_of(key()))
        await asyncio.sleep(1)
        asked = cluster.nodes[3].requests(ApiKey.PROVE_OWNERSHIP)
        for offset in range(50):
            cluster.publish(replace(cluster.image, offset=offset))
            await asyncio.sleep(0.01)
        assert cluster.nodes[3].requests(ApiKey.PROVE_OWNERSHIP) == asked
        waiting.cancel()

    cluster.run(main)


def test_a_partition_that_is_starting_or_offline_is_told_apart() -> None:
    cluster = Cluster(settings=replace(SETTINGS, start_wait_max_s=1.0))

    async def main() -> None:
        cluster.store.faults.unavailable_rate = 1.0
        caught = await refused(cluster.router.leader_of(key()))
        assert isinstance(caught, PartitionStarting) and 1 <= cluster.loop.time() < 1.1
        cluster.store.faults.unavailable_rate = 0.0
        epoch = cluster.name_owner(0, 3)
        # It was acknowledged that far, and the log does not reach it (rule 5).
        context = cluster.nodes[3].process.context()
        context.run(cluster.nodes[3].manager.assign, key(), epoch, "t", LOG_CONFIG, 100)
        caught = await refused(cluster.router.leader_of(key()))
        assert caught.code is ErrorCode.KAFKA_STORAGE_ERROR and not isinstance(caught, PartitionStarting)

    cluster.run(main)


def test_a_lost_link_is_made_anew_for_the_same_log() -> None:
    cluster = Cluster()

    async def main() -> None:
        log = await remote(cluster)
        cluster.network.reset_between("node-2")
        await until(lambda: log.link is None)
        assert cluster.router.ready(key()) is None
        assert await remote(cluster) is log and cluster.router.ready(key()) is log
        assert (await append(log, b"a")).error_code is ErrorCode.NONE

    cluster.run(main)


def test_an_image_with_another_owner_closes_the_log() -> None:
    cluster = Cluster(partition_count=2)

    async def main() -> None:
        moving, staying = await remote(cluster, 0), await remote(cluster, 1)
        woken: list[int] = []
        moving.on_advance(lambda: woken.append(1))
        cluster.take_over(0, 3)
        assert moving.is_closed and woken == [1] and cluster.router.ready(key()) is None
        assert cluster.router.ready(key(1)) is staying
        assert (await remote(cluster)).leader_epoch == 2
        cluster.delete_topic()
        assert staying.is_closed and cluster.router.ready(key(1)) is None
        error = await refused(cluster.router.leader_of(key(1)))
        assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    cluster.run(main)


def test_a_live_owner_still_answers_what_it_drains() -> None:
    """So that a planned move leaves nothing to be sent twice."""
    cluster = Cluster()

    async def main() -> None:
        log = await remote(cluster)
        answers = [append(log, b"%d" % number) for number in range(5)]
        await asyncio.sleep(0)
        moving = asyncio.ensure_future(cluster.hand_over(0, 3))
        await asyncio.sleep(0)
        assert log.is_closed
        codes = [(await answer).error_code for answer in answers]
        await moving
        stored = await records_of(await cluster.nodes[3].log())
        assert [code is ErrorCode.NONE for code in codes] == [b"%d" % number in stored for number in range(5)]

    cluster.run(main)


def test_answers_of_a_former_owner_are_waited_for_a_moment_only() -> None:
    cluster = Cluster(config=RouterSettings(drain_wait_ms=1_000))

    async def main() -> None:
        log = await remote(cluster)
        cluster.network.cut("node-1", "node-2")
        answer = append(log, b"a")
        begun_s = cluster.loop.time()
        cluster.take_over(0, 3)
        await asyncio.sleep(0.9)
        assert not answer.done()
        assert (await answer).error_code is MOVED
        assert 0.9 < cluster.loop.time() - begun_s < 1.1
        cluster.network.heal()

    cluster.run(main)


@pytest.mark.parametrize("is_fenced_first", [True, False])
def test_answers_of_a_fenced_owner_are_not_waited_for(is_fenced_first: bool) -> None:
    cluster = Cluster()

    async def main() -> None:
        log = await remote(cluster)
        cluster.network.cut("node-1", "node-2")
        answer = append(log, b"a")
        now_s = cluster.loop.time()
        if is_fenced_first:
            cluster.lose_node(2)
        cluster.take_over(0, 3)
        if not is_fenced_first:
            cluster.lose_node(2)
        assert (await answer).error_code is MOVED
        assert cluster.loop.time() == now_s
        cluster.network.heal()

    cluster.run(main)


def test_a_partition_that_is_owned_here_comes_from_the_manager() -> None:
    cluster = Cluster()

    async def main() -> None:
        manager = PartitionManager(cluster.store.client("here"), "here", cluster.clock, Random(1), SETTINGS)
        router = Router(
            1,
            manager,
            cluster.links,
            lambda: cluster.image,
            random=Random(1),
            config=RouterSettings(move_wait_ms=3_000),
        )
        away = await router.leader_of(key())
        epoch = cluster.name_owner(0, 1)
        router.image_changed(cluster.image, cluster.image)  # not news of this partition
        old = cluster.image
        cluster.image = replace(old, offset=old.offset + 1)
        waiting = asyncio.ensure_future(router.leader_of(key()))
        await asyncio.sleep(0.5)  # named the owner, not assigned yet
        assert not waiting.done()
        manager.assign(key(), epoch, "t", LOG_CONFIG)
        router.wake()
        begun_s = cluster.loop.time()
        log = await waiting
        assert cluster.loop.time() - begun_s < 0.1
        assert log is manager.ready(key()) and log is not away
        await router.close()
        assert router.ready(key()) is log
        await manager.close()

    cluster.run(main)


def test_what_prometheus_sees() -> None:
    cluster = Cluster(partition_count=2)

    async def main() -> None:
        log = await remote(cluster)
        await remote(cluster, 1)
        log.on_advance(lambda: None)
        await append(log, b"a")
        cluster.take_over(1, 3)
        registry = CollectorRegistry()
        registry.register(cluster.router.collector)
        states = {
            state: registry.get_sample_value("bmq_remote_partitions", {"state": state})
            for state in ("attached", "detached", "followed", "retired")
        }
        assert states == {"attached": 1, "detached": 0, "followed": 1, "retired": 0}
        assert registry.get_sample_value("bmq_remote_partitions_moved_total") == 1
        assert registry.get_sample_value("bmq_remote_partitions_opened_total") == 2
        assert registry.get_sample_value("bmq_forward_in_flight_bytes") == 0

    cluster.run(main)


def test_closing_ends_every_wait() -> None:
    cluster = Cluster(partition_count=2)

    async def main() -> None:
        log = await remote(cluster)
        cluster.network.cut("node-1", "node-2")
        answer = append(log, b"a")
        waiting = [asyncio.ensure_future(refused(cluster.router.leader_of(key(1)))) for _ in range(2)]
        await asyncio.sleep(0.1)
        now_s = cluster.loop.time()
        await cluster.router.close()
        assert (await answer).error_code is MOVED
        assert {(await one).code for one in waiting} == {MOVED}
        assert cluster.loop.time() == now_s
        assert (await refused(cluster.router.leader_of(key()))).code is MOVED
        cluster.network.heal()

    cluster.run(main)


# --- produces through moves


UNNUMBERED_ANSWERS = {ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, MOVED}
"""What a producer without sequence numbers may hear when connections are lost: nobody could tell a copy."""


class Producers:
    """Idempotent ones (even numbers) and others, each with one sequence per partition, through one retrying appender."""

    def __init__(self, cluster: Cluster) -> None:
        self.appender = Appender(cluster.router, hold_longest_s=3600.0)  # what is refused cannot be lost
        self.sent: dict[tuple[int, int], list[bytes]] = {}
        self.answers: dict[bytes, AppendResult] = {}

    def send(self, producer: int, partition: int) -> None:
        values = self.sent.setdefault((producer, partition), [])
        if sum(value not in self.answers for value in values[-IN_FLIGHT_MAX:]) == IN_FLIGHT_MAX:
            return
        value = b"%d/%d/%d" % (producer, partition, len(values))
        options = (
            {"producer_id": producer, "producer_epoch": 0, "base_sequence": len(values)} if producer % 2 == 0 else {}
        )
        values.append(value)

        def done(result: AppendResult) -> None:
            assert value not in self.answers, "answered twice"
            self.answers[value] = result

        self.appender.append(produced_batch(key(partition), batch_of(value, **options), done))

    @property
    def unanswered(self) -> int:
        return sum(map(len, self.sent.values())) - len(self.answers)

    def check(self, partition: int, stored: list[bytes], *, has_losses: bool) -> None:
        for (producer, where), values in self.sent.items():
            if where == partition:
                mine = [value for value in stored if value.startswith(b"%d/" % producer)]
                refused = {value for value in values if self.answers[value].error_code is not ErrorCode.NONE}
                # What was refused may be there all the same, when nobody knows.
                first_copies = list(dict.fromkeys(mine))
                assert first_copies == [value for value in values if value not in refused or value in mine]
                if producer % 2 == 0 or not has_losses:
                    assert mine == values
                assert not refused or (has_losses and producer % 2)


def test_planned_moves_lose_double_and_reorder_nothing() -> None:
    cluster = Cluster(partition_count=2)

    async def main() -> None:
        cluster.store.faults.append_s = (0.0, 0.003)
        producers = Producers(cluster)
        for number in range(40):
            for _ in range(10):
                for producer in range(2):
                    producers.send(producer, 0)
                    producers.send(producer, 1)
                await asyncio.sleep(0.0005)
            await cluster.hand_over(number % 2, 3 if number % 4 < 2 else 2)
        await until(lambda: not producers.unanswered)
        assert {answer.error_code for answer in producers.answers.values()} == {ErrorCode.NONE}
        for partition in range(2):
            leader = cluster.image.topics["t"].partitions[partition].leader
            stored = await records_of(await cluster.nodes[leader].log(partition))
            producers.check(partition, stored, has_losses=False)

    cluster.run(main)


def test_an_owner_that_begins_anew_lets_nothing_overtake_what_it_refused() -> None:
    """What it had not written yet goes back to the proxy, and meets there what was sent before that was known."""
    cluster = Cluster()

    async def main() -> None:
        producers = Producers(cluster)
        producers.send(1, 0)
        await until(lambda: not producers.unanswered)
        for _ in range(20):
            cluster.store.faults.append_s = (0.02, 0.02)
            producers.send(1, 0)
            await asyncio.sleep(0.01)
            cluster.store.faults.append_s = (0.0, 0.0)
            cluster.assign(0, 2, cluster.leader_epoch(0) + 1)
            for _ in range(3):
                producers.send(1, 0)
                await asyncio.sleep(0.0005)
            cluster.name_owner(0, 2)
            await until(lambda: not producers.unanswered)
        producers.check(0, await records_of(await cluster.nodes[2].log()), has_losses=True)

    cluster.run(main)


@pytest.mark.parametrize("how", ["kill", "hang"])
def test_a_produce_waits_for_the_next_owner_of_a_dead_ones_partitions(how: str) -> None:
    cluster = Cluster(partition_count=PARTITIONS_HELD_MAX)

    async def main() -> None:
        producers = Producers(cluster)
        for partition in range(PARTITIONS_HELD_MAX):
            producers.send(2, partition)
        await until(lambda: not producers.unanswered)
        if how == "kill":
            cluster.nodes[2].kill()
        else:
            cluster.nodes[2].process.pause()
        for partition in range(PARTITIONS_HELD_MAX):
            for _ in range(3):
                producers.send(2, partition)
        await asyncio.sleep(0.3)
        assert producers.unanswered == 3 * PARTITIONS_HELD_MAX
        cluster.lose_node(2)
        begun_s = cluster.loop.time()
        for partition in range(PARTITIONS_HELD_MAX):
            cluster.take_over(partition, 3)
        await until(lambda: not producers.unanswered)
        assert cluster.loop.time() - begun_s < 0.5
        assert {answer.error_code for answer in producers.answers.values()} == {ErrorCode.NONE}
        for partition in range(PARTITIONS_HELD_MAX):
            producers.check(partition, await records_of(await cluster.nodes[3].log(partition)), has_losses=True)
        cluster.nodes[2].process.resume()

    cluster.run(main)


@given(seed=st.integers(0, 2**32), steps=st.integers(5, 40))
def test_whatever_happens_order_is_kept_and_every_produce_is_answered_once(seed: int, steps: int) -> None:
    """Real links, listeners and brokers: lost connections, hand-overs, take-overs from owners that do not know of it, dead
    owners that come back, images that are ahead. Idempotent producers find every batch once, in the order in which they were
    sent; the others at least once those that were acknowledged, in that order, too, and what they were told is true."""
    random = Random(seed)
    cluster = Cluster(seed=seed, partition_count=2, config=RouterSettings(move_wait_ms=1_000))

    async def main() -> None:
        producers = Producers(cluster)
        dead: set[int] = set()
        cluster.store.faults.append_s = (0.0, random.choice((0.0, 0.005)))
        cluster.store.faults.request_s = (0.0, random.choice((0.0, 0.005)))

        def leader_of(partition: int) -> int:
            return cluster.image.topics["t"].partitions[partition].leader

        def next_owner(partition: int) -> int:
            return 5 - leader_of(partition)

        for _ in range(steps):
            step, partition = random.random(), random.randrange(2)
            if step < 0.5:
                for _ in range(random.randint(1, 5)):
                    producers.send(random.randrange(4), partition)
            elif step < 0.58:
                cluster.network.reset_some(random.randint(1, 3))
            elif step < 0.66 and not dead:
                await cluster.hand_over(partition, next_owner(partition))
            elif step < 0.72 and next_owner(partition) not in dead:
                cluster.take_over(partition, next_owner(partition))
            elif step < 0.76 and leader_of(partition) not in dead:
                # The same owner once more: first named, then assigned, or the other way round.
                owner, delay_s = leader_of(partition), random.choice((0.002, 0.5))
                if random.random() < 0.5:
                    cluster.loop.call_later(
                        delay_s, cluster.assign, partition, owner, cluster.name_owner(partition, owner)
                    )
                else:
                    cluster.assign(partition, owner, cluster.leader_epoch(partition) + 1)
                    cluster.loop.call_later(delay_s, cluster.name_owner, partition, owner)
                for _ in range(5):
                    producers.send(random.randrange(4), partition)
                    await asyncio.sleep(random.choice((0, 0.001)))
                await asyncio.sleep(delay_s)
            elif step < 0.8 and not dead:
                gone = leader_of(partition)
                dead.add(gone)
                cluster.nodes[gone].kill()
                await asyncio.sleep(random.choice((0, 0.1)))
                cluster.lose_node(gone)
                for other in range(2):
                    if leader_of(other) == gone:
                        cluster.take_over(other, 5 - gone)
            elif step < 0.86 and dead:
                back = dead.pop()
                await cluster.start_node(back)
                cluster.return_node(back)
            else:
                await asyncio.sleep(random.choice((0.0005, 0.002, 0.01, 0.2)))
        await until(lambda: not producers.unanswered, limit_s=120)
        for value, answer in producers.answers.items():
            is_numbered = int(value.split(b"/")[0]) % 2 == 0
            assert answer.error_code in ({ErrorCode.NONE} if is_numbered else UNNUMBERED_ANSWERS)
        for partition in range(2):
            stored = await records_of(await cluster.nodes[leader_of(partition)].log(partition))
            producers.check(partition, stored, has_losses=True)
            for value, answer in producers.answers.items():
                if value.split(b"/")[1] == b"%d" % partition and answer.error_code is ErrorCode.NONE:
                    assert stored[answer.base_offset] == value
        assert cluster.router.context.budget.bytes_used == 0

    cluster.run(main)
