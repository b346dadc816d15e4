"""The partition manager: idle until needed, started once, stopped in order, counted."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random
from uuid import UUID

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from bmq.broker import manager as manager_module
from bmq.broker.manager import PartitionManager
from bmq.broker.partition_states import Fenced, Released
from bmq.broker.runtime import PartitionRuntime
from bmq.log.partition_log import TopicPartition
from bmq.log.root import ROOT_FILE
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from tests.unit.broker.world import (
    CONFIG,
    KEY,
    SETTINGS,
    World,
    append,
    batch_of,
    produce,
    read_from_store,
    virtual,
)

pytestmark = pytest.mark.unit
in_campaign = pytest.mark.campaign("unit")


def keys(count: int) -> list[TopicPartition]:
    return [TopicPartition(UUID(int=9), number) for number in range(count)]


def manager_of(world: World, name: str = "node", **settings: object) -> PartitionManager:
    client = world.store.client(name)
    return PartitionManager(client, name, world.clock, Random(1), replace(SETTINGS, **settings))  # type: ignore[arg-type]


def test_an_assigned_partition_is_idle_until_somebody_asks() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner()
        assert owner.manager.ready(KEY) is None
        assert owner.manager.states() == {"unopened": 1}
        await asyncio.sleep(10)
        assert world.store.files() == {}
        logs = await asyncio.gather(*(owner.manager.leader_of(KEY) for _ in range(10)))
        assert len(set(logs)) == 1 and owner.manager.ready(KEY) is logs[0]
        assert owner.manager.counts.starts == 1
        assert owner.manager.states() == {"writing": 1}
        assert owner.manager.leader_epoch(KEY) == 1
        await owner.manager.close()
        assert owner.manager.states() == {"released": 1}

    virtual(main)


def test_nobody_leads_what_was_not_assigned() -> None:
    async def main() -> None:
        owner = World().owner()
        with pytest.raises(KafkaError) as caught:
            await owner.manager.leader_of(keys(1)[0])
        assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        await owner.manager.unassign(keys(1)[0])
        owner.manager.drop(keys(1)[0])
        owner.manager.update_config(keys(1)[0], CONFIG)
        await owner.manager.close()
        with pytest.raises(KafkaError):
            await owner.manager.leader_of(KEY)

    virtual(main)


def test_who_asks_for_an_expected_partition_waits_until_it_is_assigned() -> None:
    async def main() -> None:
        owner = World().owner()
        (key,) = keys(1)
        owner.manager.expect(key, 4)
        asking = [asyncio.ensure_future(owner.manager.leader_of(key)) for _ in range(3)]
        await asyncio.sleep(1)
        assert not any(each.done() for each in asking)
        owner.manager.assign(key, 4, "topic", CONFIG)
        logs = await asyncio.gather(*asking)
        assert len(set(logs)) == 1 and logs[0].leader_epoch == 4
        await owner.manager.close()

    virtual(main)


def test_an_assignment_at_a_newer_epoch_ends_the_wait_for_an_older_one() -> None:
    async def main() -> None:
        owner = World().owner()
        (key,) = keys(1)
        loop = asyncio.get_running_loop()
        owner.manager.expect(key, 4)  # from an owner that hangs
        owner.manager.assign(key, 5, "topic", CONFIG)
        began_s = loop.time()
        assert (await owner.manager.leader_of(key)).leader_epoch == 5
        assert loop.time() - began_s < 1
        await owner.manager.close()

    virtual(main)


def test_who_asks_for_an_expected_partition_that_does_not_come_is_told() -> None:
    async def main() -> None:
        owner = World().owner()
        (key,) = keys(1)
        loop = asyncio.get_running_loop()
        owner.manager.expect(key, 4)
        asking = asyncio.ensure_future(owner.manager.leader_of(key))
        await asyncio.sleep(1)
        owner.manager.expect_no_more(key, 3)  # another one's end
        await asyncio.sleep(1)
        assert not asking.done()
        owner.manager.expect_no_more(key, 4)
        with pytest.raises(KafkaError, match="not assigned here"):
            await asking
        owner.manager.expect(key, 5)
        began_s = loop.time()
        with pytest.raises(KafkaError, match="not assigned here"):
            await owner.manager.leader_of(key)
        assert loop.time() - began_s == pytest.approx(owner.manager.settings.start_wait_max_s)
        asking = asyncio.ensure_future(owner.manager.leader_of(key))
        await asyncio.sleep(1)
        await owner.manager.close()
        with pytest.raises(KafkaError):
            await asking

    virtual(main)


def test_starts_are_bounded_and_unclean_ones_come_first() -> None:
    async def main() -> None:
        world = World()
        world.store.faults.request_s = (0.01, 0.01)
        first = manager_of(world, "first")
        for key in keys(40):
            first.assign(key, 1, "topic", CONFIG)
        assert await first.start_all() == 40
        unclean = keys(40)[25:]
        for key in keys(25):
            await first.unassign(key)
        world.store.clients[0].kill()
        second = manager_of(world, "second", starts_max=4)
        for key in keys(40):
            second.assign(key, 2, "topic", CONFIG)
        started: list[TopicPartition] = []
        real = second._changed

        def changed(runtime: PartitionRuntime) -> None:
            started.append(runtime.topic_partition)
            real(runtime)

        second._changed = changed  # type: ignore[method-assign]
        most = 0

        async def watch() -> None:
            nonlocal most
            while True:
                states = second.states()
                most = max(most, sum(states.get(name, 0) for name in ("sealing", "recovering", "opening")))
                await asyncio.sleep(0.005)

        watcher = asyncio.ensure_future(watch())
        assert await second.start_all() == 40
        watcher.cancel()
        assert 1 <= most <= 4
        assert set(started[: len(unclean) - 4]) <= set(unclean), "a clean one came first"
        world.store.faults.request_s = (0.0, 0.0)
        await second.close()
        first._upkeep_timer.cancel()
        first._retention_timer.cancel()

    virtual(main)


def test_a_hand_over_leaves_nothing_to_recover() -> None:
    async def main() -> None:
        world = World()
        old = world.owner()
        log = await old.log()
        await produce(log, b"a")
        pending = append(log, batch_of(b"b"))
        await old.manager.unassign(KEY)
        assert (await pending).error_code is ErrorCode.NONE
        assert isinstance(log.state, Released)
        assert old.manager.ready(KEY) is None and old.manager.states() == {}
        new = world.owner()
        assert await read_from_store(new) == [(0, b"a"), (1, b"b")]
        assert world.store.counts.takeovers == 0
        assert new.manager.counts.takeovers == 0
        await old.manager.close()
        await new.manager.close()

    virtual(main)


def test_a_deleted_topics_partition_lets_go() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner()
        log = await owner.log()
        pending = append(log, batch_of(b"a"))
        owner.manager.drop(KEY)
        assert (await pending).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert isinstance(log.state, Fenced)
        assert owner.manager.counts.fenced == 0, "a deletion is no news of a newer owner"
        assert await owner.client.delete("topics", recursive=True)
        await owner.manager.close()
        assert world.store.files() == {}

    virtual(main)


def test_a_fenced_partition_is_reported_and_started_again_at_a_newer_epoch() -> None:
    async def main() -> None:
        world = World()
        old, new = world.owner(), None
        log = await old.log()
        await produce(log, b"a")
        new = world.owner()
        await new.log()
        assert (await append(log, batch_of(b"b"))).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert old.manager.fenced() == (KEY,)
        assert old.manager.counts.fenced == 1
        with pytest.raises(KafkaError) as caught:
            await old.log()
        assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        old.manager.assign(KEY, 2, "topic", CONFIG)
        old.manager.assign(KEY, 3, "topic", CONFIG, high_watermark_floor=1)
        assert await read_from_store(old) == [(0, b"a")]
        assert old.manager.high_watermarks() == {KEY: 1}
        await old.manager.close()
        await new.manager.close()

    virtual(main)


def test_one_that_is_assigned_anew_while_it_runs_is_not_reported_as_fenced() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner()
        await produce(await owner.log(), b"a")
        epoch = owner.manager.leader_epoch(KEY)
        assert epoch is not None
        owner.manager.assign(KEY, epoch + 1, "topic", CONFIG)
        assert owner.manager.fenced() == ()
        await asyncio.sleep(1)
        assert owner.manager.fenced() == ()
        assert await read_from_store(owner) == [(0, b"a")]
        await owner.manager.close()

    virtual(main)


def test_a_hand_over_leaves_what_was_assigned_at_another_epoch() -> None:
    async def main() -> None:
        owner = World().owner()
        epoch = owner.manager.leader_epoch(KEY)
        assert epoch is not None
        await owner.manager.unassign(KEY, epoch - 1)
        assert owner.manager.leader_epoch(KEY) == epoch
        await owner.manager.unassign(KEY, epoch)
        assert owner.manager.leader_epoch(KEY) is None
        await owner.manager.close()

    virtual(main)


def test_a_floor_above_the_log_is_told_until_the_loss_is_accepted() -> None:
    async def main() -> None:
        world = World()
        first = world.owner()
        await produce(await first.log(), b"a")
        first.kill()
        owner = world.owner(floor=9)
        with pytest.raises(KafkaError):
            await owner.log()
        assert [runtime.topic_partition for runtime in owner.manager.unserved()] == [KEY]
        owner.manager.assign(KEY, 3, "topic", CONFIG, high_watermark_floor=0)
        assert not owner.manager.unserved()
        assert await read_from_store(owner) == [(0, b"a")]
        await owner.manager.close()

    virtual(main)


def test_a_partition_that_comes_back_does_not_wait_for_its_earlier_epoch() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner()
        log = await owner.log()
        await produce(log, b"a")
        leaving = asyncio.ensure_future(owner.manager.unassign(KEY))
        await asyncio.sleep(0)
        owner.manager.assign(KEY, 2, "topic", CONFIG)
        again = await owner.log()
        assert again is not log and again.leader_epoch == 2
        await leaving
        await produce(again, b"b")
        await owner.manager.close()

    virtual(main)


def test_a_stop_never_takes_longer_than_its_bound() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner()
        log = await owner.log()
        owner.client.pause()
        pending = append(log, batch_of(b"a"))
        began_s = asyncio.get_running_loop().time()
        await owner.manager.close()
        assert asyncio.get_running_loop().time() - began_s < 5
        assert (await pending).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert not log.tasks

    virtual(main)


def test_a_start_that_waits_for_the_store_says_so_and_goes_on() -> None:
    async def main() -> None:
        world = World()
        world.store.faults.unavailable_rate = 1.0
        owner = world.owner()
        with pytest.raises(KafkaError) as caught:
            await owner.log()
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        world.calm()
        await asyncio.sleep(5)
        assert owner.manager.ready(KEY) is not None
        await owner.manager.close()

    virtual(main)


@in_campaign
def test_a_thousand_partitions_need_few_requests_each() -> None:
    async def main() -> None:
        world = World()
        manager = manager_of(world)
        for key in keys(1000):
            manager.assign(key, 1, "topic", CONFIG)
        client = world.store.clients[0]
        count = 0
        real = client.request

        async def request(*arguments: object, **options: object) -> object:
            nonlocal count
            count += 1
            return await real(*arguments, **options)  # type: ignore[arg-type]

        client.request = request  # type: ignore[method-assign,assignment]
        assert await manager.start_all() == 1000
        # List, make, make with parents, make; owner file (2), list its directory, list; manifest (2), look; segment (2),
        # look.
        assert count <= 14_000
        await manager.close()

    virtual(main)


def test_metrics_tell_what_happened() -> None:
    async def main() -> None:
        owner = World().owner()
        registry = CollectorRegistry()
        registry.register(owner.manager.collector)
        log = await owner.log()
        await produce(log, b"a")
        log.tail_read(0, 100, 1)
        text = generate_latest(registry).decode()
        for line in (
            'bmq_partitions{state="writing"} 1.0',
            "bmq_appended_batches_total 1.0",
            "bmq_store_appends_total 1.0",
            "bmq_store_append_seconds_count 1.0",
            "bmq_tail_cache_hits_total 1.0",
            "bmq_partition_starts_total 1.0",
            "bmq_append_in_flight_bytes 0.0",
        ):
            assert line in text.splitlines(), line
        await owner.manager.close()

    virtual(main)


def test_upkeep_of_many_partitions_leaves_turns_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager_module, "UPKEEP_PER_TURN_MAX", 2)

    async def main() -> None:
        world = World()
        owner = world.owner()
        five = [TopicPartition(KEY.topic_id, number) for number in range(5)]
        for key in five[1:]:
            owner.manager.assign(key, 1, "topic", CONFIG)
        seen: list[int | None] = []

        def upkeep(self: PartitionRuntime, now_s: float, now_ms: int) -> None:
            seen.append(self.topic_partition.partition)
            if len(seen) % 2:
                asyncio.get_running_loop().call_soon(seen.append, None)  # somebody else's turn

        for key in five:
            await owner.manager.leader_of(key)
        monkeypatch.setattr(PartitionRuntime, "upkeep", upkeep)
        await asyncio.sleep(1.5)
        assert [number for number in seen if number is not None] == [0, 1, 2, 3, 4]
        assert seen.index(None) == 2
        await owner.manager.close()

    virtual(main)


def test_a_partition_in_which_nobody_ever_began_is_told_without_a_start() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner()
        assert not await owner.manager.prove_looks(), "a root without its file proves nothing"
        await world.store.client("root").write_file(ROOT_FILE, b"{}", holder="root")
        assert await owner.manager.prove_looks()
        assert await owner.manager.never_written(KEY) == 1
        assert await owner.manager.never_written(keys(1)[0]) is None, "it is not assigned here"
        owner.manager.assign(KEY, 2, "topic", CONFIG)
        assert await owner.manager.never_written(KEY) == 2
        assert owner.manager.states() == {"unopened": 1}
        owner.manager.assign(KEY, 3, "topic", CONFIG, high_watermark_floor=1)
        assert await owner.manager.never_written(KEY) is None, "records were acknowledged"
        await owner.manager.close()
        assert await owner.manager.never_written(KEY) is None

    virtual(main)


@pytest.mark.parametrize("is_sealed", [True, False])
def test_a_partition_that_was_ever_started_has_to_be_started(is_sealed: bool) -> None:
    async def main() -> None:
        world = World()
        first = world.owner()
        await first.log()
        assert await first.manager.never_written(KEY) is None
        if is_sealed:
            await first.manager.close()
        else:
            first.kill()
        second = world.owner()
        assert await second.manager.never_written(KEY) is None
        await second.manager.close()

    virtual(main)


def test_one_that_is_assigned_anew_while_we_look_is_looked_at_again() -> None:
    async def main() -> None:
        owner = World().owner()
        looking = asyncio.ensure_future(owner.manager.never_written(KEY))
        await asyncio.sleep(0)
        owner.manager.assign(KEY, 2, "topic", CONFIG)
        assert await looking is None
        await owner.manager.close()

    virtual(main)


def test_an_old_name_node_does_not_hide_what_a_newer_owner_wrote() -> None:
    """Rule 15: the former owner, at a NameNode that was replaced, sees no directory until it has proven its look."""

    async def main() -> None:
        world = World()
        await world.store.client("root").write_file(ROOT_FILE, b"{}", holder="root")
        former = world.owner()
        newer = world.owner()
        world.store.fail_over(stale_s=1_000.0)
        for client in world.store.clients:
            client.is_at_old_name_node = client is former.manager.context.store
        await produce(await newer.log(), b"a")
        assert await former.manager.never_written(KEY) == 1, "a look alone is not enough"
        assert await former.manager.prove_looks()
        assert await former.manager.never_written(KEY) is None
        await newer.manager.close()
        await former.manager.close()

    virtual(main)
