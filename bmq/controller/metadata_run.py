"""The records of one decision on their way through the metadata log, as a run (state_log.RecordRun).

They are encoded in turns of the event loop, and decoded again, so that what is applied is what a replay would apply. To do either
for 10,000 topics in one turn takes longer than all the rest of a creation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from bmq.protocol.batch_records import Record, encode_records
from bmq.protocol.errors import KafkaError
from bmq.protocol.metadata_records import MetadataRecord, decode_record, encode_record
from bmq.protocol.turns import ELEMENTS_PER_TURN_MAX, Turns


class MetadataRun:
    """Made by `encode`. `done`: when the records are durable and applied; fails with the append's KafkaError."""

    def __init__(self, records: Sequence[MetadataRecord], replay: Callable[[MetadataRecord], None]) -> None:
        self._records = records
        self._replay = replay
        self._decoded: list[MetadataRecord] = []
        self._body = bytearray()
        self.size_bytes = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def record_count(self) -> int:
        return len(self._records)

    async def encode(self, turns: Turns) -> None:
        """Before the run is appended."""
        for start in range(0, len(self._records), ELEMENTS_PER_TURN_MAX):
            if start:
                await turns.next()
            values = [encode_record(record) for record in self._records[start : start + ELEMENTS_PER_TURN_MAX]]
            self._decoded += map(decode_record, values)
            self.size_bytes += sum(map(len, values))
            self._body += encode_records([Record(b"", value) for value in values], start)

    def encoded(self, first_delta: int) -> bytearray:
        """As RecordRun.encoded."""
        if not first_delta:
            return self._body
        return encode_records([Record(b"", encode_record(record)) for record in self._records], first_delta)

    def apply(self) -> None:
        """As RecordRun.apply."""
        for record in self._decoded:
            self._replay(record)

    def finished(self, error: KafkaError | None) -> None:
        """As RecordRun.finished."""
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)
