"""The hand-laid OffsetCommit and its records agree with the codecs: same values in, same bytes out."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bmq.protocol import codec
from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.batch_records import Record, decode_records, encode_batch, encode_batch_of, encode_records
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.group_records import (
    _OFFSET_COMMIT_VALUE,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from bmq.protocol.hot_commit import (
    KNOWN_MAX,
    KNOWN_PARTITIONS_MAX,
    NAME_BYTES_MAX,
    PARTITIONS_MAX,
    PlainCommits,
    encode_answer,
    parse_plain_commit,
)
from bmq.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bmq.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from bmq.protocol.offset_records import OffsetRecords
from bmq.protocol.record_types import encode_prefixed
from tests.unit.protocol.strategies import api_messages

pytestmark = pytest.mark.unit

VERSIONS = st.integers(APIS[ApiKey.OFFSET_COMMIT].version_min, APIS[ApiKey.OFFSET_COMMIT].version_max)
PLAIN_VERSIONS = st.integers(6, 10)
NAMES = st.text(st.characters(codec="utf-8"), max_size=12)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
PARTITIONS = st.builds(
    OffsetCommitRequestPartition,
    partition_index=INT32,
    committed_offset=INT64,
    committed_leader_epoch=INT32,
    committed_metadata=st.sampled_from((None, "")),
)


@st.composite
def plain_requests(draw: st.DrawFn, version: int) -> OffsetCommitRequest:
    topics = st.builds(
        OffsetCommitRequestTopic,
        name=NAMES if version < 10 else st.just(""),
        topic_id=st.just(None) if version < 10 else st.uuids().filter(lambda drawn: drawn.int != 0),
        partitions=st.lists(PARTITIONS, min_size=1, max_size=5),
    )
    return OffsetCommitRequest(
        group_id=draw(NAMES),
        generation_id_or_member_epoch=draw(INT32),
        member_id=draw(NAMES),
        group_instance_id=draw(st.none() | NAMES) if version >= 7 else None,
        topics=draw(st.lists(topics, min_size=1, max_size=3)),
    )


def without_metadata(request: OffsetCommitRequest) -> OffsetCommitRequest:
    topics = [
        replace(topic, partitions=[replace(part, committed_metadata=None) for part in topic.partitions])
        for topic in request.topics
    ]
    return replace(request, topics=topics)


@given(version=PLAIN_VERSIONS, data=st.data())
def test_plain_commits_parse_as_the_codec_parses_them(version: int, data: st.DataObject) -> None:
    request = data.draw(plain_requests(version))
    frame = bytearray(b"header" + codec.encode("request", ApiKey.OFFSET_COMMIT, version, request))
    parsed = parse_plain_commit(frame, 6, version)
    assert parsed is not None
    assert (parsed.request(), parsed.api_version) == (without_metadata(request), version)
    decoded = codec.decode("request", ApiKey.OFFSET_COMMIT, version, frame, 6)
    assert without_metadata(decoded) == parsed.request()
    for end in range(6, len(frame)):
        assert parse_plain_commit(frame[:end], 6, version) is None


def assert_same_or_left(frame: bytes | bytearray, version: int) -> None:
    parsed = parse_plain_commit(frame, 0, version)
    if parsed is None:
        return
    decoded = codec.decode("request", ApiKey.OFFSET_COMMIT, version, frame)
    metadata = {part.committed_metadata for topic in decoded.topics for part in topic.partitions}
    assert metadata <= {None, ""}
    assert without_metadata(decoded) == parsed.request()


@given(version=VERSIONS, data=st.data())
def test_all_other_commits_are_left_to_the_codec(version: int, data: st.DataObject) -> None:
    message = data.draw(api_messages("request", ApiKey.OFFSET_COMMIT, version))
    frame = bytearray(codec.encode("request", ApiKey.OFFSET_COMMIT, version, message))
    assert_same_or_left(frame, version)
    frame[data.draw(st.integers(0, len(frame) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert_same_or_left(frame, version)


@given(version=PLAIN_VERSIONS, data=st.data())
def test_plain_commits_with_a_wrong_bit(version: int, data: st.DataObject) -> None:
    request = data.draw(plain_requests(version))
    frame = bytearray(codec.encode("request", ApiKey.OFFSET_COMMIT, version, request))
    frame[data.draw(st.integers(0, len(frame) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        assert_same_or_left(frame, version)
    except MalformedMessage as error:
        pytest.fail(f"parsed, while the codec says {error}")


@given(versions=st.lists(PLAIN_VERSIONS, min_size=2, max_size=2), data=st.data())
def test_a_commit_like_the_last_one_parses_as_if_it_were_the_first(versions: list[int], data: st.DataObject) -> None:
    """Whatever came before: the same with other numbers, in another version, longer, shorter, or with a wrong bit."""
    known = PlainCommits()
    request = data.draw(plain_requests(min(versions)).filter(lambda drawn: drawn.topics[0].topic_id is None))
    frames = []
    for version in versions:
        for offset in (1, data.draw(INT64)):
            for part in request.topics[0].partitions:
                part.committed_offset = offset
            encoded = codec.encode("request", ApiKey.OFFSET_COMMIT, version, request)
            frames.append((version, bytearray(b"head" + encoded)))
    version, frame = frames[-1]
    longer = frame + bytes(data.draw(st.integers(1, 40)))
    shorter = frame[: data.draw(st.integers(4, len(frame)))]
    damaged = frame.copy()
    damaged[data.draw(st.integers(4, len(frame) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    frames += [(version, other) for other in (longer, frame, shorter, frame, damaged, frame, longer)]
    for version, frame in frames:
        assert known.parse(frame, 4, version) == parse_plain_commit(frame, 4, version)


def test_a_number_of_groups_is_remembered() -> None:
    known = PlainCommits()
    topics = [OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(partition_index=0)])]
    for number in range(KNOWN_MAX + 10):
        request = OffsetCommitRequest(group_id=f"g{number}", topics=topics)
        frame = bytearray(codec.encode("request", ApiKey.OFFSET_COMMIT, 9, request))
        assert known.parse(frame, 0, 9) == known.parse(frame, 0, 9) == parse_plain_commit(frame, 0, 9)
    assert known.count == KNOWN_MAX


@given(version=PLAIN_VERSIONS, frame=st.binary(max_size=60))
def test_bytes_of_no_meaning(version: int, frame: bytes) -> None:
    assert_same_or_left(frame, version)


@pytest.mark.parametrize("version", range(6, 11))
@pytest.mark.parametrize("count", [PARTITIONS_MAX, PARTITIONS_MAX + 1])
def test_many_partitions_are_left_to_the_codec(version: int, count: int) -> None:
    parts = [OffsetCommitRequestPartition(partition_index=index, committed_offset=index) for index in range(count)]
    topic = OffsetCommitRequestTopic(name="t", topic_id=UUID(int=1), partitions=parts)
    request = OffsetCommitRequest(group_id="g", topics=[topic])
    frame = codec.encode("request", ApiKey.OFFSET_COMMIT, version, request)
    assert (parse_plain_commit(frame, 0, version) is None) == (count > PARTITIONS_MAX)


@pytest.mark.parametrize("version", range(6, 11))
@pytest.mark.parametrize("field", ["group_id", "member_id", "group_instance_id", "topic"])
def test_long_names_are_left_to_the_codec(version: int, field: str) -> None:
    for size in (NAME_BYTES_MAX, NAME_BYTES_MAX + 1):
        topic = OffsetCommitRequestTopic(
            name="t", topic_id=UUID(int=1), partitions=[OffsetCommitRequestPartition(partition_index=0)]
        )
        request = OffsetCommitRequest(group_id="g", member_id="m", topics=[topic])
        if field == "topic":
            topic.name = "x" * size
        else:
            setattr(request, field, "x" * size)
        if version < 7 and field == "group_instance_id":
            continue
        frame = codec.encode("request", ApiKey.OFFSET_COMMIT, version, request)
        is_short = size <= NAME_BYTES_MAX or (field == "topic" and version >= 10)
        assert (parse_plain_commit(frame, 0, version) is not None) == is_short


@given(version=PLAIN_VERSIONS, code=st.sampled_from(ErrorCode), data=st.data())
def test_answers(version: int, code: ErrorCode, data: st.DataObject) -> None:
    request = data.draw(plain_requests(version))
    parsed = parse_plain_commit(codec.encode("request", ApiKey.OFFSET_COMMIT, version, request), 0, version)
    assert parsed is not None
    answer = codec.decode("response", ApiKey.OFFSET_COMMIT, version, encode_answer(version, parsed.topics, code))
    assert answer == OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
                    for part in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


@given(
    first_delta=st.integers(0, 200) | st.integers(8_150, 8_250) | st.integers(0, 70_000),
    group=NAMES,
    topic=NAMES,
    topic_id=st.uuids(),
    rows=st.lists(st.tuples(st.integers(0, 2**31 - 1), INT64, INT32), min_size=1, max_size=8),
    now_ms=st.integers(0, 2**62),
)
@example(first_delta=63, group="g", topic="t", topic_id=UUID(int=1), rows=[(0, 1, 2)], now_ms=3)
@example(first_delta=63, group="g", topic="t", topic_id=UUID(int=1), rows=[(0, 1, 2), (1, 2, 3)], now_ms=3)
@example(first_delta=64, group="g" * 200, topic="t", topic_id=UUID(int=1), rows=[(0, 1, 2)] * 2, now_ms=3)
@example(first_delta=8_191, group="g", topic="t", topic_id=UUID(int=1), rows=[(0, 1, 2)] * 2, now_ms=3)
def test_records_from_templates(
    first_delta: int, group: str, topic: str, topic_id: UUID, rows: list[tuple[int, int, int]], now_ms: int
) -> None:
    indexes, offsets, leader_epochs = zip(*rows, strict=True)
    records = [
        Record(
            encode_key(OffsetCommitKey(group, topic, index)),
            encode_value(OffsetCommitValue(offset, epoch, "", now_ms, -1, topic_id)),
        )
        for index, offset, epoch in rows
    ]
    template = OffsetRecords(group, topic, topic_id, indexes)
    assert template.size_bytes == sum(len(record.key or b"") + len(record.value or b"") for record in records)
    for _ in range(2):  # what a template was filled with before does not show
        encoded = template.encoded(first_delta, offsets, leader_epochs, now_ms)
        assert bytes(encoded) == bytes(encode_records(records, first_delta))
        template.encoded(0, [7] * len(rows), [8] * len(rows), 9)


@given(offset=INT64, leader_epoch=INT32, now_ms=INT64, topic_id=st.uuids() | st.just(UUID(int=0)))
def test_plain_values_are_written_as_the_codec_writes_them(
    offset: int, leader_epoch: int, now_ms: int, topic_id: UUID
) -> None:
    value = OffsetCommitValue(offset, leader_epoch, "", now_ms, -1, topic_id)
    assert encode_value(value) == encode_prefixed(_OFFSET_COMMIT_VALUE, 4, value)


@given(values=st.lists(st.binary(max_size=20), min_size=1, max_size=100), now_ms=st.integers(0, 2**40))
def test_a_batch_of_encoded_records(values: list[bytes], now_ms: int) -> None:
    records = [Record(b"key", value, (), now_ms) for value in values]
    batch = encode_batch_of(encode_records(records, 0), len(records), now_ms)
    assert batch == encode_batch(records)
    assert [record.value for record in decode_records(batch)] == values


def test_the_partitions_that_are_remembered_are_bounded() -> None:
    known = PlainCommits()
    partitions = [OffsetCommitRequestPartition(partition_index=number) for number in range(PARTITIONS_MAX)]
    for number in range(KNOWN_PARTITIONS_MAX // PARTITIONS_MAX + 10):
        topics = [OffsetCommitRequestTopic(name="t", partitions=partitions)]
        request = OffsetCommitRequest(group_id=f"g{number}", topics=topics)
        frame = bytearray(codec.encode("request", ApiKey.OFFSET_COMMIT, 9, request))
        assert known.parse(frame, 0, 9) == known.parse(frame, 0, 9) == parse_plain_commit(frame, 0, 9)
    assert known.partition_count == known.count * PARTITIONS_MAX
    assert KNOWN_PARTITIONS_MAX - PARTITIONS_MAX < known.partition_count <= KNOWN_PARTITIONS_MAX
