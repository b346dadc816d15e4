"""Reading at both isolation levels, as clients do: aborted records are left out by the answer's list (Kafka's CompletedFetch)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import decode_records
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages import fetch_request, list_offsets_request, offset_fetch_request
from bmq.protocol.record_batch import BatchHeader, batches, verify_crc
from tests.simulation.clients import EARLIEST, FETCH_VERSIONS, LATEST, Client, OutOfRange, Unhappy, expect
from tests.simulation.connection import Disconnected
from tests.simulation.history import Violation
from tests.simulation.transaction_history import CommittedRead, Place, TransactionHistory

_COMMIT_TYPE = 1  # in a marker's key


async def fetch(
    client: Client,
    history: TransactionHistory,
    place: Place,
    offset: int,
    max_wait_ms: int,
    *,
    is_committed: bool = True,
    length_bytes_max: int = 200_000,
) -> CommittedRead:
    """What comes next from `offset`, which was there once; the history has taken note of it.

    Raises Disconnected, Unhappy, OutOfRange where the log may begin behind `offset`.
    """
    topic, partition = place
    wanted = fetch_request.FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=length_bytes_max
    )
    request = fetch_request.FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        isolation_level=int(is_committed),
        topics=[fetch_request.FetchTopic(topic=topic, partitions=[wanted])],
    )
    answer = await client.request(ApiKey.FETCH, client.rng.choice(FETCH_VERSIONS), request)
    expect(answer.error_code)
    data = answer.responses[0].partitions[0]
    if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        if history.may_be_out_of_range(place, offset):
            raise OutOfRange(f"{offset} of {place}")
        raise Violation(f"{client.place} calls {offset} of {place} out of range")
    expect(data.error_code)
    history.hear_stable_end(place, data.last_stable_offset, data.high_watermark)
    end = data.last_stable_offset if is_committed else data.high_watermark
    read = _read_of(history, place, offset, data, is_committed=is_committed)
    if read.end > max(end, offset):
        raise Violation(f"{client.place} served {place} up to {read.end}, and said that it ends at {end}")
    if is_committed:
        history.read_committed(read)
    else:
        history.read_everything(read)
    return read


def _read_of(history: TransactionHistory, place: Place, start: int, data: Any, *, is_committed: bool) -> CommittedRead:
    records: list[tuple[int, bytes]] = []
    left_out: list[tuple[int, bytes]] = []
    upcoming = sorted((one.first_offset, one.producer_id) for one in data.aborted_transactions or ())
    if upcoming and not is_committed:
        raise Violation(f"aborted transactions of {place} were listed for somebody who reads everything")
    aborted: set[int] = set()
    end = start
    for position, header in batches(data.records or b""):
        verify_crc(data.records, position, header)
        is_next = end <= header.base_offset if history.has_gaps else end == header.base_offset
        if not (is_next or end == start) or header.end_offset <= start:
            raise Violation(f"{place} was read from {start}, and after {end} came {header.base_offset}")
        end = header.end_offset
        while upcoming and upcoming[0][0] <= header.last_offset:
            aborted.add(upcoming.pop(0)[1])
        if header.is_control:
            if header.record_count and not _is_commit(history, data.records, position, header):
                aborted.discard(header.producer_id)
            continue
        is_aborted = header.is_transactional and header.producer_id in aborted
        target = left_out if is_aborted else records
        for record in decode_records(data.records, position):
            if record.offset >= start:
                target.append((record.offset, history.value_of(record)))
    return CommittedRead(place, start, end, records, left_out)


def _is_commit(history: TransactionHistory, buffer: bytes, position: int, header: BatchHeader) -> bool:
    (record,) = decode_records(buffer, position)
    is_commit = int.from_bytes((record.key or b"")[2:4], "big") == _COMMIT_TYPE
    history.read_marker(header.producer_id, header.producer_epoch, is_commit)
    return is_commit


async def end_offset(client: Client, place: Place, *, is_stable: bool) -> int:
    """The last stable offset, or the high watermark. Raises Disconnected, Unhappy."""
    return await _listed(client, place, LATEST, isolation_level=int(is_stable))


async def start_offset(client: Client, place: Place) -> int:
    """The log's first offset. Raises Disconnected, Unhappy."""
    return await _listed(client, place, EARLIEST, 0)


