"""Reads records of a topic for people, by Fetch requests: bounded in bytes, records and time, from any place on.

Reading changes nothing: no group is joined and no offset is committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from bmq.admin.fetched_records import RecordFilter, Room, Taken, size_of, take
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record
from bmq.protocol.compression import BadCompressedData, UnknownCompression
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from bmq.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from bmq.protocol.record_batch import CorruptRecords
from bmq.proxy.batch_opener import RunAside

FETCH_BYTES_MAX: Final = 1024 * 1024
PARTITION_BYTES_MAX: Final = 256 * 1024
"""Of one Fetch; the first batch may be longer."""
READ_BYTES_MAX: Final = 16 * 1024 * 1024
"""Read for one call, whatever the filter leaves of it."""
SHOWN_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of the records in one answer; the last record may exceed it."""
SCANNED_MAX: Final = 100_000
READ_S_MAX: Final = 3.0
"""One call begins no more reads after this time."""
STALLS_MAX: Final = 3
"""Rounds in a row that may bring nothing before the call ends."""
RETRY_PAUSE_S: Final = 0.1
"""Before a partition that is being started or moved is asked again."""
_PASSING: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE)
_REPLICA_OF_CLIENTS: Final = -1
_EARLIEST: Final = -2
_NO_SESSION: Final = -1
_UNREADABLE: Final = (CorruptRecords, BadCompressedData, UnknownCompression)

Ask = Callable[[ApiKey, Any], Awaitable[Any]]


class FoundRecord(NamedTuple):
    partition: int
    record: Record


class Browse(NamedTuple):
    """A topic to read, from an offset on in each partition. `wait_s`: how long to wait for new records at the end."""

    topic: str
    positions: Mapping[int, int]
    wanted: RecordFilter
    records_max: int
    isolation_level: int
    wait_s: float


class Found(NamedTuple):
    """`records`: of a partition in the order of their offsets. `positions`: where to go on. `scanned`: records looked at.

    `is_end`: all partitions were read to their ends. `problems`: why a partition cannot be read, by partition.
    """

    records: list[FoundRecord]
    positions: dict[int, int]
    scanned: int
    is_end: bool
    problems: dict[int, str]


class RecordBrowser:
    """`run_aside`: opens batches away from the event loop, one set at a time."""

    def __init__(self, run_aside: RunAside = asyncio.to_thread) -> None:
        self._run_aside = run_aside
        self._turn = asyncio.Lock()

    async def browse(self, ask: Ask, browse: Browse) -> Found:
        """Read once. `ask`: sends a Fetch as the user. Raises what `ask` raises."""
        return await _Reading(ask, browse, self._opened).run()

    async def _opened(self, data: bytes, of: Callable[[bytes], Taken]) -> Taken:
        async with self._turn:
            taken: Taken = await self._run_aside(partial(of, data))
            return taken


