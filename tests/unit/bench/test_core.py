"""Frames made beforehand, and the figures of one core."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bench.core import criteria
from bench.core.__main__ import LOADS
from bench.core.frames import FETCH_VERSION, PRODUCE_VERSION, fetch_frames, produce_frames
from bench.core.loads import BATCH_100B, COMPRESSED
from bench.core.plan import PARTS, plan_of
from bench.criteria import Criterion, Evidence
from bench.runner import FULL, QUICK, SMOKE
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import decode_records
from bmq.protocol.codec import decode_request, encode_response, parse_request_header
from bmq.protocol.compression import Compression
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.hot_produce import ProduceResult, ProduceTopicResult, encode_produce_response, parse_produce
from bmq.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from bmq.protocol.record_batch import batches, verify_crc

pytestmark = pytest.mark.campaign("unit")

NOW_MS = 1_700_000_000_000


def split(data: bytes) -> Iterator[bytearray]:
    while data:
        size = int.from_bytes(data[:4], "big")
        yield bytearray(data[4 : 4 + size])
        data = data[4 + size :]


def test_produces_are_what_a_client_would_send() -> None:
    made = produce_frames("some", [[0, 1], [2, 3], [4, 5]], record_bytes=100, batch_records=7, timestamp_ms=NOW_MS)
    assert (made.records, made.record_bytes) == (14, 100)
    found = []
    for number, frame in enumerate(split(made.data)):
        header = parse_request_header(frame)
        assert (header.api_key, header.api_version, header.correlation_id) == (ApiKey.PRODUCE, PRODUCE_VERSION, number)
        request = parse_produce(frame, header.body_position, header.api_version)
        assert (request.acks, request.transactional_id) == (-1, None)
        (topic,) = request.topics
        assert topic.name == "some"
        for partition, records in topic.partitions:
            ((position, batch),) = batches(records)  # type: ignore[arg-type]
            verify_crc(records, position, batch)  # type: ignore[arg-type]
            values = [record.value for record in decode_records(records, position)]  # type: ignore[arg-type]
            assert [len(value or b"") for value in values] == [100] * 7
            found.append(partition)
    assert found == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("codec", COMPRESSED.values())
def test_compressed_batches_shrink_and_hold_the_records(codec: Compression) -> None:
    made = produce_frames("some", [[0]], 100, BATCH_100B, NOW_MS, codec)
    plain = produce_frames("some", [[0]], 100, BATCH_100B, NOW_MS)
    assert len(plain.data) / 5 < len(made.data) < len(plain.data) / 1.5
    (frame,) = split(made.data)
    header = parse_request_header(frame)
    ((_, records),) = parse_produce(frame, header.body_position, header.api_version).topics[0].partitions
    ((position, batch),) = batches(records)  # type: ignore[arg-type]
    assert batch.compression is codec
    assert [len(record.value or b"") for record in decode_records(records, position)] == [100] * BATCH_100B  # type: ignore[arg-type]


def test_the_place_of_a_produces_error_code() -> None:
    made = produce_frames("some", [[3]], record_bytes=1, batch_records=1, timestamp_ms=NOW_MS)
    result = ProduceResult(3, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1, -1, None, (), None)
    answer = encode_produce_response(PRODUCE_VERSION, 9, [ProduceTopicResult("some", None, [result])])
    code = int.from_bytes(bytes(answer)[made.zero_at :][:2], "big")
    assert code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_fetches_ask_for_every_partition_and_tell_the_place_of_an_error_code() -> None:
    made = fetch_frames("some", 3, [0, 500])
    requests = []
    for frame in split(made.data):
        header = parse_request_header(frame)
        assert (header.api_key, header.api_version) == (ApiKey.FETCH, FETCH_VERSION)
        requests.append(decode_request(header, frame))
    asked = [[(one.partition, one.fetch_offset) for one in request.topics[0].partitions] for request in requests]
    assert asked == [[(0, 0), (1, 0), (2, 0)], [(0, 500), (1, 500), (2, 500)]]
    data = [PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE, records=b"")]
    response = FetchResponse(responses=[FetchableTopicResponse(topic="some", partitions=data)])
    answer = encode_response(ApiKey.FETCH, FETCH_VERSION, 0, response)
    assert int.from_bytes(answer[made.zero_at :][:2], "big") == ErrorCode.OFFSET_OUT_OF_RANGE


def raw_of(speed: float) -> dict[str, Any]:
    """Samples of a server so many times as good as another, on the same processor time."""
    latencies = {f"latency_{name}_us": 1_000 / speed for name in ("p50", "p99", "p999")}
    load = {"seconds": 10.0, "server_cpu_s": 5.0, **latencies}
    return {
        "produce_1k": {**load, "value_bytes": 1e9 * speed, "records": 1e6 * speed},
        "produce_100b": {**load, "value_bytes": 1e8 * speed, "records": 1e6 * speed},
        "produce_lz4": {**load, "records": 1e6 * speed},
        "produce_zstd": {**load, "records": 1e6 * speed},
        "fetch": {**load, "received_bytes": 1e10 * speed},
        "small_requests": {**load, "answers": 1e5 * speed},
        "rates": [load, load],
    }


def judged(speed: float) -> dict[str, Criterion]:
    pairs = {"wanted": 1, "pairs": [{"bmq": raw_of(speed), "kafka": raw_of(1.0)}]}
    found = criteria.judge(Evidence(dict.fromkeys(PARTS, pairs), {}, {part: {"revision": "abc"} for part in PARTS}, {}))
    return {one["id"]: one for one in found}


def test_work_is_judged_by_the_cpu_second() -> None:
    found = judged(2.5)
    assert {name: (one["op"], one["bound"], one["holds"]) for name, one in found.items() if "holds" in one} == {
        "core_produce_1k_ratio": (">=", 2.5, True),
        "core_produce_100b_ratio": (">=", 2.5, True),
        "core_fetch_ratio": (">=", 2.5, True),
        "core_small_requests_ratio": (">=", 1.0, True),
        "core_produce_lz4_rate_ratio": (">=", 1.0, True),
        "core_produce_zstd_rate_ratio": (">=", 1.0, True),
    }
    assert found["core_produce_1k_ratio"]["medians"] == {"bmq": 500.0, "rival": 200.0}
    assert found["core_produce_1k_rate_ratio"]["medians"] == {"bmq": 250.0, "rival": 100.0}
    assert found["core_p99_high_rate_ratio"]["value"] == 0.4
    assert not judged(2.4)["core_fetch_ratio"]["holds"]


@pytest.mark.parametrize("size", [FULL, QUICK, SMOKE])
def test_every_part_is_run_in_every_size(size: str) -> None:
    plan = plan_of(PARTS, ("bmq", "kafka"), size)
    assert plan.parts == PARTS
    assert set(PARTS) == set(criteria.PART_OF.values()) == set(LOADS)
    assert plan.rates_per_s
