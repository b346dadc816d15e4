"""A consumer of several proxies is answered at an even pace while it reads a backlog, and otherwise at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.metadata.image import Node
from bmq.protocol.request_context import RequestContext
from bmq.proxy.consumer_pace import CREDIT_S, FULL_BYTES, HEADROOM, RATE_MIN, RATE_START, ConsumerPace
from tests.fakes.peer import FakePeer
from tests.unit.proxy_fetch.cluster import NODE, Answer, FetchCluster, offsets_in, results, want

pytestmark = pytest.mark.unit

MIB = 1024 * 1024
BATCHES = 16


# -- The pace alone --------------------------------------------------------------------------------------------------------


def consume(pace: ConsumerPace, begin_s: float, seconds: float, *, think_s: float, size_bytes: int = 2 * MIB) -> float:
    """A client that asks again so long after each answer; returns its bytes per second."""
    now_s = arrived_s = begin_s
    taken_bytes = 0
    while now_s < begin_s + seconds:
        pace.answered(arrived_s, now_s, size_bytes)
        taken_bytes += size_bytes
        arrived_s = now_s + think_s
        now_s = max(arrived_s, pace.due_s)
    return taken_bytes / (now_s - begin_s)


@pytest.mark.parametrize("bytes_per_s", [50e6, 200e6, 500e6, 700e6])
def test_an_even_consumer_is_never_held_back(bytes_per_s: float) -> None:
    pace = ConsumerPace()
    found = consume(pace, 100.0, 2.0, think_s=2 * MIB / bytes_per_s)
    assert found == pytest.approx(bytes_per_s, rel=0.02)


def test_a_burst_is_evened_out() -> None:
    pace = ConsumerPace()
    consume(pace, 100.0, 1.0, think_s=2 * MIB / 300e6)
    assert consume(pace, 101.0, 0.02, think_s=0.0) * 0.02 < 300e6 * (0.02 * 1.35 + CREDIT_S) + 3 * MIB


def test_a_consumer_that_gets_faster_is_followed() -> None:
    pace = ConsumerPace()
    consume(pace, 100.0, 1.0, think_s=2 * MIB / 200e6)
    consume(pace, 101.0, 1.5, think_s=0.0)
    assert consume(pace, 102.5, 0.1, think_s=0.0) > 1e9


def test_a_pause_leaves_the_rate_and_holds_nothing_back() -> None:
    pace = ConsumerPace()
    pace.answered(100.0, 100.0, 2 * MIB)
    pace.answered(101.0, 101.0, 2 * MIB)
    assert pace.due_s == pytest.approx(101.0 - CREDIT_S + 2 * MIB / (RATE_START * HEADROOM))


def test_what_the_store_takes_does_not_slow_the_client_down() -> None:
    pace = ConsumerPace()
    now_s = 100.0
    for _ in range(200):
        arrived_s = now_s + 2 * MIB / 600e6
        now_s = arrived_s + 0.020  # from the store
        pace.answered(arrived_s, now_s, 2 * MIB)
    assert consume(pace, now_s, 0.1, think_s=2 * MIB / 600e6) == pytest.approx(600e6, rel=0.05)


@given(st.integers(0, FULL_BYTES - 1), st.floats(0, 10))
def test_small_answers_change_nothing(size_bytes: int, pause_s: float) -> None:
    pace, other = ConsumerPace(), ConsumerPace()
    for one in (pace, other):
        one.answered(100.0, 100.0, 4 * MIB)
    pace.answered(100.0 + pause_s, 100.0 + pause_s, size_bytes)
    assert pace.due_s == other.due_s
    for one in (pace, other):
        one.answered(120.0, 120.0, 4 * MIB)
    assert pace.due_s == other.due_s


@given(st.lists(st.tuples(st.floats(0, 0.2), st.integers(1, 64 * MIB)), min_size=1))
def test_no_fetch_waits_longer_than_its_answer_takes_at_the_least_rate(fetches: list[tuple[float, int]]) -> None:
    pace = ConsumerPace()
    now_s = arrived_s = 100.0
    for think_s, size_bytes in fetches:
        pace.answered(arrived_s, now_s, size_bytes)
        assert pace.due_s - now_s <= size_bytes / (RATE_MIN * HEADROOM) + 1e-9
        arrived_s = now_s + think_s
        now_s = max(arrived_s, pace.due_s)


# -- Fetches ---------------------------------------------------------------------------------------------------------------


class Paced:
    """A cluster with this many proxies, and a consumer's connection to ours."""

    def __init__(self, proxies: int, software: tuple[str, str] = ("librdkafka", "2.0.2")) -> None:
        self.software = software
        self.cluster = FetchCluster()
        self.connection = FakePeer()
        nodes = {number: Node(number, f"h{number}", 1, None) for number in range(2, proxies + 1)}
        image = self.cluster.controller.image
        self.cluster.controller.image = replace(image, nodes={NODE.node_id: NODE, **nodes})
        for _ in range(BATCHES):
            self.cluster.produce(value_bytes=MIB)

    @property
    def context(self) -> RequestContext:
        return RequestContext(18, "test", "127.0.0.1", *self.software, peer=self.connection)  # type: ignore[arg-type]

    @property
    def pace(self) -> ConsumerPace:
        """Of its connection."""
        found = self.cluster.fetcher.paces.of(self.context, self.cluster.controller)
        assert found is not None
        return found

    def send(self, offset: int) -> Answer:
        request = want({0: offset}, partition_max_bytes=8 * MIB + 2_000, max_wait_ms=60_000)
        return self.cluster.send(request, 18, self.context)


