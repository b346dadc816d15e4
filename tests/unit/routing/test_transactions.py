"""Transactions behind any node of a cluster: carried to their coordinators, their markers to the partitions' owners."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

import bmq.internode_server.handlers.transaction_decisions  # noqa: F401 - registers its handler
from bmq.coordinator.runtime.directory import shard_of
from bmq.coordinator.transactions.check_back import CheckPolicy
from bmq.log.partition_log import TopicPartition
from bmq.log.transactions import TransactionClaim, TransactionMarker
from bmq.metadata.image import OFFSETS_TOPIC_NAME, TRANSACTIONS_TOPIC_NAME
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from bmq.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from bmq.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from bmq.protocol.messages.list_transactions_request import ListTransactionsRequest
from bmq.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from bmq.protocol.request_context import RequestContext
from bmq.protocol.transaction_decisions import TransactionDecideRequest
from bmq.proxy.dispatch import HANDLERS
from tests.unit.routing.group_cluster import virtual
from tests.unit.routing.transaction_cluster import IDS, SHARDS, TOPIC_ID, TransactionClient, TransactionCluster

pytestmark = pytest.mark.unit

E = ErrorCode
Story = Callable[[TransactionCluster, TransactionClient], Awaitable[None]]
ADDING = TransactionClaim("", may_add=True)


def told(story: Story, **options: Any) -> None:
    """Run a story on virtual time, with a client of proxy 1."""

    async def main() -> None:
        cluster = TransactionCluster(**options)
        await story(cluster, TransactionClient(cluster))
        await cluster.close()

    virtual(main)


@pytest.mark.parametrize("owner", [1, 2])
def test_a_transaction_through_any_proxy(owner: int) -> None:
    async def story(cluster: TransactionCluster, client: TransactionClient) -> None:
        name = cluster.id_at(owner)
        error, *producer = await client.init(name)
        assert (error, producer) == (0, [1_001, 0])
        assert await client.add(name, (1_001, 0), 0, 1, 2, 4) == [0] * 4
        assert await TransactionClient(cluster, 3).add(name, (1_001, 0), 5) == [0]
        assert await client.end(name, (1_001, 0)) == (0, 1_001, 1)
        await asyncio.sleep(1)
        marker = TransactionMarker(1_001, 1, 0, True, 2)
        assert sorted(cluster.written()) == [
            (1, "t", 0, marker),
            (2, "t", 1, marker),
            (2, "t", 4, marker),
            (3, "t", 2, marker),
            (3, "t", 5, marker),
        ]
        assert await client.end(name, (1_001, 0)) == (0, 1_001, 1)
        asked = [node for node, api_key in cluster.links.calls if api_key is ApiKey.WRITE_TXN_MARKERS]
        assert sorted(asked) == sorted({1, 2, 3} - {owner}), "one request for each other owner"

    told(story)


@pytest.mark.parametrize("owner", [1, 2])
def test_a_decision_through_any_proxy(owner: int) -> None:
    async def story(cluster: TransactionCluster, client: TransactionClient) -> None:
        name = cluster.id_at(owner)
        await client.init(name)
        await client.add(name, (1_001, 0), 0, 1)
        coordinator = cluster.nodes[owner].coordinator
        shard = coordinator.directory.find(name)
        value = None if shard is None else shard.value_of(name)
        assert value is not None
        request = TransactionDecideRequest(
            transactional_id=name, producer_id=1_001, producer_epoch=0, start_ms=value.start_ms, is_commit=True
        )
        decide = cluster.nodes[1].transactions.decisions.decide
        assert (await decide(request)).error_code == E.INVALID_REQUEST, "the id has not opted in"
        for node in cluster.nodes.values():
            node.coordinator.reconfigure_checks(CheckPolicy((name,), topic="checks"))
        assert (await decide(replace(request, start_ms=1))).error_code == E.INVALID_PRODUCER_ID_MAPPING
        assert (await decide(request)).error_code == 0
        await asyncio.sleep(1)
        assert {(topic, number) for _, topic, number, _ in cluster.written()} == {("t", 0), ("t", 1)}
        cluster.move(TRANSACTIONS_TOPIC_NAME, shard_of(name, SHARDS), 3)
        assert (await decide(request)).error_code == 0, "again, of the next owner"
        assert (await decide(replace(request, is_commit=False))).error_code == E.INVALID_TXN_STATE

    told(story)


def test_finding_a_coordinator_makes_the_topic() -> None:
    async def story(cluster: TransactionCluster, client: TransactionClient) -> None:
        assert (await client.init("id"))[0] == E.NOT_COORDINATOR
        node = await cluster.nodes[1].transactions.prepare("id")
        assert node is not None and cluster.created == [TRANSACTIONS_TOPIC_NAME]
        assert node.node_id == cluster.image.topics[TRANSACTIONS_TOPIC_NAME].partitions[shard_of("id", SHARDS)].leader
        assert (await client.init("id"))[0] == 0

    told(story, has_topic=False)


def test_offsets_of_a_group_that_nobody_has_looked_for() -> None:
    async def story(cluster: TransactionCluster, client: TransactionClient) -> None:
        name = cluster.id_at(2)
        await client.init(name)
        request = AddOffsetsToTxnRequest(transactional_id=name, producer_id=1_001, producer_epoch=0, group_id="g")
        assert (await client.ask(ApiKey.ADD_OFFSETS_TO_TXN, request, 3)).error_code == 0
        assert cluster.created == [OFFSETS_TOPIC_NAME]
        assert await client.end(name, (1_001, 0), version=3) == (0, -1, -1)
        await asyncio.sleep(1)
        ((node, topic, number, _),) = cluster.written()
        assert (topic, number, node) == (OFFSETS_TOPIC_NAME, shard_of("g", SHARDS), shard_of("g", SHARDS) % 3 + 1)

    told(story)


def test_who_has_no_coordinator_now_waits_for_the_next() -> None:
    async def story(cluster: TransactionCluster, client: TransactionClient) -> None:
        name = cluster.id_at(2)
        await client.init(name)
        await client.add(name, (1_001, 0), 0)
        cluster.links.down.add(2)
        ending = asyncio.create_task(client.end(name, (1_001, 0), version=3))
        await asyncio.sleep(0.5)
        assert not ending.done()
        cluster.move(TRANSACTIONS_TOPIC_NAME, shard_of(name, SHARDS), 3)
        assert await ending == (0, -1, -1), "it was never sent, so it is sent now"
        await asyncio.sleep(1)
        assert [marker.coordinator_epoch for _, _, _, marker in cluster.written()] == [1]

    told(story)


def test_what_is_repeated_when_an_answer_is_lost() -> None:
    async def story(cluster: TransactionCluster, client: TransactionClient) -> None:
        name = cluster.id_at(2)
        cluster.links.lose_answers(1)
        assert (await client.init(name))[0] == E.COORDINATOR_NOT_AVAILABLE, "each try of a new instance has an epoch"
        assert await client.init(name) == (0, 1_001, 1)
        cluster.links.lose_answers(1)
        assert await client.init(name, (1_001, 1)) == (0, 1_001, 2), "the same epoch again"
        cluster.links.lose_answers(1)
        assert await client.add(name, (1_001, 2), 0) == [E.COORDINATOR_NOT_AVAILABLE]
        assert await client.add(name, (1_001, 2), 0) == [0]
        cluster.links.lose_answers(1)
        assert (await client.end(name, (1_001, 2), version=4))[0] == E.COORDINATOR_NOT_AVAILABLE
        await asyncio.sleep(1)
        assert await client.end(name, (1_001, 2), version=4) == (0, -1, -1)
        assert await client.add(name, (1_001, 2), 0) == [0]
        cluster.links.lose_answers(1)
        first = await client.end(name, (1_001, 2))
        assert first[0] in (0, E.CONCURRENT_TRANSACTIONS)
        await asyncio.sleep(1)
        assert await client.end(name, (1_001, 2)) == (0, 1_001, 3)
        assert len(cluster.written()) == 2, "one marker for each transaction"
        request = DescribeTransactionsRequest(transactional_ids=[name, cluster.id_at(1), cluster.id_at(3)])
        cluster.links.lose_answers(2)
        states = (await client.ask(ApiKey.DESCRIBE_TRANSACTIONS, request, 0)).transaction_states
        assert [one.error_code for one in states] == [0, E.TRANSACTIONAL_ID_NOT_FOUND, E.TRANSACTIONAL_ID_NOT_FOUND]
        assert states[0].transaction_state == "CompleteCommit"

    told(story)


def test_an_old_request_is_not_sent() -> None:
    async def story(cluster: TransactionCluster, client: TransactionClient) -> None:
        for owner in (1, 2):
            name = cluster.id_at(owner)
            _, *producer = await client.init(name)
            await client.add(name, (producer[0], 0), 0)
            await asyncio.sleep(20)
            client.received_s = asyncio.get_running_loop().time() - 11
            for version in (4, 5):
                assert (await client.end(name, (producer[0], 0), version=version))[0] == E.COORDINATOR_NOT_AVAILABLE
            client.received_s = None
        assert not cluster.written()

    told(story)


def test_a_list_of_all_and_of_each_only_once() -> None:
    async def story(cluster: TransactionCluster, client: TransactionClient) -> None:
        names = sorted({cluster.id_at(owner) for owner in (1, 2, 3)})
        for name in names:
            await client.init(name)

        async def listed(node_id: int, **filters: Any) -> list[str]:
            request = ListTransactionsRequest(**filters)
            answer = await TransactionClient(cluster, node_id).ask(ApiKey.LIST_TRANSACTIONS, request, 2)
            assert answer.error_code == 0
            return [one.transactional_id for one in answer.transaction_states]

        assert sorted([*await listed(1), *await listed(2), *await listed(3)]) == names
        assert [await listed(n, state_filters=["Ongoing"]) for n in (1, 2, 3)] == [[], [], []]
        request = ListTransactionsRequest(state_filters=["Odd"], transactional_id_pattern="(")
        answer = await client.ask(ApiKey.LIST_TRANSACTIONS, request, 2)
        assert answer.error_code == E.INVALID_REGULAR_EXPRESSION
        answer = await client.ask(ApiKey.LIST_TRANSACTIONS, replace(request, transactional_id_pattern=None), 2)
        assert list(answer.unknown_state_filters) == ["Odd"]

    told(story)


# ---------------------------------------------------------------- verification


def test_owners_ask_together() -> None:
    async def story(cluster: TransactionCluster, client: TransactionClient) -> None:
        name, other = cluster.id_at(2), cluster.id_at(2, 1)
        await client.init(name)
        await client.init(other)
        verify = cluster.nodes[1].transactions.verify
        cluster.links.calls.clear()
        codes = await asyncio.gather(
            *(verify(ADDING._replace(transactional_id=name), 1_001, 0, "t", [n]) for n in range(4)),
            verify(ADDING._replace(transactional_id=other), 1_002, 0, "t", [0, 5]),
            verify(TransactionClaim(other), 1_002, 7, "t", [0]),
        )
        assert codes[:4] == [[0]] * 4 and list(codes[4]) == [0, 0] and list(codes[5]) == [E.PRODUCER_FENCED]
        assert cluster.links.calls == [(2, ApiKey.ENVELOPE)], "one question"
        assert len(cluster.logs[shard_of(name, SHARDS)].batches) <= 4, "one record for four partitions"
        assert await verify(TransactionClaim(name), 1_001, 0, "t", [3, 5]) == [0, E.TRANSACTION_ABORTABLE]
        cluster.is_verifying = False
        assert await verify(TransactionClaim(name), 1_001, 0, "t", [3, 5]) == [0, 0]
        assert await verify(ADDING._replace(transactional_id=name), 1_001, 9, "t", [3]) == [E.PRODUCER_FENCED]

    told(story)


def test_a_bad_partition_is_its_own_trouble() -> None:
    async def story(cluster: TransactionCluster, client: TransactionClient) -> None:
        name = cluster.id_at(2)
        await client.init(name)
        verify = cluster.nodes[1].transactions.verify
        claim = ADDING._replace(transactional_id=name)
        codes = await asyncio.gather(
            verify(claim, 1_001, 0, "t", [0]),
            verify(claim, 1_001, 0, "gone", [0]),
            verify(claim, 1_001, 0, "t", [2, 3]),
        )
        assert [list(one) for one in codes] == [[0], [E.UNKNOWN_TOPIC_OR_PARTITION], [0, 0]]

    told(story)


def test_a_coordinator_that_is_not_reached_is_said_so() -> None:
    async def story(cluster: TransactionCluster, client: TransactionClient) -> None:
        here, there = cluster.id_at(1), cluster.id_at(2)
        await client.init(here)
        await client.init(there)
        cluster.links.down.add(2)
        verify = cluster.nodes[1].transactions.verify
        asked = [
            asyncio.create_task(verify(ADDING._replace(transactional_id=name), pid, 0, "t", [0, 1]))
            for name, pid in ((here, 1_001), (there, 1_002))
        ]
        await asyncio.sleep(0.1)
        assert asked[0].done() and list(asked[0].result()) == [0, 0], "nobody waits for another one's coordinator"
        assert list(await asked[1]) == [E.COORDINATOR_NOT_AVAILABLE] * 2
        cluster.links.down.clear()
        cluster.links.lose_answers(1)
        assert list(await verify(ADDING._replace(transactional_id=there), 1_002, 0, "t", [0, 1])) == [0, 0]

    told(story)


# ---------------------------------------------------------------- markers


def test_markers_follow_a_partition_and_outlive_a_node() -> None:
    async def story(cluster: TransactionCluster, client: TransactionClient) -> None:
        name = cluster.id_at(1)
        await client.init(name)
        await client.add(name, (1_001, 0), 1, 2)
        cluster.links.down.add(2)
        cluster.nodes[3].own_markers.refusals = [E.NOT_ENOUGH_REPLICAS] * 3
        assert (await client.end(name, (1_001, 0)))[0] == 0
        await asyncio.sleep(5)
        assert [(node, number) for node, _, number, _ in cluster.written()] == [(3, 2)]
        cluster.move("t", 1, 3)
        await asyncio.sleep(5)
        assert [(node, number) for node, _, number, _ in cluster.written()] == [(3, 2), (3, 1)]
        assert await client.end(name, (1_001, 0)) == (0, 1_001, 1)

    told(story)


def test_the_way_of_one_marker() -> None:
    async def story(cluster: TransactionCluster, client: TransactionClient) -> None:
        write = cluster.nodes[1].markers.write
        marker = TransactionMarker(7, 1, 2, False, 1)
        for number in (0, 1):
            await write(TopicPartition(TOPIC_ID, number), marker)
        assert cluster.written() == [(1, "t", 0, marker), (2, "t", 1, marker)]

        async def refused(number: int, topic_id: Any = TOPIC_ID) -> ErrorCode:
            with pytest.raises(KafkaError) as error:
                await write(TopicPartition(topic_id, number), marker)
            return error.value.code

        assert await refused(99) == await refused(0, IDS[OFFSETS_TOPIC_NAME]) == E.UNKNOWN_TOPIC_OR_PARTITION
        cluster.nodes[2].own_markers.refusals = [E.TRANSACTION_COORDINATOR_FENCED]
        assert await refused(1) is E.TRANSACTION_COORDINATOR_FENCED
        cluster.links.lose_answers(1)
        assert await refused(1) is E.NETWORK_EXCEPTION
        cluster.links.hung.add(2)
        assert await refused(1) is E.NETWORK_EXCEPTION
        nodes = {n: node for n, node in cluster.image.nodes.items() if n != 2}
        cluster.show(cluster.image.topics["t"], nodes=nodes)
        assert await refused(1) is E.NOT_LEADER_OR_FOLLOWER

    told(story)


def test_an_operators_markers_go_to_the_owners() -> None:
    async def story(cluster: TransactionCluster, client: TransactionClient) -> None:
        node = cluster.nodes[1]
        services: Any = replace(node.services, markers=node.markers, is_between_nodes=False)
        topics = [
            WritableTxnMarkerTopic(name="t", partition_indexes=[1, 99, 0]),
            WritableTxnMarkerTopic(name="gone", partition_indexes=[0]),
            WritableTxnMarkerTopic(name=TRANSACTIONS_TOPIC_NAME, partition_indexes=[0]),
        ]
        request = WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(producer_id=7, producer_epoch=3, topics=topics, coordinator_epoch=5),
                WritableTxnMarker(producer_id=8, producer_epoch=1, topics=topics[:1], transaction_result=True),
                WritableTxnMarker(producer_id=-1, producer_epoch=0, topics=topics[:1]),
                WritableTxnMarker(producer_id=9, producer_epoch=-1, topics=topics[:1]),
            ]
        )
        cluster.nodes[2].own_markers.refusals = [E.INVALID_PRODUCER_EPOCH]
        answer = await HANDLERS[ApiKey.WRITE_TXN_MARKERS](request, RequestContext(1, "tool", "::1"), services)
        told_codes = [
            (one.producer_id, [p.error_code for topic in one.topics for p in topic.partitions])
            for one in answer.markers
        ]
        refused = E.INVALID_PRODUCER_EPOCH
        assert told_codes == [
            (7, [refused, 3, 0, 3, E.TOPIC_AUTHORIZATION_FAILED]),
            (8, [0, E.UNKNOWN_TOPIC_OR_PARTITION, 0]),
            (-1, [E.UNKNOWN_SERVER_ERROR] * 3),
            (9, [E.UNKNOWN_SERVER_ERROR] * 3),
        ]
        aborted, committed = TransactionMarker(7, 3, 5, False), TransactionMarker(8, 1, 0, True)
        assert sorted(cluster.written()) == [(1, "t", 0, aborted), (1, "t", 0, committed), (2, "t", 1, committed)]

    told(story)


def test_nobody_waits_for_ever_for_a_bug() -> None:
    async def story(cluster: TransactionCluster, client: TransactionClient) -> None:
        async def odd(*args: Any, **options: Any) -> Any:
            raise ValueError("a bug on the way")

        cluster.links.call = odd  # type: ignore[method-assign]
        with pytest.raises(KafkaError) as error:
            await cluster.nodes[1].markers.write(TopicPartition(TOPIC_ID, 1), TransactionMarker(7, 1, 2, False, 1))
        assert error.value.code is E.UNKNOWN_SERVER_ERROR

    told(story)


@pytest.mark.timeout(20)
def test_a_request_about_very_many_ids_is_refused_in_time_that_grows_with_them_alone() -> None:
    async def story(cluster: TransactionCluster, client: TransactionClient) -> None:
        asked = [
            AddPartitionsToTxnTransaction(
                transactional_id=f"id-{number}",
                producer_id=number,
                producer_epoch=0,
                topics=[AddPartitionsToTxnTopic(name="t", partitions=[number])],
            )
            for number in range(10_000)
        ]
        answer = await client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnRequest(transactions=asked), 5)
        results = answer.results_by_transaction
        refusals = [(one.transactional_id, one.topic_results[0].results_by_partition[0]) for one in results]
        assert [name for name, _ in refusals] == [one.transactional_id for one in asked]
        assert {result.partition_error_code for _, result in refusals} == {E.NOT_COORDINATOR}
        assert [result.partition_index for _, result in refusals] == list(range(10_000))

    told(story, has_topic=False)
