"""A partition as clients see it: who gets NOT_LEADER_OR_FOLLOWER asks again.

A proxy answers so while the partition is started or moved (its owner died, the balancer moves it). Nothing was done then, so
the same request is right again. Every other error is the answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from testing.patience import Patience
from testing.wire import LATEST_TIMESTAMP, NONE, NOT_LEADER_OR_FOLLOWER, WireClient, end_offset_of

ASK_AGAIN_INTERVAL_S = 0.1
LED_WAIT_S = 20.0

T = TypeVar("T")


class LedPartition:
    """One partition, asked over one connection."""

    def __init__(self, client: WireClient, topic: str, partition: int) -> None:
        self._client = client
        self._topic = topic
        self._partition = partition

    def produce(self, records: bytes) -> int:
        """The offset that a batch got. Raises AssertionError: another error code, or nobody leads the partition for long."""
        return self._until_led(partial(self._produce, records))

    def offset(self, timestamp_ms: int = LATEST_TIMESTAMP) -> int:
        """The offset at a time, by default the log's end. Raises AssertionError as `produce` does."""
        return self._until_led(
            lambda: self._client.list_offsets(self._topic, [self._partition], timestamp_ms)[self._partition]
        )

    def records(self, end_offset: int) -> bytes:
        """All batches up to `end_offset`, fetched as a consumer does: each time from where the last answer ended."""
        found, offset = b"", 0
        patience = Patience(LED_WAIT_S)
        while offset < end_offset:
            assert not patience.is_over(), f"{self} ends at {offset} for this node, not at {end_offset}"
            records = self._until_led(partial(self._fetch, offset))
            found += records
            offset = max(offset, end_offset_of(records))
        patience.note()
        return found

    def __str__(self) -> str:
        return f"{self._topic}-{self._partition}"

    def _produce(self, records: bytes) -> tuple[int, int]:
        answer = self._client.produce(self._topic, records, self._partition)
        return answer.error_code, answer.base_offset

    def _fetch(self, offset: int) -> tuple[int, bytes]:
        answer = self._client.fetch(self._topic, offset, self._partition, max_wait_ms=500)
        return answer.error_code, answer.records

    def _until_led(self, ask: Callable[[], tuple[int, T]]) -> T:
        patience = Patience(LED_WAIT_S)
        while True:
            error_code, value = ask()
            if error_code != NOT_LEADER_OR_FOLLOWER:
                assert error_code == NONE, f"{self}: error {error_code}"
                patience.note()
                return value
            assert not patience.is_over(), f"nobody leads {self} within {patience.limit_s:.0f} s"
            time.sleep(ASK_AGAIN_INTERVAL_S)
