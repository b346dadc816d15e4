"""The partition runtime when the store, the process or the ownership fails. Acknowledged stays, once, in place."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from bmq.broker.partition_states import Blocked, Fenced, Offline, Writing
from bmq.broker.runtime import PartitionRuntime
from bmq.log.partition_log import AppendResult
from bmq.log.store import FencedWriter, StorageUnavailable
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from tests.fakes.store import FakeClient, Faults
from tests.unit.broker.world import (
    CONFIG,
    KEY,
    Owner,
    World,
    append,
    batch_of,
    produce,
    read_all,
    read_from_store,
    sequenced,
    virtual,
)

pytestmark = pytest.mark.unit

HISTORIES = {"deep": 2_000, "fresh": 60}.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 25)
SMALL = replace(CONFIG, segment_bytes=1000, segment_idle_close_ms=3_000)


class Ledger:
    """What was sent, and what of it was acknowledged at which offset."""

    def __init__(self) -> None:
        self.sent = 0
        self.acknowledged: dict[bytes, int] = {}
        self.refused: set[ErrorCode] = set()

    def send(self, log: PartitionRuntime) -> asyncio.Future[AppendResult]:
        self.sent += 1
        value = b"value %d " % self.sent * 5
        result = append(log, batch_of(value))

        def note(answer: asyncio.Future[AppendResult]) -> None:
            if answer.cancelled():
                return
            if answer.result().error_code is ErrorCode.NONE:
                self.acknowledged[value] = answer.result().base_offset
            else:
                self.refused.add(answer.result().error_code)

        result.add_done_callback(note)
        return result

    async def check(self, owner: Owner) -> list[tuple[int, bytes | None]]:
        """The whole log, which holds every acknowledged record once, at its offset."""
        records = await read_from_store(owner)
        assert [offset for offset, _ in records] == list(range(len(records)))
        values = [value for _, value in records]
        assert len(set(values)) == len(values), "a record is there twice"
        places = {value: offset for offset, value in records}
        for value, offset in self.acknowledged.items():
            assert places.get(value) == offset, (value, offset, places.get(value))
        return records


@pytest.mark.parametrize("seed", range(8))
def test_broken_writers_lose_and_double_nothing(seed: int) -> None:
    async def main() -> None:
        world = World(seed, Faults(append_s=(0.0001, 0.01), request_s=(0.0001, 0.002), break_writer_rate=0.15))
        owner = world.owner(SMALL)
        log = await owner.log()
        ledger = Ledger()
        for _ in range(60):
            answers = await asyncio.gather(*(ledger.send(log) for _ in range(world.random.randint(1, 6))))
            assert {answer.error_code for answer in answers} == {ErrorCode.NONE}
        assert world.store.counts.broken_writers > 3
        assert owner.manager.counts.mends > 3
        assert len(await ledger.check(owner)) == ledger.sent
        await owner.manager.close()
        world.calm()
        await ledger.check(world.owner(SMALL))

    virtual(main)


@pytest.mark.parametrize("seed", range(6))
def test_a_start_survives_lost_replies_and_refusals(seed: int) -> None:
    async def main() -> None:
        world = World(seed, start_wait_max_s=300.0)
        ledger = Ledger()
        for _ in range(4):
            world.store.faults.unavailable_rate = 0.1
            world.store.faults.lost_reply_rate = 0.1
            world.store.faults.half_takeover_rate = 0.2
            owner = world.owner(SMALL)
            log = await owner.log()
            for _ in range(5):
                await asyncio.gather(*(ledger.send(log) for _ in range(4)))
            owner.kill()
        assert world.store.counts.lost_replies > 0
        world.calm()
        last = world.owner()
        await ledger.check(last)
        assert len(ledger.acknowledged) > 20
        await last.manager.close()

    virtual(main)


def pause_at(client: FakeClient, count: int) -> Callable[[], bool]:
    """Let the process stand still at its `count`-th message to the store; tells whether it came that far."""
    real, sent = client.outbound, 0

    def outbound(callback: Callable[[], None]) -> None:
        nonlocal sent
        sent += 1
        if sent == count:
            client.pause()
        real(callback)

    client.outbound = outbound  # type: ignore[method-assign]
    return lambda: sent >= count


async def a_life(owner: Owner, ledger: Ledger) -> None:
    """Every kind of store request an owner makes, one after the other; stops when it is refused."""
    log = await owner.log()
    for _ in range(4):
        await asyncio.gather(*(ledger.send(log) for _ in range(6)))
    await log.delete_records(1)
    await log.prove_ownership()
    await asyncio.sleep(6)  # idle: the segment is closed
    await ledger.send(log)
    await read_all(log)
    await owner.manager.close()


@pytest.mark.parametrize("recover_lease_rate", [0.0, 1.0])
def test_a_zombie_wakes_at_any_point_and_harms_nothing(recover_lease_rate: float) -> None:
    """The old owner stands still at its n-th message, for every n; a new one takes over; the old one goes on.

    Lease recovery drops a block that was not connected yet; its late writer appends into nowhere, and only the look at
    the own directory tells it so (rule 7).
    """

    async def scenario(point: int) -> bool:
        world = World(0, Faults(recover_lease_rate=recover_lease_rate))
        ledger = Ledger()
        old = world.owner(SMALL)
        has_paused = pause_at(old.client, point)
        life = asyncio.ensure_future(a_life(old, ledger))
        await asyncio.sleep(20)
        if not has_paused():
            await life
            return False
        before = dict(ledger.acknowledged)
        new = world.owner(SMALL)
        log = await new.log()
        await asyncio.gather(*(ledger.send(log) for _ in range(3)))
        old.client.resume()
        for _ in range(2):
            late = old.manager.ready(KEY)
            if late is not None:
                ledger.send(late)
            await asyncio.sleep(20)
        await asyncio.wait({life})
        assert life.exception() is None or isinstance(life.exception(), KafkaError | FencedWriter)
        await asyncio.gather(*(ledger.send(log) for _ in range(3)))
        assert before.items() <= ledger.acknowledged.items()
        runtime = old.manager.runtime(KEY)
        assert runtime is not None and runtime.state.is_final, (point, runtime.state, life)  # type: ignore[union-attr]
        log.inspect().tail.clear()
        await _check_from(log, ledger)
        await old.manager.close()
        await new.manager.close()
        return True

    point = 0
    while True:
        point += 1
        if not virtual(lambda: scenario(point)):  # noqa: B023
            break
    assert point > 60, "the script makes fewer store requests than it should"


async def _check_from(log: PartitionRuntime, ledger: Ledger) -> None:
    records = await read_all(log)
    offsets = [offset for offset, _ in records]
    assert offsets == list(range(log.log_start_offset, log.high_watermark))
    values = [value for _, value in records]
    assert len(set(values)) == len(values), "a record is there twice"
    places = {value: offset for offset, value in records}
    for value, offset in ledger.acknowledged.items():
        if offset >= log.log_start_offset:
            assert places.get(value) == offset, (value, offset)


def test_a_full_disk_refuses_produces_serves_reads_and_recovers() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner()
        log = await owner.log()
        ledger = Ledger()
        await asyncio.gather(*(ledger.send(log) for _ in range(5)))
        assert (await append(log, sequenced(0, b"fits"))).error_code is ErrorCode.NONE
        world.store.capacity_bytes = world.store.namespace.used_bytes + 150
        results = [append(log, sequenced(1, b"x" * 40)), append(log, sequenced(2, b"y" * 400))]
        codes = [answer.error_code for answer in await asyncio.gather(*results)]
        assert codes == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR]
        assert isinstance(log.state, Blocked)
        assert owner.manager.ready(KEY) is log
        assert (await append(log, batch_of(b"no"))).error_code is ErrorCode.KAFKA_STORAGE_ERROR
        assert len(await read_from_store(owner)) == 7
        await asyncio.sleep(30)
        assert (await append(log, batch_of(b"no"))).error_code is ErrorCode.KAFKA_STORAGE_ERROR
        files = len(world.store.files())
        await asyncio.sleep(60)
        assert len(world.store.files()) <= files + 1, "files pile up while there is no room"
        world.store.capacity_bytes = None
        await asyncio.sleep(10)
        assert isinstance(log.state, Writing)
        answer = await append(log, sequenced(2, b"y" * 400))
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 7)
        assert len(await read_from_store(owner)) == 8
        owner.kill()
        assert len(await read_from_store(world.owner())) == 8

    virtual(main)


def test_a_store_that_does_not_answer_blocks_and_recovers() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner()
        log = await owner.log()
        await produce(log, b"a")
        world.store.faults.unavailable_rate = 1.0
        owner.client.writers[0].break_off()
        await asyncio.sleep(0.1)
        waiting = append(log, batch_of(b"b"))
        await asyncio.sleep(30)
        assert not waiting.done()
        world.calm()
        assert (await waiting).base_offset == 1
        assert await read_from_store(owner) == [(0, b"a"), (1, b"b")]
        await owner.manager.close()

    virtual(main)


def test_a_floor_above_the_end_takes_it_offline() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner()
        await produce(await owner.log(), b"a")
        await owner.manager.close()
        lost = world.owner(floor=2)
        for _ in range(2):
            with pytest.raises(KafkaError) as caught:
                await lost.log()
            assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert lost.manager.states() == {"offline": 1}
        assert lost.manager.counts.offline == 1
        await lost.manager.close()
        accepted = world.owner(floor=1)
        assert await read_from_store(accepted) == [(0, b"a")]
        await accepted.manager.close()

    virtual(main)


def test_a_damaged_segment_ends_the_log_where_it_is_damaged() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner()
        log = await owner.log()
        for value in (b"a", b"b", b"c"):
            await produce(log, value)
        owner.kill()
        path = next(path for path in world.store.files() if path.endswith("00000000.log"))
        world.store.flip_bit(path, len(world.store.files()[path]) - 1)
        after = world.owner()
        assert await read_from_store(after) == [(0, b"a"), (1, b"b")]
        assert await produce(await after.log(), b"d") == 2
        await after.manager.close()

    virtual(main)


def test_an_older_epoch_in_the_same_process_ends_at_once() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner()
        log = await owner.log()
        pending = append(log, batch_of(b"a"))
        owner.manager.assign(KEY, 5, "topic", CONFIG)
        assert (await pending).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert isinstance(log.state, Fenced)
        assert owner.manager.ready(KEY) is None
        newer = await owner.log()
        assert newer is not log and newer.leader_epoch == 5
        await owner.manager.close()

    virtual(main)


def test_an_epoch_of_somebody_else_is_never_written() -> None:
    async def main() -> None:
        world = World()
        first = world.owner()
        log = await first.log()
        await produce(log, b"a")
        world.leader_epoch -= 1  # the same epoch is given twice
        twin = world.owner()
        twin.name = "twin"
        twin.manager.context.holder = "twin"
        with pytest.raises(KafkaError) as caught:
            await twin.log()
        assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await produce(log, b"b") == 1
        await first.manager.close()
        await twin.manager.close()

    virtual(main)


def test_what_cannot_be_read_is_a_storage_error() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner()
        log = await owner.log()
        await produce(log, b"a")
        log.inspect().tail.clear()
        world.store.faults.unavailable_rate = 1.0
        with pytest.raises(KafkaError) as caught:
            await log.read(0, 100)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        with pytest.raises(StorageUnavailable):
            world.store.faults.unavailable_rate = 1.0
            await owner.client.status("topics")
        world.calm()
        assert await read_all(log) == [(0, b"a")]
        await owner.manager.close()

    virtual(main)


def history(seed: int) -> tuple[int, int, int]:
    """Kills, zombies, power loss of nothing, full disks and hand-overs in any order; (acknowledged, owners, fenced)."""

    async def main() -> tuple[int, int, int]:
        rnd = Random(seed)
        faults = Faults(
            request_s=(0.0001, 0.003),
            append_s=(0.0001, 0.01),
            break_writer_rate=rnd.choice([0.0, 0.02]),
            unavailable_rate=rnd.choice([0.0, 0.02]),
            lost_reply_rate=rnd.choice([0.0, 0.02]),
            half_takeover_rate=rnd.choice([0.0, 0.1]),
            recover_lease_rate=rnd.choice([0.0, 0.3]),
        )
        world = World(seed, faults, start_wait_max_s=300.0)
        ledger = Ledger()
        owners: list[Owner] = []
        results: list[asyncio.Future[AppendResult]] = []
        starts: list[asyncio.Future[PartitionRuntime]] = []
        for _ in range(rnd.randint(20, 80)):
            await asyncio.sleep(rnd.random() * 0.05)
            if not owners or rnd.random() < 0.06:
                owners.append(world.owner(SMALL))
                starts.append(asyncio.ensure_future(owners[-1].log()))
            owner = rnd.choice(owners[-2:])
            action = rnd.random()
            if action < 0.7:
                log = owner.manager.ready(KEY)
                if log is not None:
                    results += (ledger.send(log) for _ in range(rnd.randint(1, 5)))
            elif action < 0.76:
                owner.client.pause()
            elif action < 0.86:
                owner.client.resume()
            elif action < 0.9:
                owner.kill()
            elif action < 0.93:
                used = world.store.namespace.used_bytes
                world.store.capacity_bytes = rnd.choice([None, used + rnd.randint(0, 400)])
            elif action < 0.95:
                await owner.manager.unassign(KEY)
            elif action < 0.97 and (log := owner.manager.ready(KEY)) is not None:
                log.upkeep(1e9, world.clock.now_ms())
        world.calm()
        world.store.capacity_bytes = None
        for owner in owners:
            if rnd.random() < 0.5:
                owner.client.resume()
        last = world.owner(SMALL)
        await ledger.check(last)
        for _ in range(3):
            results.append(ledger.send(await last.log()))
        await asyncio.sleep(5)
        await ledger.check(last)
        for owner in (*owners, last):
            owner.client.resume()
            if owner.client.is_alive:
                await owner.manager.close()
        for start in starts:
            start.cancel()
        await asyncio.gather(*starts, return_exceptions=True)
        assert ErrorCode.UNKNOWN_SERVER_ERROR not in ledger.refused
        assert not any(owner.manager.counts.offline for owner in owners)
        assert not any(isinstance(s, Offline) for o in owners for s in _states(o))
        return len(ledger.acknowledged), len(owners), sum(owner.manager.counts.fenced for owner in owners)

    return virtual(main)


def _states(owner: Owner) -> list[object]:
    return [runtime.state for runtime in owner.manager.runtimes()]


def test_any_history_keeps_what_was_acknowledged() -> None:
    totals = [0, 0, 0]
    for seed in range(HISTORIES):
        try:
            totals = [total + count for total, count in zip(totals, history(seed), strict=True)]
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    acknowledged, owners, fenced = totals
    assert acknowledged > 15 * HISTORIES and owners > 2 * HISTORIES and fenced > HISTORIES // 3, totals
