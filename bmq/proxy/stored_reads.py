"""Reads by a fetch's task: records from the store, and the aborted transactions among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.proxy.catch_up import CatchUp, CatchUpResult
from bmq.proxy.fetch_results import in_order, known_aborted
from bmq.proxy.fetch_settings import FetchSettings
from bmq.proxy.pending_read import PendingRead

_NONE_READ: Final = ()


class StoredReads:
    """Reads for fetches. `elapsed_s`: Clock.elapsed_s, for the age of what is known of a file (rule 35)."""

    def __init__(self, catch_up: CatchUp, config: FetchSettings, elapsed_s: Callable[[], float]) -> None:
        self._catch_up = catch_up
        self._config = config
        self.elapsed_s = elapsed_s

    async def read(
        self, pending: PendingRead, *, is_read_committed: bool
    ) -> tuple[CatchUpResult, Sequence[tuple[int, int]] | None] | None:
        """Batches, and the aborted transactions among them as (producer id, first offset), None when the client reads
        what is not committed too.

        None in all: the file may have been replaced while it was read, so look at the log again. Raises KafkaError for
        offsets that are out of range or were deleted meanwhile, BmqError when the store fails.
        """
        log = pending.log
        offset = pending.interest.fetch_offset
        began_s = self.elapsed_s()
        limit = pending.length_bytes_max
        assert limit is not None
        caught_up = pending.found or await self._catch_up.read(log, offset, limit, pending.bound_offset)
        if not is_read_committed:
            return caught_up, None
        if not caught_up.views:
            return caught_up, _NONE_READ
        end_offset = caught_up.next_offset
        aborted = known_aborted(log, offset, end_offset)
        if aborted is None:
            aborted = in_order(await log.find_aborted_transactions(offset, end_offset))
        if self.elapsed_s() - began_s > self._config.read_cursor_age_ms / 1000:
            return None  # the file may be replaced since, and the log may have forgotten aborted transactions in it
        if offset < log.log_start_offset:
            # The records were deleted since the look, and with them the log forgot their aborted transactions.
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} was deleted while it was read")
        return caught_up, aborted
