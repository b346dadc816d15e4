"""Searches one partition for small segments to merge, and remembers what it had to read for that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from bmq.log.config import LogConfig
from bmq.log.manifest import Extent
from bmq.log.merging import find_segments_to_merge
from bmq.log.retention import ExtentKey, key_of

REST_MS_MAX: Final = 60_000
"""How long a log without a group is not searched again if its closed segments are the same."""


class MergeSearch:
    """The search of one partition."""

    def __init__(self) -> None:
        self._first_ms: dict[ExtentKey, int] = {}
        self._nothing: tuple[tuple[object, ...], int] | None = None  # (the log, when it had no group)

    async def find(
        self,
        extents: Sequence[Extent],
        config: LogConfig,
        now_ms: int,
        last_stable_offset: int,
        first_timestamp_ms: Callable[[Extent], Awaitable[int]],
    ) -> tuple[Extent, ...] | None:
        """As bmq.log.merging.find_segments_to_merge, with the first timestamps that it needs. Raises as `first_timestamp_ms` does."""
        if len(extents) < config.segment_merge_min_count:
            return None
        seen = (len(extents), key_of(extents[0]), key_of(extents[-1]), config)
        if self._nothing is not None and self._nothing[0] == seen:
            rest_ms = min(REST_MS_MAX, config.segment_merge_lag_ms)
            if 0 <= now_ms - self._nothing[1] < rest_ms:
                return None
        while True:
            found = find_segments_to_merge(
                extents, config, now_ms=now_ms, last_stable_offset=last_stable_offset, first_ms=self._first_ms
            )
            if not isinstance(found, Extent):
                break
            self._first_ms[key_of(found)] = await first_timestamp_ms(found)
        if found is None:
            present = {key_of(extent) for extent in extents}
            self._first_ms = {key: told for key, told in self._first_ms.items() if key in present}
            self._nothing = seen, now_ms
        return found
