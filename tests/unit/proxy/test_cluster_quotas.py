"""One quota over three proxies: what they give out together, and who gets which part. On virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from bmq.controller import quota_shares
from bmq.controller.quota_shares import QuotaShares, shares
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import decode_request, encode_request, parse_request_header
from bmq.protocol.internal_messages import QuotaShare, QuotaUse, ReportPartitionsRequest
from bmq.proxy.mute import Mute
from bmq.proxy.throttles import Throttles
from tests.simulation.loop import VirtualTimeLoop

pytestmark = pytest.mark.unit

QUOTA = 1_000_000.0
NODES = (1, 2, 3)
REQUEST_BYTES = 100_000


def virtual(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    loop = VirtualTimeLoop(time_limit_s=1_000)
    try:
        loop.run_until_complete(main())
        assert not loop.failures, loop.failures
    finally:
        loop.discard()


class Lab:
    """Three proxies that report to one controller once a second, and saturating producers at some of them."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.controller = QuotaShares()
        self.proxies = {node_id: Throttles() for node_id in NODES}
        self.sent: list[tuple[float, int]] = []
        for throttles in self.proxies.values():
            throttles.set_proxies(len(NODES))
            throttles.set_scope(is_cluster=True)
            throttles.quotas_changed({(("user", "u"),): {"producer_byte_rate": QUOTA}})
        self.tasks = [self.loop.create_task(self.report(node_id)) for node_id in NODES]

    async def report(self, node_id: int) -> None:
        while True:
            await asyncio.sleep(1)
            throttles, now_s = self.proxies[node_id], self.loop.time()
            throttles.take_shares(self.controller.take(node_id, throttles.uses(), 1.0, NODES, now_s))

    def load(self, node_id: int) -> asyncio.Task[None]:
        task = self.loop.create_task(self._produce(node_id))
        self.tasks.append(task)
        return task

    async def _produce(self, node_id: int) -> None:
        called = asyncio.Event()
        mute = Mute(self.loop, called.set)
        throttle = self.proxies[node_id].of("User:u", "c", lambda: mute)
        assert throttle is not None
        while True:
            called.clear()
            while not throttle.may_begin(ApiKey.PRODUCE, REQUEST_BYTES):
                await called.wait()
                called.clear()
            self.sent.append((self.loop.time(), node_id))
            await asyncio.sleep(0.005)

    def rate(self, from_s: float, until_s: float, *node_ids: int) -> float:
        """Part of the quota that was used."""
        wanted = node_ids or NODES
        count = sum(from_s <= at_s < until_s and node_id in wanted for at_s, node_id in self.sent)
        return count * REQUEST_BYTES / (until_s - from_s) / QUOTA

    async def end(self, at_s: float) -> None:
        await asyncio.sleep(at_s - self.loop.time())
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@pytest.mark.parametrize("used", [(1,), (1, 2), (1, 2, 3), (1, 1, 1, 2)])
def test_the_proxies_together_give_out_the_quota_wherever_its_clients_are(used: tuple[int, ...]) -> None:
    async def story() -> None:
        lab = Lab()
        for node_id in used:
            lab.load(node_id)
        await lab.end(90)
        assert lab.rate(30, 90) == pytest.approx(1, abs=0.05)

    virtual(story)


def test_a_proxy_that_begins_gets_its_part_and_one_that_ends_leaves_it() -> None:
    async def story() -> None:
        lab = Lab()
        first = lab.load(1)
        await asyncio.sleep(40)
        lab.load(2)
        await asyncio.sleep(40)
        first.cancel()
        await lab.end(140)
        assert lab.rate(20, 40, 1) == pytest.approx(1, abs=0.05)
        assert lab.rate(60, 80, 1) == pytest.approx(0.5, abs=0.1)
        assert lab.rate(60, 80, 2) == pytest.approx(0.5, abs=0.1)
        assert lab.rate(100, 140, 2) == pytest.approx(1, abs=0.05)

    virtual(story)


def test_shares_are_by_use_above_an_even_part_and_sum_up_to_one() -> None:
    assert shares({}) == {}
    assert shares({1: 0.0, 2: 0.0}) == {1: 0.5, 2: 0.5}
    assert shares({1: 300.0, 2: 100.0}) == {1: pytest.approx(0.675), 2: pytest.approx(0.325)}


def test_nodes_that_are_gone_or_silent_have_no_share() -> None:
    def share(controller: QuotaShares, node_id: int, now_s: float, *live: int) -> float:
        use = QuotaUse(key="k", user="u", client_id="", used_bytes=100)
        (one,) = controller.take(node_id, [use], 1.0, live, now_s)
        return one.share

    controller = QuotaShares()
    assert share(controller, 1, 0, 1, 2) == 1
    assert share(controller, 2, 0, 1, 2) == 0.5
    assert share(controller, 1, 0, 1) == 1
    assert share(controller, 2, 1, 1, 2) == 0.5
    assert share(controller, 2, 7, 1, 2) == 1


def test_the_controller_remembers_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_shares, "BUCKETS_MAX", 1)
    controller = QuotaShares()
    uses = [QuotaUse(key="k", user=user, client_id="", used_bytes=1) for user in ("a", "b")]
    assert [one.user for one in controller.take(1, uses, 1.0, (1,), 0)] == ["a"]
    assert [one.user for one in controller.take(1, uses[1:], 1.0, (1,), 100)] == ["b"]


def test_without_the_option_every_proxy_gives_out_the_whole_quota() -> None:
    async def story() -> None:
        lab = Lab()
        for throttles in lab.proxies.values():
            throttles.set_scope(is_cluster=False)
        for node_id in NODES:
            lab.load(node_id)
        await lab.end(90)
        assert all(not throttles.uses() for throttles in lab.proxies.values())
        assert lab.rate(30, 90) == pytest.approx(3, abs=0.1)

    virtual(story)


def test_a_report_carries_them_and_a_report_without_them_is_as_before() -> None:
    use = QuotaUse(key="producer_byte_rate", user="u", client_id="c", used_bytes=7)
    for uses in ([], [use]):
        request = ReportPartitionsRequest(node_id=1, quota_uses=uses)
        frame = encode_request(ApiKey.REPORT_PARTITIONS, 0, 1, None, request)
        read = decode_request(parse_request_header(frame), frame)
        assert [(one.key, one.user, one.client_id, one.used_bytes) for one in read.quota_uses] == [
            ("producer_byte_rate", "u", "c", 7) for _ in uses
        ]
    assert QuotaShare().share == 1.0
