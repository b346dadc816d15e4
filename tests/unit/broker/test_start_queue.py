"""The order of starts, how many run at once, and when all of them are over."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random

import pytest

from bmq.broker.metrics import PartitionCounts
from bmq.broker.start_pace import STARTS_AT_FIRST, STARTS_MIN
from bmq.broker.start_queue import ADJUST_INTERVAL_S, APPENDS_MIN, LEFTOVERS_SHARE, QUIET_S, START_SLOW_S, StartQueue
from tests.unit.broker.world import virtual

pytestmark = pytest.mark.unit


class Starts:
    """Starts that last until the test ends them; `begun`: in what order."""

    def __init__(self, starts_max: int = 8) -> None:
        self.counts = PartitionCounts()
        self.queue = StartQueue(starts_max, self.counts)
        self.begun: list[str] = []
        self.running: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def add(self, *names: str, is_awaited: bool = True, is_paced: bool = False) -> None:
        for name in names:
            self.tasks[name] = asyncio.ensure_future(self._start(name, is_awaited=is_awaited, is_paced=is_paced))

    async def _start(self, name: str, *, is_awaited: bool, is_paced: bool) -> None:
        async with self.queue.slot(name, is_awaited=is_awaited, is_paced=is_paced):
            self.begun.append(name)
            self.running[name] = asyncio.Event()
            try:
                await self.running[name].wait()
            finally:
                del self.running[name]

    async def end(self, *names: str) -> None:
        for name in names:
            self.running[name].set()
        await settle()

    def append(self, count: int, seconds: float) -> None:
        self.counts.appends += count
        for _ in range(count):
            self.counts.store_latency.observe(seconds)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_what_somebody_waits_for_passes_what_nobody_has_asked_for() -> None:
    async def main() -> None:
        starts = Starts(starts_max=1)
        starts.add("running")
        starts.add("idle 1", "idle 2", is_awaited=False)
        starts.add("awaited 1", "awaited 2")
        await settle()
        starts.queue.ask("idle 2")
        starts.queue.ask("idle 2")
        starts.queue.ask("unknown")
        for _ in range(5):
            await starts.end(*starts.running)
        assert starts.begun == ["running", "awaited 1", "awaited 2", "idle 2", "idle 1"]

    virtual(main)


def test_starts_that_nobody_waits_for_make_no_crowd_beside_one_that_is_waited_for() -> None:
    async def main() -> None:
        starts = Starts()
        starts.add("awaited")
        starts.add(*map(str, range(6)), is_awaited=False)
        await asyncio.sleep(START_SLOW_S / 2)
        assert starts.begun == ["awaited", "0"], "a crowd takes time from what a caller waits for"
        starts.add("awaited 2", "awaited 3")
        await settle()
        assert starts.begun[2:] == ["awaited 2", "awaited 3"], "what callers wait for may be a crowd"
        await starts.end("awaited", "awaited 2")
        assert len(starts.running) == 2
        await starts.end("awaited 3")
        assert len(starts.running) == 6 and not starts.queue.waiting_count

    virtual(main)


def test_a_start_that_is_asked_for_as_it_runs_is_waited_for() -> None:
    async def main() -> None:
        starts = Starts()
        starts.add("0", "1", is_awaited=False)
        await settle()
        starts.queue.ask("0")
        starts.add("2", "3", is_awaited=False)
        await asyncio.sleep(START_SLOW_S / 2)
        assert starts.begun == ["0", "1"]
        starts.queue.ask("2")
        await settle()
        assert starts.begun == ["0", "1", "2"]

    virtual(main)


def test_a_start_that_lasts_long_keeps_no_unasked_one_from_beginning() -> None:
    async def main() -> None:
        starts = Starts()
        starts.add("stuck", "stuck too")
        starts.add("0", is_awaited=False)
        await asyncio.sleep(START_SLOW_S - ADJUST_INTERVAL_S * 2)
        assert "0" not in starts.begun
        await asyncio.sleep(ADJUST_INTERVAL_S * 4)
        assert "0" in starts.begun

    virtual(main)


def test_those_that_the_controller_paces_begin_first_and_as_many_as_may_run() -> None:
    async def main() -> None:
        starts = Starts(starts_max=4)
        starts.add("crowd 1", "crowd 2", "crowd 3")
        starts.add("paced 1", "paced 2", "paced 3", "paced 4", is_awaited=False, is_paced=True)
        await settle()
        assert starts.begun == ["crowd 1", "crowd 2", "paced 1", "paced 2"]
        assert starts.queue.waiting_count == 3 and not starts.queue.is_idle
        await starts.end("paced 1")
        assert starts.begun[4:] == ["paced 3"]
        starts.tasks["paced 4"].cancel()
        await starts.end("crowd 1", "crowd 2", "paced 2", "paced 3")
        assert starts.begun[5:] == ["crowd 3"]
        await starts.end("crowd 3")
        assert starts.queue.is_idle

    virtual(main)


def test_late_appends_make_starts_fewer_and_quick_ones_more() -> None:
    async def main() -> None:
        starts = Starts()
        starts.append(APPENDS_MIN, 0.001)
        names = [f"{number:02}" for number in range(40)]
        starts.add(*names)
        await settle()
        assert len(starts.running) == STARTS_AT_FIRST
        for _ in range(3):
            starts.append(APPENDS_MIN, 0.2)
            await asyncio.sleep(ADJUST_INTERVAL_S * 1.1)
        await starts.end(*list(starts.running))
        assert len(starts.running) == STARTS_MIN
        for _ in range(8):
            starts.append(1, 0.2)
            await asyncio.sleep(ADJUST_INTERVAL_S)
        assert len(starts.running) == STARTS_MIN, "slow appends are few"
        for _ in range(20):
            starts.append(APPENDS_MIN, 0.001)
            await asyncio.sleep(ADJUST_INTERVAL_S)
        assert len(starts.running) == 8
        while starts.running:
            await starts.end(*list(starts.running))
        assert starts.begun == names and starts.queue.is_idle

    virtual(main)


def test_a_node_without_traffic_starts_as_many_as_it_may() -> None:
    async def main() -> None:
        starts = Starts()
        starts.append(APPENDS_MIN, 0.001)  # long ago
        await asyncio.sleep(QUIET_S)
        starts.add(*map(str, range(20)))
        await asyncio.sleep(QUIET_S + ADJUST_INTERVAL_S * 9)
        assert len(starts.running) == 8

    virtual(main)


def test_a_start_that_only_waits_keeps_no_other_from_beginning() -> None:
    async def main() -> None:
        starts = Starts(starts_max=4)
        starts.append(APPENDS_MIN, 0.001)
        starts.add(*map(str, range(10)))
        await settle()
        for _ in range(3):
            starts.append(APPENDS_MIN, 0.2)
            await asyncio.sleep(ADJUST_INTERVAL_S * 1.1)
        await starts.end(*list(starts.running))
        assert len(starts.running) == 1
        for _ in range(int(START_SLOW_S / ADJUST_INTERVAL_S) + 1):
            starts.append(APPENDS_MIN, 0.2)
            await asyncio.sleep(ADJUST_INTERVAL_S)
        assert len(starts.running) == 2
        for _ in range(int(5 * START_SLOW_S / ADJUST_INTERVAL_S)):
            starts.append(APPENDS_MIN, 0.2)
            await asyncio.sleep(ADJUST_INTERVAL_S)
        assert len(starts.running) == 4, "never more than the setting says"

    virtual(main)


def test_what_starts_left_undone_is_done_one_after_the_other_and_with_rests() -> None:
    async def main() -> None:
        starts = Starts()
        loop = asyncio.get_running_loop()
        begun: list[float] = []

        async def write() -> None:
            await starts.queue.leftovers.acquire()
            begun.append(loop.time())
            await asyncio.sleep(0.1)
            starts.queue.leftover_done(begun[-1])

        first_s = loop.time()
        writes = [asyncio.ensure_future(write()) for _ in range(4)]
        await writes[0]
        assert loop.time() - first_s == pytest.approx(0.1), "its own rest is not waited for"
        await asyncio.gather(*writes)
        assert [at - first_s for at in begun] == pytest.approx([number * 0.1 / LEFTOVERS_SHARE for number in range(4)])

    virtual(main)


def test_idle_is_told_once_the_last_start_is_over() -> None:
    async def main() -> None:
        starts = Starts(starts_max=1)
        assert starts.queue.is_idle and starts.queue.idle().done()
        starts.add("first", "second")
        starts.add("third", is_awaited=False)
        await settle()
        idle = starts.queue.idle()
        for _ in range(3):
            assert not idle.done() and not starts.queue.is_idle
            await starts.end(*starts.running)
        assert idle.done() and starts.queue.idle().done()

    virtual(main)


@pytest.mark.parametrize("seed", range(20))
def test_cancelled_starts_leave_their_places_to_others(seed: int) -> None:
    async def main() -> None:
        random = Random(seed)
        starts = Starts(starts_max=3)
        for number in range(60):
            step = random.random()
            if step < 0.5:
                starts.add(str(number), is_awaited=random.random() < 0.5)
            elif step < 0.75 and starts.running:
                starts.running[random.choice(list(starts.running))].set()
            elif starts.tasks:
                starts.tasks[random.choice(list(starts.tasks))].cancel()
            if random.random() < 0.7:
                await settle()
            assert len(starts.running) <= 3
        while not all(task.done() for task in starts.tasks.values()):
            await starts.end(*list(starts.running))
        for task in starts.tasks.values():
            with suppress(asyncio.CancelledError):
                await task
        assert starts.queue.is_idle and not starts.queue._running
        await asyncio.sleep(1)
        starts.add("a", "b", "c")
        await settle()
        assert len(starts.running) == STARTS_AT_FIRST
        await starts.end(*list(starts.running))
        await starts.end(*list(starts.running))

    virtual(main)