async def _listed(client: Client, place: Place, timestamp: int, isolation_level: int) -> int:
    wanted = list_offsets_request.ListOffsetsPartition(partition_index=place[1], timestamp=timestamp)
    topic = list_offsets_request.ListOffsetsTopic(name=place[0], partitions=[wanted])
    request = list_offsets_request.ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=[topic])
    answer = await client.request(ApiKey.LIST_OFFSETS, 5, request)
    expect(answer.topics[0].partitions[0].error_code)
    return int(answer.topics[0].partitions[0].offset)


async def group_offsets(
    client: Client, history: TransactionHistory, group: str, topic: str, partitions: Sequence[int], *, is_stable: bool
) -> dict[int, int]:
    """What the group has committed, 0 before its first commit. Raises Disconnected, Unhappy: it is not stable yet."""
    kept = history.stable_offsets if is_stable else history.any_offsets
    known = {partition: kept[partition] for partition in partitions}
    wanted = offset_fetch_request.OffsetFetchRequestTopic(name=topic, partition_indexes=partitions)
    request = offset_fetch_request.OffsetFetchRequest(group_id=group, topics=[wanted], require_stable=is_stable)
    answer = await client.request(ApiKey.OFFSET_FETCH, 7, request)
    expect(answer.error_code)
    found = {}
    for data in answer.topics[0].partitions if partitions else ():
        expect(data.error_code)
        offset = max(0, int(data.committed_offset))
        history.fetched_offset(data.partition_index, offset, known[data.partition_index], is_stable=is_stable)
        found[data.partition_index] = offset
    return found


async def read_all(
    client: Client, history: TransactionHistory, place: Place, *, is_committed: bool
) -> list[tuple[int, bytes]]:
    """A partition from its start to its end, however often that has to be tried. No transaction is open in it any more."""

    async def attempt() -> list[tuple[int, bytes]]:
        records: list[tuple[int, bytes]] = []
        end = await end_offset(client, place, is_stable=is_committed)
        position = await start_offset(client, place)
        while position < end:
            read = await fetch(client, history, place, position, 1000, is_committed=is_committed)
            if read.end == position:
                raise Violation(f"nothing at {position} of {place}, which ends at {end}")
            records += read.records
            position = read.end
        return records

    return await client.until_done(attempt)


class Reader(Client):
    """Reads partitions from their starts on, again and again, at one isolation level."""

    def __init__(
        self,
        name: str,
        address: Any,
        rng: Any,
        history: TransactionHistory,
        places: Sequence[Place],
        is_committed: bool,
    ) -> None:
        super().__init__(name, address, rng)
        self._history = history
        self._positions = dict.fromkeys(places, 0)
        self._is_committed = is_committed

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self.rng.expovariate(1 / 0.15))
            place = self.rng.choice(tuple(self._positions))
            if self.rng.random() < 0.02:
                self._positions[place] = 0
            await self.until_done(lambda place=place: self._read(place))  # type: ignore[misc]

    async def _read(self, place: Place) -> None:
        position = self._positions[place]
        read = await fetch(self, self._history, place, position, 100, is_committed=self._is_committed)
        self._positions[place] = read.end


class Asker(Client):
    """Asks anybody, replaced servers too, for what may never go back."""

    def __init__(
        self,
        name: str,
        address: Any,
        rng: Any,
        history: TransactionHistory,
        places: Sequence[Place],
        group: str,
        source: str,
    ) -> None:
        super().__init__(name, address, rng)
        self.answer_count = 0
        self._history = history
        self._places = places
        self._group = group
        self._source = source

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self.rng.expovariate(4))
            ask = self.rng.choice((self._ask_stable_end, self._ask_stable_end, self._ask_offsets, self._ask_records))
            try:
                await ask()
                self.answer_count += 1
            except Unhappy:
                continue
            except Disconnected:
                self.disconnect()

    async def _ask_stable_end(self) -> None:
        place = self.rng.choice(self._places)
        known = self._history.stable_end(place)
        self._history.ask_stable_end(place, await end_offset(self, place, is_stable=True), known)

    async def _ask_offsets(self) -> None:
        partition = self.rng.choice([number for topic, number in self._places if topic == self._source])
        is_stable = self.rng.random() < 0.5
        await group_offsets(self, self._history, self._group, self._source, [partition], is_stable=is_stable)

    async def _ask_records(self) -> None:
        place = self.rng.choice(self._places)
        offset = self.rng.randint(0, self._history.stable_end(place))
        await fetch(self, self._history, place, offset, 50)
