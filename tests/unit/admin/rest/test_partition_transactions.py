"""Open transactions in partitions: which of them hang, and the abort marker of one that does."""

from __future__ import annotations

from typing import Any

import pytest

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.describe_producers_response import ProducerState
from bmq.protocol.messages.describe_transactions_response import TopicData, TransactionState
from tests.fakes.kafka_requests import FakeKafkaRequests
from tests.unit.admin.rest.cluster import RestCluster

pytestmark = pytest.mark.unit

LISTING = "/v1/topics/orders/transactions"
ABORT = "/v1/topics/orders/partitions/1/transactions/abort"
NAME = {"producer_id": 8, "producer_epoch": 2, "start_offset": 40}


def producer(producer_id: int, start_offset: int) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=2,
        last_timestamp=1_000,
        coordinator_epoch=5,
        current_txn_start_offset=start_offset,
    )


class Hanging(RestCluster):
    """Producer 7 is known to the coordinator of `shop` in partition 0, producer 8 hangs in partition 1, 9 has nothing open."""

    def __init__(self) -> None:
        super().__init__()
        self.fake = self.kafka = FakeKafkaRequests()
        self.fake.open_producers = {
            ("orders", 0): [producer(7, 30), producer(9, -1)],
            ("orders", 1): [producer(8, 40)],
        }
        self.fake.transactions["shop"] = TransactionState(
            transactional_id="shop",
            transaction_state="Ongoing",
            producer_id=7,
            topics=[TopicData(topic="orders", partitions=[0])],
        )


def lines(page: Any) -> list[tuple[int, int, str | None, bool | None]]:
    return [
        (one["partition"], one["producer_id"], one["transactional_id"], one["is_hanging"])
        for one in page["transactions"]
    ]


async def test_what_no_coordinator_knows_hangs() -> None:
    async with Hanging() as cluster:
        page = await cluster.get(LISTING)
        assert lines(page) == [(0, 7, "shop", False), (1, 8, None, True)]
        assert page["problems"] == {} and page["next_skip"] is None
        first = await cluster.get(LISTING, limit=1)
        assert lines(first) == [(0, 7, "shop", False)] and first["next_skip"] == 1


async def test_a_transaction_that_just_ended_is_not_shown() -> None:
    """Its coordinator has forgotten it, and its marker is in the partition."""
    async with Hanging() as cluster:
        ask, seen = cluster.fake.ask, 0

        async def ended_between(api_key: ApiKey, request: Any, *, principal: str, host: str) -> Any:
            nonlocal seen
            if api_key is ApiKey.LIST_TRANSACTIONS:
                seen += 1
                cluster.fake.open_producers[("orders", 1)] = [producer(8, -1)]
            return await ask(api_key, request, principal=principal, host=host)

        cluster.fake.ask = ended_between  # type: ignore[method-assign]
        assert lines(await cluster.get(LISTING)) == [(0, 7, "shop", False)]
        assert seen == 1


async def test_an_owner_that_is_away_is_a_problem_of_its_partition() -> None:
    async with Hanging() as cluster:
        cluster.fake.refused[ApiKey.DESCRIBE_PRODUCERS] = ErrorCode.NOT_LEADER_OR_FOLLOWER
        page = await cluster.get(LISTING)
        assert page["problems"] == dict.fromkeys("012", "NOT_LEADER_OR_FOLLOWER")
        assert (await cluster.post(ABORT, 503, NAME))["detail"].startswith("the owner of orders-1 does not answer now")


async def test_a_coordinator_that_is_away_makes_nothing_hang() -> None:
    async with Hanging() as cluster:
        cluster.fake.refused[ApiKey.DESCRIBE_TRANSACTIONS] = ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert "not all coordinators answer now" in (await cluster.get(LISTING, 503))["detail"]
        cluster.fake.refused = {ApiKey.LIST_TRANSACTIONS: ErrorCode.COORDINATOR_NOT_AVAILABLE}
        await cluster.post(ABORT, 503, NAME)


async def test_a_hanging_transaction_is_aborted_by_a_marker() -> None:
    async with Hanging() as cluster:
        plan = await cluster.post(ABORT, 200, NAME, dry_run=True)
        assert plan == {"summary": "orders-1 gets an abort marker of producer 8, epoch 2."}
        assert ("orders", 1) in cluster.fake.open_producers
        done = await cluster.post(ABORT, 200, NAME)
        assert done == {"summary": "orders-1 has an abort marker of producer 8, epoch 2."}
        (marker,) = cluster.fake.requests[-1].markers
        assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (8, 2, 5)
        assert marker.transaction_result is False
        assert lines(await cluster.get(LISTING)) == [(0, 7, "shop", False)]


@pytest.mark.parametrize(("change", "status"), [({"start_offset": 41}, 409), ({"producer_epoch": 3}, 409), ({}, 503)])
async def test_an_abort_that_is_refused(change: dict[str, int], status: int) -> None:
    async with Hanging() as cluster:
        cluster.fake.refused[ApiKey.WRITE_TXN_MARKERS] = ErrorCode.NOT_LEADER_OR_FOLLOWER
        await cluster.post(ABORT, status, {**NAME, **change})


async def test_a_transaction_that_a_coordinator_knows_is_not_aborted_in_one_partition() -> None:
    async with Hanging() as cluster:
        known = {"producer_id": 7, "producer_epoch": 2, "start_offset": 30}
        refused = await cluster.post("/v1/topics/orders/partitions/0/transactions/abort", 409, known)
        assert refused["detail"].startswith("the coordinator of shop knows this transaction")
        await cluster.post("/v1/topics/orders/partitions/9/transactions/abort", 404, known)
        await cluster.post("/v1/topics/none/partitions/0/transactions/abort", 404, known)