@pytest.fixture
async def two() -> AsyncIterator[Paced]:
    made = Paced(proxies=2)
    yield made
    await made.cluster.fetcher.close()


async def test_a_fetch_before_its_time_waits_and_each_full_answer_sets_it(two: Paced) -> None:
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    first = two.send(0)
    assert offsets_in(results(first.result())[0].records) == list(range(8)), "at once"
    assert two.pace.due_s >= begun_s - CREDIT_S + 8 * MIB / (RATE_START * HEADROOM)
    two.pace.due_s = due_s = loop.time() + 0.05
    second = two.send(8)
    assert not second.done()
    assert offsets_in(results(await asyncio.wait_for(second, 10))[0].records) == list(range(8, 16))
    assert loop.time() >= due_s and two.pace.due_s > due_s
    assert len(two.cluster.fetcher.shared.deadlines) == 0


@pytest.mark.parametrize(
    ("proxies", "software", "paced"),
    [
        (1, ("librdkafka", "2.0.2"), 0),
        (2, ("librdkafka", "2.0.2"), 1),
        (2, ("confluent-kafka-python", "2.6.0-librdkafka-2.6.0"), 1),
        (2, ("apache-kafka-java", "4.1.0"), 0),
        (2, ("unknown", "unknown"), 0),
    ],
)
async def test_librdkafka_alone_is_paced_and_by_several_proxies(
    proxies: int, software: tuple[str, str], paced: int
) -> None:
    one = Paced(proxies, software)
    assert one.send(0).done()
    assert len(one.cluster.fetcher.paces) == paced
    if not paced:
        for offset in (8, 0, 8):
            assert one.send(offset).done()
    await one.cluster.fetcher.close()


async def test_a_stopping_server_answers_who_waits_for_its_time(two: Paced) -> None:
    two.send(0)
    two.pace.due_s = asyncio.get_running_loop().time() + 3_600
    second = two.send(8)
    assert not second.done()
    two.cluster.fetcher.stop_waiting()
    assert results(second.result())[0].records


async def test_a_lost_connection_is_forgotten(two: Paced) -> None:
    two.send(0)
    two.send(8)
    assert len(two.cluster.fetcher.paces) == len(two.connection.lost) == 1
    two.connection.lost[0]()
    assert len(two.cluster.fetcher.paces) == 0
