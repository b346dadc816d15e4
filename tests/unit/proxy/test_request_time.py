"""The time that requests take: counted while a handler runs, not while it waits."""

from __future__ import annotations

import asyncio

import pytest

from bmq.proxy.client_throttle import ClientThrottle
from bmq.proxy.mute import Mute
from bmq.proxy.request_time import RequestTime
from bmq.proxy.throttle_stats import ThrottleStats
from bmq.proxy.throttles import Throttles

pytestmark = pytest.mark.unit


class Stopwatch:
    """A clock that goes on as a handler says."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def work(self, seconds: float) -> None:
        self.now_s += seconds


def request_time(watch: Stopwatch, limit: float) -> RequestTime:
    return RequestTime(asyncio.get_running_loop(), watch, limit)


async def test_a_handler_is_counted_while_it_runs_and_not_while_it_waits() -> None:
    watch = Stopwatch()
    time = request_time(watch, 1.0)
    waited_for: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def handler() -> str:
        watch.work(0.06)
        answer = await waited_for
        watch.work(0.06)
        return answer

    task = asyncio.create_task(time.drive(handler()))
    await asyncio.sleep(0)
    assert time.wait_ms() == 0  # 0.6 % of ten seconds
    watch.work(5)  # somebody else's
    waited_for.set_result("done")
    assert await task == "done"
    assert time.wait_ms() == 1_000  # 20 % too much, and never more than a window


async def test_errors_go_in_and_out() -> None:
    watch = Stopwatch()
    time = request_time(watch, 1.0)

    async def handler() -> str:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            watch.work(0.2)
            return "cancelled"
        return "not reached"

    async def failing() -> None:
        await asyncio.sleep(0)
        raise ValueError("of the handler")

    async def drive() -> str:
        return await time.drive(handler())

    task = asyncio.create_task(drive())
    await asyncio.sleep(0)
    task.cancel()
    assert await task == "cancelled"
    assert not time.is_idle
    with pytest.raises(ValueError, match="of the handler"):
        await time.drive(failing())


async def test_a_call_within_a_call_is_counted_once() -> None:
    watch = Stopwatch()
    time = request_time(watch, 2.0)

    def inner() -> None:
        watch.work(0.1)

    time.call(lambda: time.call(inner))
    assert time.wait_ms() == 0  # 1 %; counted twice it would be 2.1


@pytest.mark.usefixtures("loop_time")
async def test_the_longer_of_two_times_is_told_and_noted() -> None:
    watch = Stopwatch()
    mute = Mute(asyncio.get_running_loop(), lambda: None)
    stats = ThrottleStats(lambda: (0, 0))
    throttle = ClientThrottle(None, None, request_time(watch, 1.0), mute, stats)
    assert throttle.answered(0) == 0
    assert throttle.answered(40) == 40
    throttle.call(lambda: watch.work(0.101))
    assert throttle.answered(40) == 100
    assert mute.is_on
    assert dict(stats.counts) == {"controller_mutation": 1, "request": 1}
    assert sum(stats.seconds.values()) == pytest.approx(0.14)
    told = {sample.name: sample.value for metric in stats.collect() for sample in metric.samples}
    assert told["bmq_quota_buckets"] == 0 and "bmq_throttle_seconds_total" in told
    mute.close()


async def test_buckets_in_memory_are_bounded_and_idle_ones_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmq.proxy.throttles.BUCKETS_MAX", 2)
    throttles = Throttles()
    throttles.quotas_changed({(("client-id", None),): {"producer_byte_rate": 1_000.0}})
    told: list[str] = []
    throttles.on_change(lambda: told.append("changed"))
    mute = Mute(asyncio.get_running_loop(), lambda: None)
    first = throttles.of("User:u", "a", lambda: mute)
    assert first is not None and first.may_begin(0, 50_000)
    throttles.of("User:u", "b", lambda: mute)
    throttles.of("User:u", "c", lambda: mute)  # in place of b, which nobody used
    assert sorted(client_id for _, _, client_id in throttles._bytes) == ["a", "c"]
    throttles.of("User:u", "d", lambda: mute)  # looked for idle ones a moment ago
    assert len(throttles._bytes) == 2
    await asyncio.sleep(0)
    assert "changed" in told  # connections that still have one of b look it up again
    again = throttles.of("User:u", "a", lambda: mute)
    assert again is not None and again.produced() > 30_000
    mute.close()
