"""Limits the producers that a partition remembers: beyond that it forgets the longest silent ones, or new ones have to wait.

Each costs its owner about half a kilobyte of memory, and up to PRODUCER_BYTES_MAX in every index; any batch with a new
producer id makes one. Kafka has no such bound (KIP-936 is not built there).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from bmq.broker.metrics import PartitionCounts
from bmq.log.partition_log import AppendResult
from bmq.log.producer_state import IDLE_MS_MIN, ProducerStates
from bmq.protocol.error_codes import ErrorCode

REPORTS_MS_MIN: Final = 60_000
"""Between two log lines of one partition."""

_log = structlog.get_logger("bmq.broker")


class ProducerLimit:
    """One partition's. `count_max`: producers; `names`: what a log line says of the partition."""

    __slots__ = ("_count_max", "_counts", "_forgotten", "_names", "_refused", "_reported_ms")

    def __init__(self, count_max: int, counts: PartitionCounts, names: Callable[[], Mapping[str, Any]]) -> None:
        self._count_max = count_max
        self._counts = counts
        self._names = names
        self._forgotten = 0  # since the last log line
        self._refused = 0
        self._reported_ms = -REPORTS_MS_MIN

    def refusal_of(self, producers: ProducerStates, producer_id: int, now_ms: int) -> AppendResult | None:
        """None if the producer is known or there is room for it, after forgetting long silent ones where needed.

        All clients read the refusal's code as "not written, send it again".
        """
        if len(producers) < self._count_max or producers.entry(producer_id) is not None:
            return None
        forgotten = producers.forget_idle(self._count_max, now_ms)
        self._forgotten += forgotten
        self._counts.producers_forgotten += forgotten
        has_room = len(producers) < self._count_max
        if not has_room:
            self._refused += 1
            self._counts.producers_refused_batches += 1
        self._report(now_ms)
        if has_room:
            return None
        return AppendResult(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            message=f"the partition remembers {self._count_max} producers (broker.producers_max), "
            f"and each wrote in the last {IDLE_MS_MIN // 60_000} minutes or has a transaction open",
        )

    def _report(self, now_ms: int) -> None:
        if abs(now_ms - self._reported_ms) < REPORTS_MS_MIN:
            return
        self._reported_ms = now_ms
        _log.warning(
            "too_many_producers",
            **self._names(),
            producers_max=self._count_max,
            forgotten=self._forgotten,
            refused_batches=self._refused,
        )
        self._forgotten = self._refused = 0