class _Reading:
    """One call."""

    def __init__(
        self, ask: Ask, browse: Browse, opened: Callable[[bytes, Callable[[bytes], Taken]], Awaitable[Taken]]
    ) -> None:
        self._ask = ask
        self._browse = browse
        self._opened = opened
        self._loop = asyncio.get_running_loop()
        self._began_s = self._loop.time()
        self._found: list[FoundRecord] = []
        self._positions = dict(browse.positions)
        self._problems: dict[int, str] = {}
        self._ended: set[int] = set()
        self._scanned = self._read_bytes = self._shown_bytes = 0
        self._is_moving = False  # a partition was being started or moved in the last round

    async def run(self) -> Found:
        stalls = 0
        while self._has_room() and stalls < STALLS_MAX:
            wait_ms, before = 0, (dict(self._positions), len(self._problems), len(self._ended))
            if self._is_at_end():
                wait_ms = max(0, round((self._browse.wait_s - self._age_s()) * 1000))
                if self._found or not wait_ms or not self._readable():
                    break
            await self._round(wait_ms)
            is_same = before == (self._positions, len(self._problems), len(self._ended))
            if self._is_moving:
                await asyncio.sleep(RETRY_PAUSE_S)
                continue
            if is_same and wait_ms:
                break  # the Fetch has waited for as long as it may, or the server stops and lets none wait
            stalls = stalls + 1 if is_same else 0
        is_end = self._is_at_end()
        return Found(self._found, self._positions, self._scanned, is_end, self._problems)

    def _has_room(self) -> bool:
        return (
            len(self._found) < self._browse.records_max
            and self._scanned < SCANNED_MAX
            and self._read_bytes < READ_BYTES_MAX
            and self._shown_bytes < SHOWN_BYTES_MAX
            and self._age_s() < max(READ_S_MAX, self._browse.wait_s)
        )

    def _age_s(self) -> float:
        return self._loop.time() - self._began_s

    def _readable(self) -> list[int]:
        return [number for number in self._positions if number not in self._problems]

    def _is_at_end(self) -> bool:
        return all(number in self._ended for number in self._readable())

    async def _round(self, wait_ms: int) -> None:
        """One Fetch of all partitions that may have more."""
        asked = self._readable() if wait_ms else [one for one in self._readable() if one not in self._ended]
        request = FetchRequest(
            replica_id=_REPLICA_OF_CLIENTS,
            max_wait_ms=wait_ms,
            min_bytes=1 if wait_ms else 0,
            max_bytes=FETCH_BYTES_MAX,
            isolation_level=self._browse.isolation_level,
            session_id=0,
            session_epoch=_NO_SESSION,
            topics=[
                FetchTopic(
                    topic=self._browse.topic,
                    partitions=[
                        FetchPartition(
                            partition=number,
                            fetch_offset=self._positions[number],
                            partition_max_bytes=PARTITION_BYTES_MAX,
                        )
                        for number in asked
                    ],
                )
            ],
        )
        response = await self._ask(ApiKey.FETCH, request)
        if response.error_code:
            for number in asked:
                self._problems[number] = ErrorCode(response.error_code).name
            return
        self._is_moving = False
        answers = [one for topic in response.responses for one in topic.partitions]
        share = max(1, (self._browse.records_max - len(self._found)) // max(1, len(answers)))
        for answer in answers:
            await self._take(answer, share)

    async def _go_to_start(self, number: int) -> None:
        """Retention was faster than this reader; or the offset is behind the end, which is a problem."""
        request = ListOffsetsRequest(
            replica_id=_REPLICA_OF_CLIENTS,
            topics=[
                ListOffsetsTopic(
                    name=self._browse.topic,
                    partitions=[ListOffsetsPartition(partition_index=number, timestamp=_EARLIEST)],
                )
            ],
        )
        response = await self._ask(ApiKey.LIST_OFFSETS, request)
        (answer,) = (one for topic in response.topics for one in topic.partitions)
        if answer.error_code or answer.offset <= self._positions[number]:
            self._problems[number] = f"offset {self._positions[number]} is not in the partition"
        else:
            self._positions[number] = answer.offset

    async def _take(self, answer: Any, share: int) -> None:
        number = answer.partition_index
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._go_to_start(number)
            return
        if answer.error_code in _PASSING and self._age_s() < READ_S_MAX:
            self._is_moving = True
            return
        if answer.error_code:
            self._problems[number] = ErrorCode(answer.error_code).name
            return
        is_committed = self._browse.isolation_level == 1
        end_offset = answer.last_stable_offset if is_committed else answer.high_watermark
        data = bytes(answer.records or b"")
        self._read_bytes += len(data)
        if data:
            aborted = sorted(
                ((one.producer_id, one.first_offset) for one in answer.aborted_transactions or ()),
                key=lambda one: one[1],
            )
            room = Room(
                min(share, self._browse.records_max - len(self._found)), max(0, SHOWN_BYTES_MAX - self._shown_bytes)
            )
            if room.records <= 0:
                return
            try:
                taken = await self._opened(
                    data,
                    partial(
                        take,
                        aborted=aborted,
                        from_offset=self._positions[number],
                        wanted=self._browse.wanted,
                        room=room,
                        scanned_max=SCANNED_MAX - self._scanned,
                    ),
                )
            except _UNREADABLE as error:
                self._problems[number] = f"a batch at offset {self._positions[number]} or later cannot be read: {error}"
                return
            self._scanned += taken.scanned
            self._found += (FoundRecord(number, record) for record in taken.records)
            self._shown_bytes += sum(map(size_of, taken.records))
            self._positions[number] = taken.next_offset
        if self._positions[number] >= end_offset:
            self._ended.add(number)
        else:
            self._ended.discard(number)
