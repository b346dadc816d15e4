"""Requests made beforehand, as the bytes that go over the wire. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.codec import encode_request, encode_response
from bmq.protocol.compression import Compression
from bmq.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from bmq.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from bmq.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from bmq.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

CLIENT_ID: Final = "load"
# The newest versions that name a topic instead of its id, which each server makes up.
PRODUCE_VERSION: Final = 12
FETCH_VERSION: Final = 12
PRODUCE_TIMEOUT_MS: Final = 30_000
FETCH_WAIT_MS: Final = 500
# librdkafka's fetch.message.max.bytes and fetch.max.bytes.
PARTITION_FETCH_BYTES: Final = 1024 * 1024
FETCH_BYTES: Final = 50 * 1024 * 1024
# Hexadecimal words: 16 KB of them shrink to half under LZ4 and to a third under zstd.
WORDS: Final = tuple(Random(0).randbytes(12 * 512).hex()[at : at + 6 + at % 18].encode() for at in range(0, 12_288, 24))


@dataclass(frozen=True, slots=True)
class Frames:
    """`data`: requests one behind the other, each with its length in front and a correlation id of its own.

    `zero_at`: where the first partition's error code stands in an answer, counted from behind the length. `records` and
    `record_bytes`: of each request of a Produce, its values alone; 0 of a Fetch.
    """

    data: bytes
    zero_at: int
    records: int = 0
    record_bytes: int = 0


def batch_of(
    record_bytes: int, count: int, timestamp_ms: int, seed: int, compression: Compression = Compression.NONE
) -> bytes:
    """A batch of records without keys. Uncompressed: random values; else words, which shrink as lines of a log do."""
    random = Random(seed)
    value_of = _words if compression else Random.randbytes
    records = [Record(None, value_of(random, record_bytes), (), timestamp_ms) for _ in range(count)]
    return bytes(encode_batch(records, compression=compression))


def _words(random: Random, length_bytes: int) -> bytes:
    words = (random.choice(WORDS) for _ in range(length_bytes))
    return b" ".join(words)[:length_bytes]


def produce_frames(
    topic: str,
    partitions: Iterable[Sequence[int]],
    record_bytes: int,
    batch_records: int,
    timestamp_ms: int,
    compression: Compression = Compression.NONE,
) -> Frames:
    """A Produce (acks=all) for each of `partitions`: one batch for every partition that it names."""
    requests, names = [], [list(named) for named in partitions]
    for number, named in enumerate(names):
        data = [
            PartitionProduceData(
                index=index, records=batch_of(record_bytes, batch_records, timestamp_ms, index, compression)
            )
            for index in named
        ]
        topics = [TopicProduceData(name=topic, partition_data=data)]
        request = ProduceRequest(acks=-1, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=topics)
        requests.append(framed(ApiKey.PRODUCE, PRODUCE_VERSION, number, request))
    zero_at = error_code_at(
        ApiKey.PRODUCE,
        PRODUCE_VERSION,
        lambda code: ProduceResponse(
            responses=[
                TopicProduceResponse(name=topic, partition_responses=[PartitionProduceResponse(error_code=code)])
            ]
        ),
    )
    return Frames(b"".join(requests), zero_at, batch_records * len(names[0]), record_bytes)


def fetch_frames(
    topic: str, partitions: int, offsets: Iterable[int], partition_bytes_max: int = PARTITION_FETCH_BYTES
) -> Frames:
    """A Fetch of all partitions, without a session, from each of `offsets` on, as a consumer in the middle of a backlog."""
    requests = []
    for number, offset in enumerate(offsets):
        wanted = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=partition_bytes_max)
            for index in range(partitions)
        ]
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            topics=[FetchTopic(topic=topic, partitions=wanted)],
        )
        requests.append(framed(ApiKey.FETCH, FETCH_VERSION, number, request))
    zero_at = error_code_at(
        ApiKey.FETCH,
        FETCH_VERSION,
        lambda code: FetchResponse(
            responses=[FetchableTopicResponse(topic=topic, partitions=[PartitionData(error_code=code, records=b"")])]
        ),
    )
    return Frames(b"".join(requests), zero_at)


def framed(api_key: ApiKey, version: int, correlation_id: int, request: Any) -> bytes:
    """A request with its length in front."""
    frame = encode_request(api_key, version, correlation_id, CLIENT_ID, request)
    return len(frame).to_bytes(4, "big") + frame


def error_code_at(api_key: ApiKey, version: int, response_with: Callable[[int], Any]) -> int:
    """The position of an error code's two bytes: where answers with other codes differ."""
    without, with_one = (encode_response(api_key, version, 0, response_with(code)) for code in (0, 0x0101))
    return next(at for at, (left, right) in enumerate(zip(without, with_one, strict=True)) if left != right)
