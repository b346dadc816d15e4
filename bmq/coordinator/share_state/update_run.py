"""A change of a share partition on its way through its shard's log, as a run of one record (state_log.RecordRun)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from bmq.protocol.batch_records import Record, encode_records
from bmq.protocol.errors import KafkaError


class UpdateRun:
    """A RecordRun. `change`: has the same effect as replaying the record. `done`: gets a result once it was applied.

    `ended`: called with the outcome, before those who wait for `done` go on.
    """

    __slots__ = ("_change", "_ended", "_record", "done", "size_bytes")

    record_count: Final = 1

    def __init__(
        self,
        key: bytes,
        value: bytes,
        change: Callable[[], None],
        ended: Callable[[KafkaError | None], None],
        done: asyncio.Future[None],
    ) -> None:
        self._record = Record(key, value)
        self._change = change
        self._ended = ended
        self.done = done
        self.size_bytes = len(key) + len(value)

    def encoded(self, first_delta: int) -> bytearray:
        return encode_records((self._record,), first_delta)

    def apply(self) -> None:
        self._change()

    def finished(self, error: KafkaError | None) -> None:
        done = self.done
        if not done.done():
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)
                done.exception()  # nobody may be waiting
        self._ended(error)
