"""A large request in parts: the parts are requests, together they are the whole, and so are their answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from bmq.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from bmq.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from bmq.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from bmq.protocol.request_parts import Joined
from bmq.proxy.split_requests import Split, cut, split_of, without_repeats
from tests.unit.protocol.test_wire_turns import done

pytestmark = pytest.mark.unit

Shape = list[list[int]]
SHAPES = st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=4)


def fetch_of(shape: Shape) -> OffsetFetchRequest:
    """Groups of topics with as many partitions."""
    return OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=f"g{group}",
                topics=[
                    OffsetFetchRequestTopics(name=f"t{topic}", partition_indexes=tuple(range(count)))
                    for topic, count in enumerate(topics)
                ],
            )
            for group, topics in enumerate(shape)
        ]
    )


def answer_to(request: OffsetFetchRequest, failing: str = "") -> OffsetFetchResponse:
    def answered(group: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
        if group.group_id == failing:
            return OffsetFetchResponseGroup(group_id=failing, error_code=ErrorCode.NOT_COORDINATOR)
        return OffsetFetchResponseGroup(
            group_id=group.group_id,
            topics=[
                OffsetFetchResponseTopics(
                    name=topic.name,
                    partitions=[
                        OffsetFetchResponsePartitions(partition_index=index) for index in topic.partition_indexes
                    ],
                )
                for topic in group.topics or ()
            ],
        )

    return OffsetFetchResponse(groups=[answered(group) for group in request.groups])


def same(one: Any, other: Any) -> bool:
    return repr(one).replace("(", "[").replace(")", "]") == repr(other).replace("(", "[").replace(")", "]")


@given(shape=SHAPES, at_once=st.integers(1, 7))
def test_the_answers_of_the_parts_are_the_answer_of_the_whole(shape: Shape, at_once: int) -> None:
    split = split_of(ApiKey.OFFSET_FETCH, 9, fetch_of(shape))
    assert split is not None
    split = split._replace(at_once=at_once)
    joined = Joined(split.answered)
    for part in cut(fetch_of(shape), split):
        count = sum(max(len(topic.partition_indexes), 1) for group in part.request.groups for topic in group.topics)
        assert count <= at_once
        assert joined.add(part, answer_to(part.request))
    assert same(joined.response, answer_to(fetch_of(shape)))


@given(shape=SHAPES, at_once=st.integers(1, 7), failing=st.integers(0, 3))
def test_a_group_that_fails_fails_as_a_whole(shape: Shape, at_once: int, failing: int) -> None:
    split = Split(("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions"), at_once)
    joined = Joined(split.answered)
    for part in cut(fetch_of(shape), split):
        joined.add(part, answer_to(part.request, f"g{failing}"))
    assert same(joined.response, answer_to(fetch_of(shape), f"g{failing}"))


def test_a_group_that_fails_in_a_later_part_has_no_topics() -> None:
    split = Split(("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions"), 2)
    request = fetch_of([[4]])
    first, second = cut(request, split)
    assert (first.continues, second.continues) == (0, 2)
    joined = Joined(split.answered)
    joined.add(first, answer_to(first.request))
    joined.add(second, answer_to(second.request, "g0"))
    assert joined.response.groups == [OffsetFetchResponseGroup(group_id="g0", error_code=ErrorCode.NOT_COORDINATOR)]


def test_a_group_whose_topics_are_not_named_stays_as_it_is() -> None:
    split = Split(("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions"), 1)
    groups = [OffsetFetchRequestGroup(group_id=f"g{one}", topics=None) for one in range(3)]
    request = OffsetFetchRequest(groups=groups)
    assert [part.request.groups for part in cut(request, split)] == [[one] for one in groups]
    assert not request.groups, "what is done can be freed"


def test_a_response_that_fails_as_a_whole_ends_it() -> None:
    split = Split(("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions"), 1)
    first, second = cut(fetch_of([[1, 1]]), split)
    joined = Joined(split.answered)
    assert joined.add(first, answer_to(first.request))
    failed = OffsetFetchResponse(error_code=ErrorCode.NOT_COORDINATOR)
    assert not joined.add(second, failed)
    assert joined.response is failed


def test_what_is_named_twice_is_answered_once_though_it_is_named_in_two_parts() -> None:
    topics = [MetadataRequestTopic(name=f"t{number % 3}") for number in range(9)]
    request = MetadataRequest(topics=topics)
    split = split_of(ApiKey.METADATA, 12, request)
    assert split is not None
    once, _ = done(without_repeats(request, split))
    assert [one.name for one in once.topics] == ["t0", "t1", "t2"]
    split = Split(
        ("topics", "partitions"),
        ("topics", "partitions"),
        distinct=(("topics", "partitions"), lambda one: one.partition_index),
    )
    offsets = ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(
                name="t",
                partitions=[ListOffsetsPartition(partition_index=one, timestamp=at) for at in (1, 2) for one in (5, 3)],
            )
            for _ in range(2)
        ]
    )
    once, _ = done(without_repeats(offsets, split))
    named = [[(one.partition_index, one.timestamp) for one in topic.partitions] for topic in once.topics]
    assert named == [[(5, 2), (3, 2)]] * 2
