"""A commit at once is the same as a commit: answers, records in the log, what is committed, and who may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.coordinator.offsets import commit_plans
from bmq.protocol import codec
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import decode_records
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.hot_commit import parse_plain_commit
from bmq.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.unit.coordinator.cluster import Cluster, FakeTopic, request_context

pytestmark = pytest.mark.unit


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    made = Cluster()
    await made.coordinator.prepare("g")
    yield made
    await made.coordinator.close()


def request_of(
    cluster: Cluster, offsets: dict[tuple[str, int], int], version: int, member_id: str = "", generation: int = -1
) -> OffsetCommitRequest:
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, index), offset in offsets.items():
        part = OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_leader_epoch=offset % 5
        )
        by_topic.setdefault(topic, []).append(part)
    return OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[
            OffsetCommitRequestTopic(
                name=name if version < 10 else "",
                topic_id=cluster.topics.topics[name].topic_id if version >= 10 else None,
                partitions=parts,
            )
            for name, parts in by_topic.items()
        ],
    )


async def at_once(cluster: Cluster, request: OffsetCommitRequest, version: int = 9) -> Any:
    """The answer; None: it was left to `offset_commit`."""
    asked = parse_plain_commit(codec.encode("request", ApiKey.OFFSET_COMMIT, version, request), 0, version)
    assert asked is not None
    answer: asyncio.Future[tuple[ErrorCode, bytes]] = asyncio.get_running_loop().create_future()
    context = cast(Any, request_context(version))
    if not cluster.coordinator.commit_at_once(asked, context, 0.0, lambda code, body: answer.set_result((code, body))):
        return None
    code, body = await answer
    response = codec.decode("response", ApiKey.OFFSET_COMMIT, version, body)
    assert {part.error_code for topic in response.topics for part in topic.partitions} == {code}
    return response


async def in_turn(cluster: Cluster, request: OffsetCommitRequest, version: int, *, is_eager: bool) -> Any:
    response = await at_once(cluster, request, version) if is_eager else None
    if response is None:
        response = await cluster.coordinator.offsets.offset_commit(request, cast(Any, request_context(version)))
    return [[(part.partition_index, part.error_code) for part in topic.partitions] for topic in response.topics]


def records_of(cluster: Cluster) -> list[Any]:
    return [
        (record.key, record.value, record.offset)
        for batch in cluster.log_of("g").batches
        for record in decode_records(batch.data)
    ]


KEYS = st.tuples(st.sampled_from(("t", "u")), st.integers(-1, 5))
COMMITS = st.tuples(
    st.just("commit"), st.dictionaries(KEYS, st.integers(-1, 2**40), min_size=1, max_size=6), st.integers(6, 10)
)
PRODUCERS = st.integers(0, 2)
TRANSACTIONS = st.tuples(
    st.just("transaction"), st.dictionaries(KEYS, st.integers(0, 9), min_size=1, max_size=3), PRODUCERS
)
ENDS = st.tuples(st.just("end"), st.booleans(), PRODUCERS)


@given(story=st.lists(COMMITS | TRANSACTIONS | ENDS, max_size=12))
def test_any_history_is_the_same(story: list[Any]) -> None:
    async def tell(*, is_eager: bool) -> Any:
        cluster = Cluster()
        await cluster.coordinator.prepare("g")
        told: list[Any] = []
        for step in story:
            if step[0] == "commit":
                request = request_of(cluster, step[1], step[2])
                told.append(await in_turn(cluster, request, step[2], is_eager=is_eager))
            elif step[0] == "transaction":
                told.append(await cluster.commit_in_transaction("g", step[1], producer=(step[2], 0)))
            else:
                await cluster.end("g", (step[2], 0), is_commit=step[1])
            cluster.clock.advance(5)
        told += [records_of(cluster), await cluster.fetch_all("g")]
        shard = cluster.coordinator.directory.find("g")
        assert shard is not None
        told += [shard.offsets.count, shard.offsets.copied(), shard.offsets.pending.copied()]
        await cluster.coordinator.close()
        heir = cluster.take_over()
        told.append(await heir.fetch_all("g"))
        await heir.coordinator.close()
        return told

    assert asyncio.run(tell(is_eager=True)) == asyncio.run(tell(is_eager=False))


async def test_the_usual_commit_is_at_once(cluster: Cluster) -> None:
    for version in range(6, 11):
        response = await at_once(cluster, request_of(cluster, {("t", 0): version, ("u", 3): 2}, version), version)
        assert [part.error_code for topic in response.topics for part in topic.partitions] == [0, 0]
        assert await cluster.fetch_all("g") == {("t", 0): version, ("u", 3): 2}
    assert cluster.coordinator.metrics.commits == 10


async def test_what_has_to_be_refused_or_loaded_is_left(cluster: Cluster) -> None:
    one = {("t", 0): 1}
    assert await at_once(cluster, request_of(cluster, {("t", 0): 1, ("t", 4): 1}, 9)) is None
    assert await at_once(cluster, request_of(cluster, {("none", 0): 1}, 9)) is None
    assert await at_once(cluster, request_of(cluster, one, 9, member_id="m", generation=3)) is None
    member_id = await cluster.stable()
    assert await at_once(cluster, request_of(cluster, one, 9)) is None
    assert await at_once(cluster, request_of(cluster, one, 9, member_id, 2)) is None
    assert await at_once(cluster, request_of(cluster, one, 9, member_id, 1)) is not None
    cluster.coordinator.directory.resign(cluster.coordinator.directory.number_of("g"))
    assert await at_once(cluster, request_of(cluster, one, 9, member_id, 1)) is None


async def test_a_topic_that_was_made_anew_is_another(cluster: Cluster) -> None:
    one = {("t", 0): 1}
    assert await at_once(cluster, request_of(cluster, one, 9)) is not None
    gone = cluster.topics.topics["t"]
    cluster.topics.add("t", 55)
    assert await cluster.fetch_all("g") == {}
    assert await at_once(cluster, request_of(cluster, one, 9)) is not None
    assert await cluster.fetch_all("g") == one
    cluster.topics.topics["t"] = FakeTopic("t", gone.topic_id, ())
    assert await at_once(cluster, request_of(cluster, one, 9)) is None


async def test_it_is_answered_once_it_is_durable(cluster: Cluster) -> None:
    log = cluster.log_of("g")
    log.is_acknowledging = False
    answered = asyncio.ensure_future(at_once(cluster, request_of(cluster, {("t", 0): 1}, 9)))
    stable = asyncio.ensure_future(cluster.fetch_all("g", require_stable=True))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not answered.done() and not stable.done()
    assert await cluster.fetch_all("g") == {}
    log.is_acknowledging = True
    log.acknowledge()
    assert (await answered).topics[0].partitions[0].error_code == ErrorCode.NONE
    assert await stable == {("t", 0): 1}


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
async def test_a_log_that_refuses(cluster: Cluster, refusal: ErrorCode, told: ErrorCode) -> None:
    shard = cluster.coordinator.directory.find("g")
    assert shard is not None
    cluster.log_of("g").refuse_with = refusal
    response = await at_once(cluster, request_of(cluster, {("t", 0): 1, ("u", 1): 1}, 9))
    assert [part.error_code for topic in response.topics for part in topic.partitions] == [told, told]
    assert shard.is_lost == (told is ErrorCode.NOT_COORDINATOR)
    assert shard.offsets.in_flight("g") == []
    assert cluster.coordinator.metrics.commits == 0


async def test_plans_are_bounded(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_plans, "PLANS_BYTES_MAX", 10_000)
    for index in range(4):
        for _ in range(3):
            assert await at_once(cluster, request_of(cluster, {("t", index): 1, ("u", 0): 1}, 9)) is not None
    plans = cluster.coordinator.offsets.plans
    assert len(plans) == 2 and plans.size_bytes <= 10_000
