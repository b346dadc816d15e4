"""Reads a topic of dead letters (KIP-1191) from its start to its end."""

from __future__ import annotations

from dataclasses import dataclass

from bmq.protocol import dead_letters as headers
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, decode_records
from bmq.protocol.messages import fetch_request
from bmq.protocol.record_batch import batches, verify_crc
from tests.simulation.clients import Client, Unhappy, expect
from tests.simulation.committed_reads import end_offset, start_offset
from tests.simulation.transaction_history import Place

VERSION = 12


@dataclass(frozen=True, slots=True)
class Letter:
    """Says of a record that it was given up after `count` deliveries. `why`: Kafka's sentence. `value`: the copied one."""

    place: Place
    offset: int
    count: int
    why: str
    value: bytes


def letter_of(record: Record) -> Letter:
    said = {name: (content or b"").decode() for name, content in reversed(record.headers)}
    return Letter(
        (said[headers.TOPIC_HEADER], int(said[headers.PARTITION_HEADER])),
        int(said[headers.OFFSET_HEADER]),
        int(said[headers.DELIVERY_COUNT_HEADER]),
        said[headers.MESSAGE_HEADER],
        record.value or b"",
    )


async def read_letters(client: Client, place: Place, position: int) -> tuple[list[Letter], int]:
    """Those from this offset to the end, and the end. Raises Disconnected, Unhappy."""
    records, end = await read_records(client, place, position)
    return [letter_of(record) for record in records], end


async def read_records(client: Client, place: Place, position: int) -> tuple[list[Record], int]:
    """The same of any records."""
    records: list[Record] = []
    position = max(position, await start_offset(client, place))
    end = await end_offset(client, place, is_stable=False)
    while position < end:
        wanted = fetch_request.FetchPartition(
            partition=place[1], fetch_offset=position, partition_max_bytes=200_000, current_leader_epoch=-1
        )
        topic = fetch_request.FetchTopic(topic=place[0], partitions=[wanted])
        request = fetch_request.FetchRequest(max_wait_ms=500, min_bytes=1, topics=[topic])
        answer = await client.request(ApiKey.FETCH, VERSION, request)
        expect(answer.error_code)
        data = answer.responses[0].partitions[0]
        expect(data.error_code)
        before = position
        for at, header in batches(data.records or b""):
            verify_crc(data.records, at, header)
            found = decode_records(data.records, at)
            records += [record for record in found if record.offset >= position]
            position = header.end_offset
        if position == before:
            raise Unhappy(f"nothing at {position} of {place}")
    return records, end
