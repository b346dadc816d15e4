"""Producers of a lane over a socket: the proxy puts their lane into their records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bmq.log import opened_batch
from bmq.log.lanes.stamps import lane_rules
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.error_codes import ErrorCode
from tests.unit.proxy.harness import TOPIC_ID, Client, Proxy, batch, image_of, produce_request, topic_image

pytestmark = pytest.mark.unit


def set_rules(proxy: Proxy, *rules: str, **fields: Any) -> None:
    topic = topic_image("t", TOPIC_ID, 6, **fields)
    configured = replace(topic.log_config, lane_producers=lane_rules(rules))
    proxy.controller.image = image_of(replace(topic, log_config=configured))


def lanes(proxy: Proxy, partition: int = 0) -> list[list[bytes | None]]:
    """Of each record, the values of its header."""
    return [
        [value for name, value in record.headers if name == "x-lane"]
        for stored in proxy.log(partition).batches
        for record in decode_records(memoryview(bytes(stored.data)))
    ]


async def produce(client: Client, client_id: str | None, **records: bytes) -> dict[int, int]:
    request = produce_request({int(name[1:]): raw for name, raw in records.items()})
    response = await client.ask(ApiKey.PRODUCE, 9, request, client_id)
    return {one.index: one.error_code for one in response.responses[0].partition_responses}


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
async def test_records_of_a_lanes_producer_get_its_lane(proxy: Proxy, client: Client, codec: Compression) -> None:
    set_rules(proxy, "client:blue-*=blue", "user:ANONYMOUS=red")
    plain = bytes(encode_batch([Record(None, b"v"), Record(None, b"w", (("x-lane", b"own"),))], compression=codec))
    assert await produce(client, "blue-7", p0=plain, p1=plain) == {0: 0, 1: 0}
    assert await produce(client, "other", p2=plain) == {2: 0}
    assert lanes(proxy) == lanes(proxy, 1) == [[b"blue"], [b"own"]]
    assert lanes(proxy, 2) == [[b"red"], [b"own"]]


async def test_sequences_stay_so_a_batch_that_is_sent_again_is_the_same(proxy: Proxy, client: Client) -> None:
    set_rules(proxy, "client:blue=blue")
    numbered = bytes(encode_batch([Record(None, b"v")], producer_id=5, producer_epoch=1, base_sequence=9))
    for _ in range(2):
        await produce(client, "blue", p0=numbered)
    stored = {bytes(one.data)[57:] for one in proxy.log(0).batches}
    assert len(stored) == 1
    assert bytes(proxy.log(0).batches[0].data)[43:57] == numbered[43:57]


async def test_others_records_stay_as_they_are(proxy: Proxy, client: Client) -> None:
    set_rules(proxy, "client:blue=blue")
    assert await produce(client, None, p0=batch(b"v")) == {0: 0}
    assert bytes(proxy.log(0).batches[0].data)[61:] == batch(b"v")[61:]


async def test_what_the_owner_refuses_goes_to_it_as_it_is(proxy: Proxy, client: Client) -> None:
    set_rules(proxy, "client:blue=blue")
    wrong_crc = bytearray(batch(b"v"))
    wrong_crc[-1] ^= 1
    await produce(client, "blue", p0=bytes(wrong_crc))
    assert bytes(proxy.log(0).batches[0].data)[61:] == bytes(wrong_crc)[61:]


async def test_batch_that_is_too_long_for_it_is_refused_alone(
    proxy: Proxy, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_rules(proxy, "client:blue=blue")
    monkeypatch.setattr(opened_batch, "RECORDS_MAX", 2)
    answered = await produce(client, "blue", p0=batch(b"a", b"b", b"c"), p1=batch(b"a", b"b"))
    assert answered == {0: ErrorCode.MESSAGE_TOO_LARGE, 1: 0}
    assert lanes(proxy, 1) == [[b"blue"], [b"blue"]]
