"""A shard's state as bytes and back, and bytes that are no state."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.coordinator.config import CoordinatorConfig
from bmq.coordinator.offsets.offset_columns import PackedOffsets, TopicOffsets
from bmq.coordinator.offsets.offsets import Offsets
from bmq.coordinator.offsets.pending_offsets import OpenTransaction, PendingOffset
from bmq.coordinator.snapshot import ShardState, decode_snapshot, encode_snapshot
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
)
from bmq.protocol.messages.offset_fetch_request import OffsetFetchRequestTopics
from tests.unit.coordinator.cluster import FakeTopics

pytestmark = pytest.mark.unit

_INT32 = st.integers(-(2**31), 2**31 - 1)
_INT64 = st.integers(-(2**63), 2**63 - 1)
_NAMES = st.text(max_size=4)
_VALUES = st.builds(
    OffsetCommitValue,
    offset=_INT64,
    leader_epoch=_INT32,
    metadata=st.sampled_from(["", "m", "ein Wört"]),
    commit_timestamp_ms=_INT64,
    expire_timestamp_ms=_INT64,
    topic_id=st.sampled_from([None, UUID(int=1), UUID(int=2)]),
)
_PENDING_VALUES = _VALUES.map(lambda value: value._replace(expire_timestamp_ms=-1))  # as they stand in records
_COMMITTED = st.dictionaries(st.integers(0, 2**31 - 1), _VALUES, min_size=1, max_size=5)
_STATES = st.builds(
    ShardState,
    st.lists(st.tuples(_NAMES, st.builds(GroupMetadataValue, protocol_type=_NAMES, generation=_INT32)), max_size=3),
    st.dictionaries(st.tuples(_NAMES, _NAMES), _COMMITTED, max_size=4).map(
        lambda offsets: [TopicOffsets(*names, committed) for names, committed in offsets.items()]
    ),
    st.lists(
        st.builds(
            OpenTransaction,
            _INT64,
            st.integers(0, 2**15 - 1),
            st.dictionaries(
                st.builds(OffsetCommitKey, _NAMES, _NAMES, _INT32),
                st.builds(PendingOffset, _INT64, st.none() | _PENDING_VALUES),
                max_size=2,
            ),
        ),
        max_size=2,
    ),
    st.just(()),  # groups of new protocols: see consumer/test_history.py, streams/test_history.py
)


def decoded(data: bytes) -> ShardState:
    groups: list[Any] = []
    offsets: list[TopicOffsets | PackedOffsets] = []
    transactions: list[OpenTransaction] = []
    for part in decode_snapshot(data):
        if isinstance(part, PackedOffsets):
            offsets.append(TopicOffsets(part.group, part.topic, part.unpacked()))
            assert part.offset_count == len(part.unpacked())
        elif isinstance(part, OpenTransaction):
            transactions.append(part)
        else:
            key = decode_key(part[0])
            assert isinstance(key, GroupMetadataKey)
            groups.append((key.group, decode_value(key, part[1])))
    return ShardState(groups, offsets, transactions)


@given(_STATES)
def test_a_state_comes_back(state: ShardState) -> None:
    back = decoded(asyncio.run(encode_snapshot(state)))
    assert back == state
    for part in back.offsets:
        assert isinstance(part, TopicOffsets)
        assert all(type(value) is OffsetCommitValue for value in part.committed.values())


@given(_STATES, st.data())
def test_what_is_still_packed_is_there_all_the_same(state: ShardState, data: st.DataObject) -> None:
    """Whatever is done, offsets that come from a snapshot are like those that were replayed one by one."""
    replayed, restored = Offsets(CoordinatorConfig()), Offsets(CoordinatorConfig())
    for part in state.offsets:
        assert isinstance(part, TopicOffsets)
        for partition, value in part.committed.items():
            replayed.replay(OffsetCommitKey(part.group, part.topic, partition), value)
        restored.restore(part.packed())
    names = st.sampled_from([(part.group, part.topic) for part in state.offsets] or [("g", "t")])
    for _ in range(data.draw(st.integers(0, 4))):
        (group, topic), what = data.draw(names), data.draw(st.integers(0, 6))
        partition = data.draw(st.integers(0, 3))
        answers: list[object] = []
        for offsets in (replayed, restored):
            if what == 0:
                offsets.replay(OffsetCommitKey(group, topic, partition), OffsetCommitValue(1))
                answers.append([])
            elif what == 1:
                for index in list(offsets.committed(group).get(topic, {})):
                    offsets.replay(OffsetCommitKey(group, topic, index), None)
                answers.append([])
            elif what == 2:
                answers.append(sorted(offsets.delete_topics(frozenset({topic}))))
            elif what == 3:
                answers.append(sorted(offsets.delete_group(group)))
            elif what == 4:
                answers.append(sorted(offsets.expire(group, None, 2**62)[0]))
            elif what == 5:
                asked = [OffsetFetchRequestTopics(name=topic, partition_indexes=(0, partition))]
                answers.append(offsets.fetch(group, asked, FakeTopics()))
            else:
                answers.append(offsets.has_group(group))
        assert answers[0] == answers[1]
    assert restored.count == replayed.count
    assert sorted(restored.group_ids()) == sorted(replayed.group_ids())
    again = Offsets(CoordinatorConfig())
    for packed in decode_snapshot(asyncio.run(encode_snapshot(ShardState([], restored.copied())))):
        assert isinstance(packed, PackedOffsets)
        again.restore(packed)
    for offsets in (restored, again):
        for group in replayed.group_ids():
            assert offsets.count_of(group) == replayed.count_of(group)
            assert offsets.committed(group) == replayed.committed(group)
            assert offsets.count_of(group) == replayed.count_of(group)
    assert again.count == replayed.count


def test_offsets_are_restored_once() -> None:
    part = TopicOffsets("g", "t", {0: OffsetCommitValue(1)}).packed()
    offsets = Offsets(CoordinatorConfig())
    offsets.restore(part)
    offsets.restore(part._replace(topic="u"))
    with pytest.raises(MalformedMessage):
        offsets.restore(part)
    assert offsets.count == offsets.count_of("g") == 2
    assert offsets.committed("g").keys() == {"t", "u"}
    with pytest.raises(MalformedMessage):
        offsets.restore(part._replace(topic="v"))


def test_a_copy_does_not_change_any_more() -> None:
    offsets = Offsets(CoordinatorConfig())
    offsets.restore(TopicOffsets("packed", "t", {0: OffsetCommitValue(1)}).packed())
    offsets.replay(OffsetCommitKey("open", "t", 0), OffsetCommitValue(2))
    state = ShardState([], offsets.copied())
    offsets.replay(OffsetCommitKey("packed", "t", 0), OffsetCommitValue(9))
    offsets.replay(OffsetCommitKey("open", "t", 0), None)
    assert decoded(asyncio.run(encode_snapshot(state))).offsets == [
        TopicOffsets("packed", "t", {0: OffsetCommitValue(1)}),
        TopicOffsets("open", "t", {0: OffsetCommitValue(2)}),
    ]


@given(_STATES, st.data())
def test_bytes_that_are_no_snapshot_are_refused(state: ShardState, data: st.DataObject) -> None:
    good = asyncio.run(encode_snapshot(state))
    ends = {0}
    for count in range(len(state.groups) + 1):
        ends.add(len(asyncio.run(encode_snapshot(ShardState(state.groups[:count], [])))))
    for count in range(len(state.offsets) + 1):
        ends.add(len(asyncio.run(encode_snapshot(ShardState(state.groups, state.offsets[:count])))))
    for count in range(len(state.transactions) + 1):
        ends.add(len(asyncio.run(encode_snapshot(state._replace(transactions=state.transactions[:count])))))
    length = data.draw(st.integers(0, len(good)))
    if length not in ends:
        with pytest.raises(MalformedMessage):
            decoded(good[:length])
    if good:
        bad = bytearray(good)
        bad[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
        try:
            parts = list(decode_snapshot(bytes(bad)))
            for part in parts:
                if isinstance(part, PackedOffsets):
                    part.unpacked()
        except MalformedMessage:
            pass


def test_a_part_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="unknown kind 9"):
        list(decode_snapshot(b"\0\0\0\x09" + bytes(8)))


async def test_large_states_take_turns() -> None:
    committed = {partition: OffsetCommitValue(partition) for partition in range(3_000)}
    state = ShardState([], [TopicOffsets(f"g{number}", "t", committed) for number in range(6)])
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(others())
    data = await encode_snapshot(state)
    running.cancel()
    assert decoded(data)._replace(transactions=()) == state
    assert turns >= 3
