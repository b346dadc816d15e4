"""A large request that is decoded part by part is answered as one that is decoded as a whole, byte by byte."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.aio.loop_turns import LoopTurns
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import RequestHeader, array_codec, decode, decode_request, encode
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from bmq.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse, AddPartitionsToTxnResult
from bmq.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from bmq.protocol.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from bmq.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from bmq.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from bmq.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from bmq.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from bmq.protocol.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from bmq.protocol.request_context import RequestContext
from bmq.protocol.streamed_parts import EncodedJoined, StreamedParts
from bmq.proxy.dispatch import EncodedPieces
from bmq.proxy.limits import ProxyLimits
from bmq.proxy.part_answers import PartAnswers, surveyed
from bmq.proxy.services import Services
from bmq.proxy.split_requests import CHANGES_MAX, is_cut, split_of, streamed, streamed_splits_of
from tests.unit.protocol.test_wire_turns import done, framed
from tests.unit.proxy.conftest import StartProxy
from tests.unit.proxy.test_split_requests import SHAPES, Shape, answer_to, fetch_of

pytestmark = pytest.mark.unit

NO_SERVICES = cast(Services, None)


def streamed_parts(api_key: ApiKey, version: int, request: Any, at_once: int = 0) -> StreamedParts:
    (split,) = streamed_splits_of(api_key, version)
    header, frame = framed(api_key, version, request)
    parts = streamed(split._replace(at_once=at_once or split.at_once), header, frame)
    done(parts.survey())
    return parts


def all_of(parts: StreamedParts) -> list[Any]:
    found = []
    while (some := done(parts.next())[0]) is not None:
        found += some
    return found


@given(shape=SHAPES, at_once=st.integers(1, 7), failing=st.integers(0, 9))
def test_the_encoded_answers_of_the_parts_are_the_encoded_answer_of_the_whole(
    shape: Shape, at_once: int, failing: int
) -> None:
    parts = streamed_parts(ApiKey.OFFSET_FETCH, 9, fetch_of(shape), at_once)
    joined = EncodedJoined(
        ("groups", "topics", "partitions"), array_codec("response", ApiKey.OFFSET_FETCH, 9, "groups")
    )
    for part in all_of(parts):
        count = sum(max(len(topic.partition_indexes), 1) for group in part.request.groups for topic in group.topics)
        assert count <= at_once
        assert done(joined.add(part, answer_to(part.request, f"g{failing}")))[0]
    whole = encode("response", ApiKey.OFFSET_FETCH, 9, answer_to(fetch_of(shape), f"g{failing}"))
    pieces, _ = done(joined.finish())
    if pieces is not None:
        assert b"".join(pieces) == whole
    elif joined.response is not None:
        assert encode("response", ApiKey.OFFSET_FETCH, 9, joined.response) == whole
    else:
        assert not shape


def test_metadata_is_answered_once_for_each_topic_in_the_order_of_their_first_naming() -> None:
    names = [f"t{number % 700}" for number in range(2_000)]
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
    )
    parts = streamed_parts(ApiKey.METADATA, 12, request)
    found = all_of(parts)
    assert [len(part.request.topics) for part in found] == [500, 200]
    assert [one.name for part in found for one in part.request.topics] == [f"t{number}" for number in range(700)]
    assert not any(part.request.allow_auto_topic_creation for part in found)


partition = st.builds(ListOffsetsPartition, partition_index=st.integers(0, 3), timestamp=st.sampled_from([-1, -2]))
topic = st.builds(ListOffsetsTopic, name=st.sampled_from("ab"), partitions=st.lists(partition, max_size=4))


@given(topics=st.lists(topic, max_size=4), at_once=st.integers(1, 5))
def test_what_list_offsets_names_twice_stands_twice_in_its_part(topics: list[ListOffsetsTopic], at_once: int) -> None:
    """The handler refuses what is named twice, and answers for a partition once for each topic that names it."""

    def answers(request: ListOffsetsRequest, named: Callable[[str, int], int]) -> list[tuple[str, int, int, bool]]:
        found = []
        for one in request.topics:
            last = {wanted.partition_index: wanted for wanted in one.partitions}
            for index, wanted in last.items():
                found.append((one.name, index, wanted.timestamp, named(one.name, index) > 1))
        return found

    def counted(request: ListOffsetsRequest) -> Callable[[str, int], int]:
        return lambda name, index: sum(
            one.name == name and wanted.partition_index == index for one in request.topics for wanted in one.partitions
        )

    request = ListOffsetsRequest(topics=topics)
    parts = streamed_parts(ApiKey.LIST_OFFSETS, 10, request, at_once)
    found = [answer for part in all_of(parts) for answer in answers(part.request, counted(part.request))]
    assert found == answers(request, counted(request))


@pytest.mark.parametrize(("count", "is_expected"), [(CHANGES_MAX, False), (CHANGES_MAX + 1, True)])
def test_changes_are_decided_as_a_whole_unless_there_are_too_many(count: int, is_expected: bool) -> None:
    request = CreateTopicsRequest(topics=[CreatableTopic(name=f"t{number}") for number in range(count)])
    (split,) = streamed_splits_of(ApiKey.CREATE_TOPICS, 7)
    parts = streamed_parts(ApiKey.CREATE_TOPICS, 7, request)
    assert is_cut(parts, split) is is_expected


@pytest.mark.parametrize("topics_each", [1, CHANGES_MAX + 1])
async def test_a_transaction_gets_a_bounded_number_of_topics_by_one_request(topics_each: int) -> None:
    """However many transactions there are, which are batched."""
    transactions = [
        AddPartitionsToTxnTransaction(
            transactional_id=f"x{number}",
            topics=[AddPartitionsToTxnTopic(name="t", partitions=(one,)) for one in range(topics_each)],
        )
        for number in range(20_000 // topics_each)
    ]
    request = AddPartitionsToTxnRequest(transactions=transactions)
    header, frame = framed(ApiKey.ADD_PARTITIONS_TO_TXN, 5, request)
    asked: list[str] = []

    async def handler(part: Any, context: RequestContext, services: Services) -> Any:
        asked.extend(one.transactional_id for one in part.transactions)
        answered = [AddPartitionsToTxnResult(transactional_id=one.transactional_id) for one in part.transactions]
        return AddPartitionsToTxnResponse(results_by_transaction=answered)

    turns = LoopTurns()
    found = await surveyed(ApiKey.ADD_PARTITIONS_TO_TXN, header, frame, turns)
    assert found is not None
    split, parts = found
    context = RequestContext(5, "test", "host", "unknown", "unknown")
    answers = PartAnswers(handler, ApiKey.ADD_PARTITIONS_TO_TXN, split, turns, lambda: False)
    answer = await answers.streamed(parts, parts.request, context, NO_SERVICES)
    if topics_each == 1:
        read = decode("response", ApiKey.ADD_PARTITIONS_TO_TXN, 5, b"".join(answer.pieces))
        assert [one.transactional_id for one in read.results_by_transaction] == asked
        assert asked == [one.transactional_id for one in transactions]
    else:
        assert answer.error_code is ErrorCode.POLICY_VIOLATION and not asked


async def test_streamed_and_decoded_answers_are_the_same_bytes() -> None:
    turns = LoopTurns()
    request = MetadataRequest(topics=[MetadataRequestTopic(name=f"t{number % 3_000}") for number in range(5_000)])
    header, frame = framed(ApiKey.METADATA, 12, request)

    async def handler(asked: Any, context: RequestContext, services: Services) -> Any:
        topics = [MetadataResponseTopic(name=one.name, error_code=3) for one in asked.topics]
        return MetadataResponse(topics=topics, controller_id=7)

    context = RequestContext(12, "test", "host", "unknown", "unknown")
    found = await surveyed(ApiKey.METADATA, header, frame, turns)
    assert found is not None
    split, parts = found
    answer = await PartAnswers(handler, ApiKey.METADATA, split, turns, lambda: False).streamed(
        parts, parts.request, context, NO_SERVICES
    )
    assert isinstance(answer, EncodedPieces)
    whole = decode_request(header, frame)
    decoded_split = split_of(ApiKey.METADATA, 12, whole)
    assert decoded_split is not None
    message = await PartAnswers(handler, ApiKey.METADATA, decoded_split, turns, lambda: False).decoded(
        whole, context, NO_SERVICES
    )
    assert b"".join(answer.pieces) == encode("response", ApiKey.METADATA, 12, message)


async def test_a_request_that_is_too_old_is_not_carried_out_any_further() -> None:
    done_parts = 0

    async def handler(asked: Any, context: RequestContext, services: Services) -> Any:
        nonlocal done_parts
        done_parts += 1
        return MetadataResponse()

    turns = LoopTurns()
    request = MetadataRequest(topics=[MetadataRequestTopic(name=f"t{number}") for number in range(5_000)])
    header, frame = framed(ApiKey.METADATA, 12, request)
    found = await surveyed(ApiKey.METADATA, header, frame, turns)
    assert found is not None
    split, parts = found
    context = RequestContext(12, "test", "host", "unknown", "unknown")
    answers = PartAnswers(handler, ApiKey.METADATA, split, turns, lambda: done_parts == 3)
    assert await answers.streamed(parts, parts.request, context, NO_SERVICES) is None
    assert done_parts == 3


def many_topics(count: int) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=number % 400)])
            for number in range(count)
        ]
    )


def list_offsets_answer(asked: ListOffsetsRequest) -> ListOffsetsResponse:
    answered = []
    for one in asked.topics:
        partitions = [ListOffsetsPartitionResponse(partition_index=wanted.partition_index) for wanted in one.partitions]
        answered.append(ListOffsetsTopicResponse(name=one.name, partitions=partitions))
    return ListOffsetsResponse(topics=answered)


@pytest.mark.parametrize(
    ("api_key", "version", "request_of", "answer_of"),
    [
        (ApiKey.LIST_OFFSETS, 10, many_topics, list_offsets_answer),
        (ApiKey.OFFSET_FETCH, 9, lambda count: fetch_of([[1] * count]), answer_to),
    ],
    ids=["many containers", "a long one"],
)
async def test_the_memory_of_a_large_request_is_that_of_its_frame_and_its_answer(
    api_key: ApiKey, version: int, request_of: Callable[[int], Any], answer_of: Callable[[Any], Any]
) -> None:
    turns = LoopTurns()

    async def handler(asked: Any, context: RequestContext, services: Services) -> Any:
        return answer_of(asked)

    async def answer(header: RequestHeader, frame: bytes) -> int:
        found = await surveyed(api_key, header, frame, turns)
        assert found is not None
        split, parts = found
        context = RequestContext(version, "test", "host", "unknown", "unknown")
        answers = PartAnswers(handler, api_key, split, turns, lambda: False)
        answer = await answers.streamed(parts, parts.request, context, NO_SERVICES)
        return sum(map(len, answer.pieces))

    await answer(*framed(api_key, version, request_of(1_000)))  # what is compiled and imported the first time
    header, frame = framed(api_key, version, request_of(8_000))
    tracemalloc.start()
    try:
        answered_bytes = await answer(header, frame)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # As objects, 8,000 elements and their answers take 3 MB.
    assert peak_bytes < 1.2 * answered_bytes + 1_000_000


@given(shape=SHAPES, at_once=st.integers(1, 7))
def test_the_topics_of_all_directories_are_answered_in_their_order(shape: Shape, at_once: int) -> None:
    asked = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=f"d{number}",
                topics=[
                    AlterReplicaLogDirTopic(name=f"t{number}-{one}", partitions=tuple(range(count)))
                    for one, count in enumerate(counts)
                ],
            )
            for number, counts in enumerate(shape)
        ]
    )

    def answer(request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
        topics = [topic for directory in request.dirs for topic in directory.topics]
        return AlterReplicaLogDirsResponse(
            results=[
                AlterReplicaLogDirTopicResult(
                    topic_name=topic.name,
                    partitions=[AlterReplicaLogDirPartitionResult(partition_index=one) for one in topic.partitions],
                )
                for topic in topics
            ]
        )

    joined = EncodedJoined(("results",), array_codec("response", ApiKey.ALTER_REPLICA_LOG_DIRS, 2, "results"))
    for part in all_of(streamed_parts(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, asked, at_once)):
        assert done(joined.add(part, answer(part.request)))[0]
    pieces, _ = done(joined.finish())
    if pieces is not None:
        assert b"".join(pieces) == encode("response", ApiKey.ALTER_REPLICA_LOG_DIRS, 2, answer(asked))
    else:
        assert joined.response == (answer(asked) if shape else None)


@pytest.mark.parametrize("decoded_whole_bytes_max", [0, 1 << 20])
async def test_list_offsets_answers_the_same_in_parts_and_as_a_whole(
    start: StartProxy, decoded_whole_bytes_max: int
) -> None:
    proxy = await start(ProxyLimits(decoded_whole_bytes_max=decoded_whole_bytes_max))
    client = await proxy.connect()
    topics = [
        ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=1, timestamp=-1)]),
        *(
            ListOffsetsTopic(name="u", partitions=[ListOffsetsPartition(partition_index=number, timestamp=-1)])
            for number in range(900)
        ),
        ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)] * 2),
        ListOffsetsTopic(name="u", partitions=[ListOffsetsPartition(partition_index=7, timestamp=-1)]),
    ]
    answer = await client.ask(ApiKey.LIST_OFFSETS, 10, ListOffsetsRequest(replica_id=-1, topics=topics))
    codes = [(one.name, [part.error_code for part in one.partitions]) for one in answer.topics]
    unknown, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REQUEST
    assert codes == [
        ("t", [ErrorCode.NONE]),
        *(("u", [invalid if number == 7 else unknown]) for number in range(900)),
        ("t", [invalid]),
        ("u", [invalid]),
    ]
    await client.close()
