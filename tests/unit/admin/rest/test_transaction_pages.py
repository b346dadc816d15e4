"""Open transactions over REST: shown, ended by who was asked about them, and what is refused in one sentence."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from urllib.parse import quote
from uuid import UUID

import httpx
import pytest
from prometheus_client import CollectorRegistry

from bmq.admin.rest.sources import RestSources
from bmq.coordinator.topics import TRANSACTIONS_TOPIC
from bmq.log.config import LogConfig
from bmq.metadata.image import MetadataImage, Node, PartitionImage, TopicImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.request_context import by_itself
from bmq.protocol.transaction_records import TransactionStatus
from tests.unit.admin.rest.shared_application import application_over
from tests.unit.coordinator.transactions.test_transaction_checks import Asked, open_transaction
from tests.unit.coordinator.transactions.test_transaction_coordinator import settled
from tests.unit.coordinator.transactions.world import virtual

pytestmark = pytest.mark.unit

ID = "id/of a shop"


def image(leader: int) -> MetadataImage:
    topic_id = UUID(int=998)
    topic = TopicImage(
        TRANSACTIONS_TOPIC, topic_id, (PartitionImage(0, leader, 1, (1, 2), (1, 2)),), {}, LogConfig(), is_internal=True
    )
    nodes = [Node(number, "127.0.0.1", 9000 + number, None, rest=("127.0.0.1", 8000 + number)) for number in (1, 2)]
    return replace(
        MetadataImage(),
        topics={TRANSACTIONS_TOPIC: topic},
        topics_by_id={topic_id: topic},
        nodes={node.node_id: node for node in nodes},
    )


class CoordinatorRequests:
    """Implements bmq.admin.ports.KafkaRequests over a coordinator that has all shards."""

    def __init__(self, world: Asked) -> None:
        self._world = world

    def now_ms(self) -> int:
        return self._world.clock.now_ms()

    async def ask(self, api_key: ApiKey, request: Any, *, principal: str, host: str) -> Any:
        return await self._world.coordinator.handle(api_key, request, by_itself(api_key))


class Pages:
    def __init__(self, world: Asked | None, image: MetadataImage) -> None:
        sources = RestSources(
            lambda: True,
            lambda: image,
            dict,
            CollectorRegistry(),
            node_id=1,
            transactions=lambda: None if world is None else world.coordinator,
            kafka=lambda: None if world is None else CoordinatorRequests(world),
        )
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(application_over(sources)), base_url="http://node"
        )

    async def get(self, transactional_id: str = ID) -> httpx.Response:
        return await self.client.get(f"/v1/transactions/{quote(transactional_id, safe='')}")

    async def end(self, outcome: str, name: Any, transactional_id: str = ID) -> httpx.Response:
        return await self.client.post(f"/v1/transactions/{quote(transactional_id, safe='')}/{outcome}", json=name)


def run(main: Callable[[Asked, Pages], Awaitable[None]]) -> None:
    async def whole() -> None:
        world = Asked()
        pages = Pages(world, image(1))
        await main(world, pages)
        await pages.client.aclose()
        await world.coordinator.close()

    virtual(whole)


def test_a_transaction_is_shown_and_committed() -> None:
    async def main(world: Asked, pages: Pages) -> None:
        producer = await open_transaction(world, ID)
        shown = (await pages.get()).json()
        assert shown == {
            "transactional_id": ID,
            "state": "Ongoing",
            "is_open": True,
            "is_hanging": False,
            "producer_id": producer[0],
            "producer_epoch": producer[1],
            "started_ms": world.state(ID).start_ms,
            "age_ms": 0,
            "timeout_ms": 60_000,
            "topics": [{"topic": "t", "partitions": [0]}, {"topic": "u", "partitions": [1]}],
        }
        name = {key: shown[key] for key in ("producer_id", "producer_epoch", "started_ms")}
        wrong = await pages.end("commit", {**name, "started_ms": 1})
        assert wrong.status_code == 409 and "has no such transaction" in wrong.json()["detail"]
        done = await pages.end("commit", name)
        assert (done.status_code, done.json()) == (200, {"transactional_id": ID, "is_committed": True})
        await settled(world, TransactionStatus.COMPLETE_COMMIT, ID)
        assert (await pages.end("commit", name)).status_code == 200, "again"
        other = await pages.end("rollback", name)
        assert (other.status_code, other.json()["detail"]) == (409, "this transaction was committed before")
        assert (await pages.get()).json()["is_open"] is False

    run(main)


def test_a_rollback_and_an_id_that_has_not_opted_in() -> None:
    async def main(world: Asked, pages: Pages) -> None:
        for transactional_id in (ID, "other"):
            await open_transaction(world, transactional_id)
        names = {}
        for transactional_id in (ID, "other"):
            shown = (await pages.get(transactional_id)).json()
            names[transactional_id] = {key: shown[key] for key in ("producer_id", "producer_epoch", "started_ms")}
        refused = await pages.end("commit", names["other"], "other")
        assert refused.status_code == 409
        assert (
            refused.json()["detail"] == "transactional id other has not opted in to checks (bmq.transaction.check.ids)"
        )
        assert (await pages.end("rollback", names[ID])).json()["is_committed"] is False
        await settled(world, TransactionStatus.COMPLETE_ABORT, ID)
        later = await pages.end("commit", names[ID])
        assert (later.status_code, later.json()["detail"]) == (409, "this transaction was rolled back before")

    run(main)


def test_an_operator_aborts_a_transaction_and_fences_its_producer() -> None:
    """Also of an id that has not opted in to checks."""

    async def main(world: Asked, pages: Pages) -> None:
        producer = await open_transaction(world, "other")
        shown = (await pages.get("other")).json()
        name = {key: shown[key] for key in ("producer_id", "producer_epoch", "started_ms")}
        wrong = await pages.end("abort", {**name, "producer_epoch": 7}, "other")
        assert (wrong.status_code, wrong.json()["detail"]) == (
            409,
            "transactional id other has another transaction now, or none",
        )
        plan = (await pages.end("abort?dry_run=true", name, "other")).json()
        assert plan == {
            "transactional_id": "other",
            "summary": f"The transaction gets an abort marker in 2 partitions, and producer {producer[0]} is fenced.",
            "state": "Ongoing",
            "topics": shown["topics"],
        }
        assert (await pages.get("other")).json()["is_open"], "a plan changes nothing"
        done = await pages.end("abort", name, "other")
        assert done.status_code == 200 and done.json()["summary"].startswith(
            "The transaction is aborted in 2 partitions"
        )
        later = (await pages.get("other")).json()
        assert not later["is_open"] and later["producer_epoch"] > producer[1]
        assert [marker.is_commit for _, _, marker in world.markers.written] == [False, False]
        again = await pages.end("abort", name, "other")
        assert again.status_code == 409

    run(main)


def test_a_page_of_transactions_has_their_age_and_partitions() -> None:
    async def main(world: Asked, pages: Pages) -> None:
        for transactional_id in ("b", "a"):
            await open_transaction(world, transactional_id)
        await world.begun("c")
        page = (await pages.client.get("/v1/transactions", params={"limit": 2})).json()
        assert [(one["transactional_id"], one["state"], one["partition_count"]) for one in page["transactions"]] == [
            ("a", "Ongoing", 2),
            ("b", "Ongoing", 2),
        ]
        assert page["next_after"] == "b"
        last = (await pages.client.get("/v1/transactions", params={"after": "b"})).json()
        assert [(one["transactional_id"], one["age_ms"]) for one in last["transactions"]] == [("c", None)]
        assert last["next_after"] is None
        opened = (await pages.client.get("/v1/transactions", params={"show": "open"})).json()
        assert [one["transactional_id"] for one in opened["transactions"]] == ["a", "b"]

    run(main)


BAD: tuple[Any, ...] = (
    {},
    {"producer_id": 1, "producer_epoch": 0},
    {"producer_id": "1", "producer_epoch": 0, "started_ms": 0},
    {"producer_id": -1, "producer_epoch": 0, "started_ms": 0},
    {"producer_id": 2**63, "producer_epoch": 0, "started_ms": 0},
    {"producer_id": 1, "producer_epoch": 2**15, "started_ms": 0},
    {"producer_id": 1, "producer_epoch": 0, "started_ms": True},
    {"producer_id": 1, "producer_epoch": 0, "started_ms": 0, "force": True},
)


def test_what_names_no_transaction() -> None:
    async def main(world: Asked, pages: Pages) -> None:
        for name in BAD:
            assert (await pages.end("commit", name)).status_code == 422, name

    run(main)


def test_unknown_ids_and_other_nodes() -> None:
    async def main(world: Asked, pages: Pages) -> None:
        name = {"producer_id": 1, "producer_epoch": 0, "started_ms": 0}
        await world.begun("somebody")
        unknown = await pages.get("nobody")
        assert (unknown.status_code, unknown.json()["detail"]) == (404, "there is no transactional id nobody")
        assert (await pages.end("commit", name, "nobody")).status_code == 409
        elsewhere = Pages(world, image(2))
        response = await elsewhere.end("rollback", name)
        assert response.status_code == 307
        assert response.headers["location"].startswith("http://127.0.0.1:8002/v1/transactions/id")
        assert (await elsewhere.get("somebody")).status_code == 200, "any node shows it"
        nowhere = Pages(None, image(1))
        assert (await nowhere.get()).status_code == 503
        before = Pages(world, MetadataImage())
        assert (await before.end("commit", name)).status_code == 404
        for one in (elsewhere, nowhere, before):
            await one.client.aclose()

    run(main)
