"""Transactions in pages, those that hang among them, and coordinators that do not answer."""

from __future__ import annotations

import pytest

from bmq.admin.rest.transaction_listing import Shown, transaction_page
from bmq.admin.rest.transaction_views import HANGING_AFTER_MS, TransactionPage, is_hanging
from bmq.admin.rest.user_requests import UserRequests
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.describe_transactions_response import TopicData, TransactionState
from tests.fakes.kafka_requests import NOW_MS, FakeKafkaRequests
from tests.unit.admin.rest.cluster import RestCluster

pytestmark = pytest.mark.unit

TIMEOUT_MS = 60_000
LATE_MS = NOW_MS - TIMEOUT_MS - HANGING_AFTER_MS - 1


def state(transactional_id: str, state: str = "Ongoing", started_ms: int = NOW_MS - 5_000) -> TransactionState:
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=state,
        transaction_start_time_ms=started_ms,
        transaction_timeout_ms=TIMEOUT_MS,
        producer_id=7,
        producer_epoch=3,
        topics=[TopicData(topic="t", partitions=[1, 0])],
    )


def fake_of(*states: TransactionState) -> FakeKafkaRequests:
    fake = FakeKafkaRequests()
    fake.transactions = {one.transactional_id: one for one in states}
    return fake


async def page_of(
    fake: FakeKafkaRequests, show: Shown = Shown.ALL, prefix: str = "", after: str = "", limit: int = 100
) -> TransactionPage:
    requests = UserRequests(fake, "User:a", "10.0.0.1")
    return await transaction_page(requests, show, prefix, after, limit)


def ids(page: TransactionPage) -> list[str]:
    return [one.transactional_id for one in page.transactions]


@pytest.mark.parametrize("name", ["Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"])
def test_what_has_no_end_a_minute_after_its_time_out_hangs(name: str) -> None:
    assert is_hanging(name, LATE_MS, TIMEOUT_MS, NOW_MS)
    assert not is_hanging(name, LATE_MS + 1, TIMEOUT_MS, NOW_MS)
    assert not is_hanging(name, -1, TIMEOUT_MS, NOW_MS), "it has not begun"


@pytest.mark.parametrize("name", ["Empty", "CompleteCommit", "CompleteAbort", "Dead"])
def test_what_has_ended_does_not_hang(name: str) -> None:
    assert not is_hanging(name, LATE_MS, TIMEOUT_MS, NOW_MS)


async def test_pages_follow_each_other_in_the_order_of_the_ids() -> None:
    fake = fake_of(*(state(f"id{number:02d}") for number in (3, 1, 2, 0)), state("other"))
    first = await page_of(fake, prefix="id", limit=3)
    assert (ids(first), first.next_after) == (["id00", "id01", "id02"], "id02")
    last = await page_of(fake, prefix="id", after="id02", limit=3)
    assert (ids(last), last.next_after) == (["id03"], None)
    assert {one[1] for one in fake.asked} == {"User:a"}, "as the principal of the request"


async def test_hanging_ones_are_looked_for_beyond_a_page() -> None:
    states = [state(f"id{number:03d}", started_ms=LATE_MS if number % 100 == 99 else NOW_MS) for number in range(700)]
    fake = fake_of(*states, state("z", "CompleteAbort", LATE_MS))
    first = await page_of(fake, Shown.HANGING, limit=5)
    assert ids(first) == ["id099", "id199", "id299", "id399", "id499"]
    last = await page_of(fake, Shown.HANGING, after=first.next_after or "", limit=5)
    assert (ids(last), last.next_after) == (["id599", "id699"], None)
    assert all(one.is_hanging for one in last.transactions)


async def test_a_coordinator_that_is_away_hides_nothing() -> None:
    fake = fake_of(state("a"))
    fake.refused[ApiKey.DESCRIBE_TRANSACTIONS] = ErrorCode.COORDINATOR_NOT_AVAILABLE
    (line,) = (await page_of(fake)).transactions
    assert (line.state, line.producer_id, line.producer_epoch) == ("Ongoing", 7, None)
    assert line.problem == "COORDINATOR_NOT_AVAILABLE"
    fake.refused[ApiKey.DESCRIBE_TRANSACTIONS] = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert (await page_of(fake)).transactions == [], "it has expired meanwhile"


async def test_the_list_says_why_it_cannot_be_made() -> None:
    async with RestCluster() as cluster:
        cluster.kafka = fake_of(state("a"))
        cluster.kafka.refused[ApiKey.LIST_TRANSACTIONS] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert (await cluster.get("/v1/transactions", 503))["detail"] == "COORDINATOR_LOAD_IN_PROGRESS"
        await cluster.get("/v1/transactions", 422, show="some")
        await cluster.get("/v1/transactions", 422, limit=1_001)
        cluster.kafka = None
        await cluster.get("/v1/transactions", 503)


async def test_an_abort_is_asked_again_until_it_has_begun() -> None:
    """A record of the id that is being written gives the same code as an abort that has begun."""
    async with RestCluster() as cluster:
        cluster.kafka = fake = fake_of(state("a"))
        fake.passing[ApiKey.INIT_PRODUCER_ID] = [ErrorCode.CONCURRENT_TRANSACTIONS]
        name = {"producer_id": 7, "producer_epoch": 3, "started_ms": NOW_MS - 5_000}
        done = await cluster.post("/v1/transactions/a/abort", 200, name)
        assert done["state"] == "PrepareAbort"
        asked = [one for one in fake.requests if getattr(one, "transaction_timeout_ms", None) == TIMEOUT_MS]
        assert len(asked) == 2
        assert {(one.producer_id, one.producer_epoch) for one in asked} == {(7, 3)}


async def test_an_abort_that_is_refused() -> None:
    async with RestCluster() as cluster:
        cluster.kafka = fake = fake_of(state("a"), state("b", "PrepareCommit"))
        name = {"producer_id": 7, "producer_epoch": 3, "started_ms": NOW_MS - 5_000}
        ending = await cluster.post("/v1/transactions/b/abort", 409, name)
        assert ending["detail"] == "the transaction of b is not open: its state is PrepareCommit"
        await cluster.post("/v1/transactions/none/abort", 404, name)
        fake.refused[ApiKey.INIT_PRODUCER_ID] = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        await cluster.post("/v1/transactions/a/abort", 403, name)
        assert fake.transactions["a"].transaction_state == "Ongoing"
