"""Starts partitions that fetches wait for: once for all fetches, which all get the outcome."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from bmq.log.partition_log import TopicPartition
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.proxy.partitions import Partitions

_log = structlog.get_logger("bmq.proxy")

Started = Callable[[TopicPartition, ErrorCode], None]


class PartitionStarts:
    """Starts partitions. `spawn`: runs a coroutine as a task that ends with the process."""

    def __init__(self, spawn: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._spawn = spawn
        self._starting: dict[TopicPartition, dict[Started, None]] = {}

    def start(self, partitions: Partitions, topic_partition: TopicPartition, started: Started) -> None:
        """Start a partition, and call `started` with NONE or the code of the failure."""
        waiting = self._starting.get(topic_partition)
        if waiting is None:
            waiting = self._starting[topic_partition] = {}
            self._spawn(self._start(partitions, topic_partition))
        waiting[started] = None

    async def _start(self, partitions: Partitions, topic_partition: TopicPartition) -> None:
        code = ErrorCode.NONE
        try:
            await partitions.leader_of(topic_partition)
        except BmqError as error:
            code = error.code
        except Exception:  # noqa: BLE001 any bug is answered or logged
            _log.exception(
                "partition_start_failed", topic_id=str(topic_partition.topic_id), partition=topic_partition.partition
            )
            code = ErrorCode.UNKNOWN_SERVER_ERROR
        finally:
            waiting = self._starting.pop(topic_partition)
        for started in waiting:
            started(topic_partition, code)
