"""Whatever bytes come, decoding gives a message or MalformedMessage, soon, and in memory the frame can account for."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmq.protocol import codec
from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.errors import MalformedMessage, UnsupportedVersion
from bmq.protocol.hot_produce import parse_produce
from bmq.protocol.messages.join_group_request import JoinGroupRequest
from bmq.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from bmq.protocol.wire import ELEMENTS_MAX, TAGGED_FIELDS_MAX, unsigned_varint
from tests.unit.protocol.strategies import api_messages

pytestmark = pytest.mark.unit

# For each of a hundred kinds of message, in any of its versions.
SOME = settings(max_examples=settings.default.max_examples // 2)  # type: ignore[union-attr]
KINDS = [(api_key, kind) for api_key in APIS for kind in ("request", "response")]


def check_decoding(kind: str, api_key: ApiKey, version: int, data: bytes) -> None:
    """Refused, or a message that the version can carry: written again it is read as the same."""
    try:
        message = codec.decode(kind, api_key, version, data)
    except MalformedMessage:
        return
    encoded = codec.encode(kind, api_key, version, message)
    # By their text, because a NaN is not equal to itself.
    assert repr(codec.decode(kind, api_key, version, encoded)) == repr(message)


@st.composite
def versions(draw: st.DrawFn, api_key: ApiKey) -> int:
    return draw(st.integers(APIS[api_key].version_min, APIS[api_key].version_max))


@pytest.mark.parametrize(("api_key", "kind"), KINDS)
@given(data=st.data())
@SOME
def test_bytes_of_no_meaning(api_key: ApiKey, kind: str, data: st.DataObject) -> None:
    check_decoding(kind, api_key, data.draw(versions(api_key)), data.draw(st.binary(max_size=60)))


@pytest.mark.parametrize(("api_key", "kind"), KINDS)
@given(data=st.data())
@SOME
def test_messages_cut_short_and_with_flipped_bits(api_key: ApiKey, kind: str, data: st.DataObject) -> None:
    version = data.draw(versions(api_key))
    encoded = codec.encode(kind, api_key, version, data.draw(api_messages(kind, api_key, version)))
    if not encoded:
        return
    place = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(MalformedMessage):
        codec.decode(kind, api_key, version, encoded[:place])
    flipped = bytearray(encoded)
    for position in data.draw(st.lists(st.integers(0, len(encoded) - 1), min_size=1, max_size=4)):
        flipped[position] ^= 1 << data.draw(st.integers(0, 7))
    check_decoding(kind, api_key, version, bytes(flipped))


@given(frame=st.binary(max_size=40))
def test_frames_of_no_meaning(frame: bytes) -> None:
    try:
        header = codec.parse_request_header(frame)
        codec.decode_request(header, frame)
    except (MalformedMessage, UnsupportedVersion):
        return
    assert (header.api_key, header.api_version) == struct.unpack_from(">hh", frame)
    assert APIS[header.api_key].version_min <= header.api_version <= APIS[header.api_key].version_max  # type: ignore[index]


@given(api=st.sampled_from(list(APIS)), version=st.integers(-(2**15), 2**15 - 1), rest=st.binary(max_size=40))
def test_any_version_of_a_known_api(api: ApiKey, version: int, rest: bytes) -> None:
    frame = struct.pack(">hhih", api, version, 1, -1) + rest
    try:
        header = codec.parse_request_header(frame)
    except MalformedMessage:
        assert codec.is_flexible(api, version)  # only tagged fields can be wrong in this header
        return
    served = APIS[api].version_min <= version <= APIS[api].version_max
    try:
        codec.decode_request(header, frame)
    except UnsupportedVersion:
        assert not served
    except MalformedMessage:
        assert served
    else:
        assert served


def test_headers_that_cannot_be() -> None:
    for frame in (
        b"",
        bytes(9),
        struct.pack(">hhih", 3, 1, 1, 5) + b"abc",
        struct.pack(">hhih", 3, 1, 1, -2),
        struct.pack(">hhih", 3, 1, 1, 2) + b"\xff\xfe",
        struct.pack(">hhih", 3, 12, 1, -1),
        struct.pack(">hhih", 3, 12, 1, -1) + b"\x01\x00\x05ab",
        struct.pack(">hhih", 3, 12, 1, -1) + b"\xff\xff\xff\xff\xff\xff",
        struct.pack(">hhih", 3, 12, 1, -1) + unsigned_varint(TAGGED_FIELDS_MAX + 1) + bytes(2 * TAGGED_FIELDS_MAX + 2),
    ):
        with pytest.raises(MalformedMessage):
            codec.parse_request_header(frame)
    tagged = struct.pack(">hhih", 3, 12, 1, -1) + b"\x01\x63\x02ab"
    assert codec.parse_request_header(tagged).body_position == len(tagged)


def test_unknown_tagged_fields_are_skipped() -> None:
    request = MetadataRequest(topics=(MetadataRequestTopic(name="a"),))
    encoded = codec.encode("request", ApiKey.METADATA, 9, request)
    assert encoded == b"\x02\x02a\0\x01\0\0\0"
    assert (
        codec.decode("request", ApiKey.METADATA, 9, b"\x02\x02a\x01\x64\x03xyz\x01\0\0\x02\x07\0\x63\x01q") == request
    )


@pytest.mark.parametrize(
    "body",
    [
        b"\x7f\xff\xff\xff" + bytes(100),
        struct.pack(">i", ELEMENTS_MAX + 1) + bytes(2 * ELEMENTS_MAX + 2),
        struct.pack(">i", 1) + b"\xff\xff",  # a null name where version 1 has none
        struct.pack(">ih", 1, -7),
        struct.pack(">ih", 1, 2) + b"\xff\xfe",
    ],
)
def test_arrays_and_strings_that_cannot_be(body: bytes) -> None:
    with pytest.raises(MalformedMessage):
        codec.decode("request", ApiKey.METADATA, 1, body)


def test_the_elements_of_all_arrays_together_are_bounded() -> None:
    partitions = struct.pack(">i", 1000) + bytes(4 * 1000)
    topic = struct.pack(">h", 1) + b"t" + partitions
    fits = struct.pack(">i", 200) + topic * 200 + bytes(4)
    assert len(codec.decode("request", ApiKey.DELETE_RECORDS, 0, bytes(4) * 2).topics) == 0
    groups = struct.pack(">h", 1) + b"g" + fits[:-4]
    assert len(codec.decode("request", ApiKey.OFFSET_FETCH, 5, groups).topics) == 200
    too_many = struct.pack(">h", 1) + b"g" + struct.pack(">i", 300) + topic * 300
    with pytest.raises(MalformedMessage, match="elements"):
        codec.decode("request", ApiKey.OFFSET_FETCH, 5, too_many)


def test_tagged_fields_count_as_elements() -> None:
    topic = b"\x02t" + unsigned_varint(TAGGED_FIELDS_MAX) + b"\x64\0" * TAGGED_FIELDS_MAX
    few, many = (unsigned_varint(count + 1) + topic * count + bytes(4) for count in (20, 30))
    assert len(codec.decode("request", ApiKey.METADATA, 9, few).topics) == 20
    with pytest.raises(MalformedMessage, match="tagged"):
        codec.decode("request", ApiKey.METADATA, 9, many)
    produce = b"\0\0\x01\0\0\0\0"
    parse_produce(produce + unsigned_varint(21) + topic.replace(b"t", b"t\x01", 1) * 20 + b"\0", 0, 9)
    with pytest.raises(MalformedMessage, match="tagged"):
        parse_produce(produce + unsigned_varint(31) + topic.replace(b"t", b"t\x01", 1) * 30 + b"\0", 0, 9)


def test_a_hostile_frame_takes_no_more_memory_than_its_size() -> None:
    count = 4_000_000
    frames = {
        1: struct.pack(">i", count) + bytes(2 * count),
        9: unsigned_varint(count + 1) + b"\x01\x00" * count,
    }
    tagged = b"\x01\x01\0\0" + unsigned_varint(count) + b"\x64\x00" * count
    nulls = struct.pack(">i", 1) + struct.pack(">h", 1) + b"t" + struct.pack(">i", count) + bytes(4 * count)
    tracemalloc.start()
    try:
        for version, frame in frames.items():
            with pytest.raises(MalformedMessage):
                codec.decode("request", ApiKey.METADATA, version, frame)
        with pytest.raises(MalformedMessage):
            codec.decode("request", ApiKey.METADATA, 9, tagged)
        with pytest.raises(MalformedMessage):
            codec.decode("request", ApiKey.DELETE_RECORDS, 0, nulls)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 2_000_000


def test_a_bool_is_any_byte_but_zero() -> None:
    encoded = bytearray(codec.encode("request", ApiKey.METADATA, 4, MetadataRequest(allow_auto_topic_creation=False)))
    encoded[-1] = 2
    assert codec.decode("request", ApiKey.METADATA, 4, encoded).allow_auto_topic_creation is True


@pytest.mark.parametrize("length", [2**15 - 1, 2**15])
def test_a_compact_string_is_no_longer_than_another(length: int) -> None:
    """As in Kafka; what is written elsewhere has two bytes for its length."""
    encoded = codec.encode("request", ApiKey.JOIN_GROUP, 9, JoinGroupRequest(group_id="g" * length))
    produced = unsigned_varint(0) + bytes(6) + unsigned_varint(2) + unsigned_varint(length + 1) + b"t" * length
    produced += unsigned_varint(1) + bytes(2)
    if length < 2**15:
        assert len(codec.decode("request", ApiKey.JOIN_GROUP, 9, encoded).group_id) == length
        assert parse_produce(produced, 0, 9).topics[0].name == "t" * length
    else:
        with pytest.raises(MalformedMessage, match="32767 are allowed"):
            codec.decode("request", ApiKey.JOIN_GROUP, 9, encoded)
        with pytest.raises(MalformedMessage, match="32767 are allowed"):
            parse_produce(produced, 0, 9)
