"""Waiting for the store at the start: retry, log what is missing, and give up after a while."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog

from bmq.aio.retries import until_done
from bmq.log.store import CorruptFile, StorageUnavailable
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError

T = TypeVar("T")

TRY_AGAIN_S: Final = 3.0
LOG_AGAIN_S: Final = 60.0

_MAY_PASS: Final = frozenset(
    {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS}
)

_log = structlog.get_logger("bmq.cli")


class StoreNotReady(StorageUnavailable):
    """The store did not answer within the time a start may wait for it."""


class StartRetry:
    """The retries of one start. `wait_ms`: for all of them together, counted from now.

    The reason for waiting is logged at once, when it changes, and once a minute.
    """

    def __init__(self, wait_ms: int) -> None:
        self._wait_s = wait_ms / 1000
        self._deadline_s = asyncio.get_running_loop().time() + self._wait_s
        self._logged = ""
        self._logged_s = 0.0

    async def until_done(self, attempt: Callable[[], Awaitable[T]], *, may_pass: Callable[[BmqError], bool]) -> T:
        """The result of `attempt`, retried every few seconds while it fails with an error that may pass.

        Raises StoreNotReady when the time is up, and every other error at once.
        """
        loop = asyncio.get_running_loop()

        def pause_s(error: BmqError, took_s: float) -> float | None:
            if not may_pass(error):
                return None
            left_s = self._deadline_s - loop.time()
            if left_s <= 0:
                raise StoreNotReady(f"the store was not ready within {self._wait_s:g} s: {error}") from error
            self._log_reason(str(error), loop.time(), left_s)
            return min(left_s, max(0.0, TRY_AGAIN_S - took_s))

        return await until_done(attempt, BmqError, pause_s)

    def _log_reason(self, reason: str, now_s: float, left_s: float) -> None:
        if reason != self._logged or now_s - self._logged_s >= LOG_AGAIN_S:
            self._logged, self._logged_s = reason, now_s
            _log.warning("waiting_for_the_store", reason=reason, seconds_left=round(left_s))


def is_store_silent(error: BmqError) -> bool:
    """Whether the error means that the store does not answer now."""
    return isinstance(error, StorageUnavailable)


def is_log_silent(error: BmqError) -> bool:
    """The same for a log's errors. Damage does not count, because waiting does not repair it."""
    from bmq.broker.partition_offline import PartitionOffline  # not loaded by a process that only opens a store

    if isinstance(error, CorruptFile | PartitionOffline):
        return False
    return isinstance(error, StorageUnavailable) or error.code in _MAY_PASS
