"""The hand-laid Produce and Fetch agree with the codec in every version: same values in, same bytes out."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.protocol import codec, hot_fetch, hot_parts, hot_produce
from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.messages import fetch_response as fetch
from bmq.protocol.messages import produce_request as produce
from bmq.protocol.messages import produce_response as produced
from bmq.protocol.wire import ELEMENTS_MAX, unsigned_varint
from tests.support.hot_messages import as_message
from tests.unit.protocol.strategies import api_messages

pytestmark = pytest.mark.unit

PRODUCE_VERSIONS = st.integers(APIS[ApiKey.PRODUCE].version_min, APIS[ApiKey.PRODUCE].version_max)
FETCH_VERSIONS = st.integers(APIS[ApiKey.FETCH].version_min, APIS[ApiKey.FETCH].version_max)


@given(version=PRODUCE_VERSIONS, data=st.data())
def test_produce_requests_parse_as_the_codec_parses_them(version: int, data: st.DataObject) -> None:
    message = data.draw(api_messages("request", ApiKey.PRODUCE, version))
    encoded = codec.encode("request", ApiKey.PRODUCE, version, message)
    frame = memoryview(bytearray(b"header" + encoded))
    assert as_message(hot_produce.parse_produce(frame, 6, version)) == message
    assert as_message(hot_produce.parse_produce(bytes(frame), 6, version)) == message


@given(version=PRODUCE_VERSIONS, data=st.data())
def test_hostile_produce_requests_are_refused_as_the_codec_refuses_them(version: int, data: st.DataObject) -> None:
    message = data.draw(api_messages("request", ApiKey.PRODUCE, version))
    encoded = bytearray(codec.encode("request", ApiKey.PRODUCE, version, message))
    place = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(MalformedMessage):
        hot_produce.parse_produce(encoded[:place], 0, version)
    encoded[place] ^= 1 << data.draw(st.integers(0, 7))
    assert_same_verdict(encoded, version)


@given(version=PRODUCE_VERSIONS, frame=st.binary(max_size=60))
def test_bytes_of_no_meaning(version: int, frame: bytes) -> None:
    assert_same_verdict(frame, version)


def assert_same_verdict(frame: bytes | bytearray, version: int) -> None:
    verdicts: list[Any] = []
    for parse in (
        lambda: as_message(hot_produce.parse_produce(frame, 0, version)),
        lambda: codec.decode("request", ApiKey.PRODUCE, version, frame),
    ):
        try:
            verdicts.append(parse())
        except MalformedMessage:
            verdicts.append(None)
    assert verdicts[0] == verdicts[1]


def test_records_are_views_into_the_frame() -> None:
    message = produce.ProduceRequest(
        topic_data=(produce.TopicProduceData(partition_data=(produce.PartitionProduceData(records=b"abc"),)),)
    )
    for version in (3, 9, 13):
        frame = bytearray(codec.encode("request", ApiKey.PRODUCE, version, message))
        records = hot_produce.parse_produce(frame, 0, version).topics[0].partitions[0].records
        assert records is not None and not records.readonly
        records[0] = ord("X")
        assert b"Xbc" in frame
        read_only = hot_produce.parse_produce(bytes(frame), 0, version).topics[0].partitions[0].records
        assert read_only is not None and read_only.readonly


def test_produce_requests_with_absurd_counts() -> None:
    plain = b"\xff\xff\0\x01\0\0\0\0"
    for version, frame in (
        (3, plain + b"\x7f\xff\xff\xff" + bytes(50)),
        (3, plain + b"\xff\xff\xff\xff"),
        (3, plain + b"\0\0\0\x01\0\x01t\x7f\xff\xff\xff" + bytes(50)),
        (3, plain + b"\0\0\0\x01\xff\xff" + bytes(50)),
        (9, b"\0\0\x01\0\0\0\0" + b"\xff\xff\xff\xff\x0f" + bytes(50)),
        (9, b"\0\0\x01\0\0\0\0" + b"\x02\x02t" + b"\xff\xff\xff\xff\x0f" + bytes(50)),
        (13, b"\0\0\x01\0\0\0\0" + b"\x02" + bytes(16) + b"\0"),
    ):
        with pytest.raises(MalformedMessage):
            hot_produce.parse_produce(frame, 0, version)
    many = (ELEMENTS_MAX + 1).to_bytes(4, "big")
    with pytest.raises(MalformedMessage):
        hot_produce.parse_produce(plain + b"\0\0\0\x01\0\x01t" + many + bytes(8 * (ELEMENTS_MAX + 1)), 0, 3)


def some(value: tuple[int, int], wrap: Any = tuple) -> Any:
    """None for what the codec leaves out: a nested entity with its defaults."""
    return None if value == (-1, -1) else wrap(value)


def produce_results(response: produced.ProduceResponse) -> list[hot_produce.ProduceTopicResult]:
    return [
        hot_produce.ProduceTopicResult(
            topic.name,
            topic.topic_id,
            [
                hot_produce.ProduceResult(
                    p.index,
                    p.error_code,
                    p.base_offset,
                    p.log_append_time_ms,
                    p.log_start_offset,
                    p.error_message,
                    [hot_produce.RecordError(e.batch_index, e.batch_index_error_message) for e in p.record_errors],
                    some((p.current_leader.leader_id, p.current_leader.leader_epoch), hot_parts.LeaderHint._make),
                )
                for p in topic.partition_responses
            ],
        )
        for topic in response.responses
    ]


@given(version=PRODUCE_VERSIONS, correlation_id=st.integers(0, 2**31 - 1), data=st.data())
def test_produce_responses_are_written_as_the_codec_writes_them(
    version: int, correlation_id: int, data: st.DataObject
) -> None:
    # Drawn with all fields of the newest version, so that older ones have something to leave out.
    message = data.draw(api_messages("response", ApiKey.PRODUCE, data.draw(st.sampled_from((version, 13)))))
    endpoints = [hot_parts.NodeEndpoint(e.node_id, e.host, e.port, e.rack) for e in message.node_endpoints]
    written = hot_produce.encode_produce_response(
        version,
        correlation_id,
        produce_results(message),
        throttle_time_ms=message.throttle_time_ms,
        node_endpoints=endpoints,
    )
    assert written == codec.encode_response(ApiKey.PRODUCE, version, correlation_id, message)


@given(
    topic_id=st.uuids(),
    partition=st.integers(0, 2**31 - 1),
    records=st.binary(max_size=20_000),
    acks=st.sampled_from((-1, 0, 1)),
    timeout_ms=st.integers(0, 2**31 - 1),
)
def test_a_produce_request_for_one_partition_is_written_as_the_codec_writes_it(
    topic_id: UUID, partition: int, records: bytes, acks: int, timeout_ms: int
) -> None:
    view = memoryview(bytearray(records))
    pieces = hot_produce.encode_produce_request(topic_id, partition, view, acks=acks, timeout_ms=timeout_ms)
    assert [piece for piece in pieces if piece is view]
    data = produce.PartitionProduceData(index=partition, records=records)
    message = produce.ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=(produce.TopicProduceData(topic_id=topic_id, partition_data=(data,)),),
    )
    encoded = codec.encode("request", ApiKey.PRODUCE, hot_produce.FORWARDED_PRODUCE_VERSION, message)
    assert b"".join(pieces) == encoded


@given(
    transactional_id=st.text(st.characters(codec="utf-8"), max_size=200),
    client_version=st.integers(3, 13),
    records=st.binary(max_size=300),
)
def test_a_transactional_produce_is_forwarded_with_the_version_it_came_in(
    transactional_id: str, client_version: int, records: bytes
) -> None:
    topic_id, version = UUID(int=5), hot_produce.FORWARDED_PRODUCE_VERSION
    pieces = hot_produce.encode_produce_request(
        topic_id,
        3,
        records,
        acks=-1,
        timeout_ms=7,
        transactional_id=transactional_id,
        client_version=client_version,
    )
    frame = b"".join(pieces)
    parsed = hot_produce.parse_produce(frame, 0, version)
    assert parsed.client_version == client_version
    # Who does not know the tagged field skips it.
    assert codec.decode("request", ApiKey.PRODUCE, version, frame) == as_message(parsed)
    assert (parsed.transactional_id, parsed.topics[0].topic_id) == (transactional_id, topic_id)


@given(
    tags=st.lists(st.tuples(st.integers(0, 30_000), st.binary(max_size=4)), max_size=4, unique_by=lambda tag: tag[0])
)
def test_tagged_fields_that_say_no_version(tags: list[tuple[int, bytes]]) -> None:
    tags = [tag for tag in tags if tag[0] != hot_produce.CLIENT_VERSION_TAG]
    tags.append((hot_produce.CLIENT_VERSION_TAG, b"too long"))
    section = unsigned_varint(len(tags)) + b"".join(
        unsigned_varint(tag) + unsigned_varint(len(value)) + value for tag, value in sorted(tags)
    )
    body = codec.encode("request", ApiKey.PRODUCE, 13, produce.ProduceRequest())[:-1] + section
    assert hot_produce.parse_produce(body, 0, 13).client_version == -1


@given(correlation_id=st.integers(0, 2**31 - 1), data=st.data())
def test_produce_responses_parse_as_the_codec_parses_them(correlation_id: int, data: st.DataObject) -> None:
    version = hot_produce.FORWARDED_PRODUCE_VERSION
    message = data.draw(api_messages("response", ApiKey.PRODUCE, version))
    frame = codec.encode_response(ApiKey.PRODUCE, version, correlation_id, message)
    expected = [
        topic._replace(
            name=None,
            partitions=[result._replace(record_errors=tuple(result.record_errors)) for result in topic.partitions],
        )
        for topic in produce_results(message)
    ]
    assert hot_produce.parse_produce_response(bytearray(frame)) == expected
    assert hot_produce.parse_produce_response(frame) == expected


@given(data=st.data())
def test_hostile_produce_responses_are_refused_and_nothing_worse(data: st.DataObject) -> None:
    version = hot_produce.FORWARDED_PRODUCE_VERSION
    message = data.draw(api_messages("response", ApiKey.PRODUCE, version))
    frame = bytearray(codec.encode_response(ApiKey.PRODUCE, version, 1, message))
    place = data.draw(st.integers(0, len(frame) - 1))
    with pytest.raises(MalformedMessage):
        hot_produce.parse_produce_response(frame[:place])
    frame[place] ^= 1 << data.draw(st.integers(0, 7))
    try:
        hot_produce.parse_produce_response(frame)
    except MalformedMessage:
        pass


def test_a_leader_hint_of_no_leader_is_left_out() -> None:
    for hint in (None, hot_parts.LeaderHint(-1, -1)):
        topics = [hot_produce.ProduceTopicResult(None, None, [hot_produce.ProduceResult(0, 6, current_leader=hint)])]
        message = produced.ProduceResponse(
            responses=(
                produced.TopicProduceResponse(
                    partition_responses=(produced.PartitionProduceResponse(error_code=6, base_offset=-1),)
                ),
            )
        )
        assert hot_produce.encode_produce_response(13, 1, topics) == codec.encode_response(
            ApiKey.PRODUCE, 13, 1, message
        )


def fetch_results(response: fetch.FetchResponse, pieces: int) -> list[hot_fetch.FetchTopicResult]:
    def split(records: bytes | None) -> list[memoryview] | None:
        if records is None:
            return None
        step = max(1, -(-len(records) // pieces))
        return [memoryview(records)[at : at + step] for at in range(0, len(records), step)]

    return [
        hot_fetch.FetchTopicResult(
            topic.topic,
            topic.topic_id,
            [
                hot_fetch.FetchResult(
                    p.partition_index,
                    p.error_code,
                    p.high_watermark,
                    p.last_stable_offset,
                    p.log_start_offset,
                    split(p.records),
                    None
                    if p.aborted_transactions is None
                    else [(a.producer_id, a.first_offset) for a in p.aborted_transactions],
                    p.preferred_read_replica,
                    some((p.current_leader.leader_id, p.current_leader.leader_epoch), hot_parts.LeaderHint._make),
                    some((p.diverging_epoch.epoch, p.diverging_epoch.end_offset)),
                )
                for p in topic.partitions
            ],
        )
        for topic in response.responses
    ]


@given(version=FETCH_VERSIONS, correlation_id=st.integers(0, 2**31 - 1), pieces=st.integers(1, 3), data=st.data())
def test_fetch_responses_are_written_as_the_codec_writes_them(
    version: int, correlation_id: int, pieces: int, data: st.DataObject
) -> None:
    drawn = data.draw(st.sampled_from((version, 18)))
    message: fetch.FetchResponse = data.draw(api_messages("response", ApiKey.FETCH, drawn))
    for topic in message.responses:
        for partition in topic.partitions:
            partition.snapshot_id = fetch.SnapshotId()  # only KRaft's own replicas are told of snapshots
    endpoints = [hot_parts.NodeEndpoint(e.node_id, e.host, e.port, e.rack) for e in message.node_endpoints]
    buffers = hot_fetch.encode_fetch_response(
        version,
        correlation_id,
        fetch_results(message, pieces),
        error_code=message.error_code,
        session_id=message.session_id,
        throttle_time_ms=message.throttle_time_ms,
        node_endpoints=endpoints,
    )
    assert b"".join(buffers) == codec.encode_response(ApiKey.FETCH, version, correlation_id, message)  # type: ignore[arg-type]


def test_fetched_records_are_not_copied() -> None:
    records = [memoryview(b"one"), memoryview(b"two")]
    for version in (4, 11, 12, 18):
        topics = [
            hot_fetch.FetchTopicResult("t", None, [hot_fetch.FetchResult(0, records=records), hot_fetch.FetchResult(1)])
        ]
        buffers = hot_fetch.encode_fetch_response(version, 1, topics)
        assert [buffer for buffer in buffers if isinstance(buffer, memoryview)] == records
        assert len(buffers) == 4
