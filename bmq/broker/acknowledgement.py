"""A batch on its way into the log, and the callbacks that get its result. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from bmq.broker.partition_events import Batch
from bmq.log.partition_log import AppendDone, AppendResult
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.record_batch import BatchHeader

ENDS_THE_PROCESS: Final = (SystemExit, KeyboardInterrupt)
"""As in the event loop: any other exception is the failure of one callback."""

FOLLOWERS_MAX: Final = 4
"""Each keeps its whole request in memory until the store answers."""
_SENT_AGAIN: Final = "the batch is still on its way, and was sent again by now"

_log = structlog.get_logger("bmq.broker")


class PendingBatch(Batch):
    """A checked batch, its bytes, and the callbacks of its produce.

    In an append with several batches only the last one has `done`, and `first`, the first of them, never itself.
    `followers` are produces of the same batch sent again while it was on its way (rule 11). `position` is its place in
    the segment file it was written to last.
    """

    __slots__ = ("append_time_ms", "done", "first", "followers", "header", "position", "view")

    def __init__(
        self, view: memoryview, header: BatchHeader, done: AppendDone | None, append_time_ms: int, is_acks_all: bool
    ) -> None:
        self.offset_count = header.last_offset_delta + 1
        self.size_bytes = header.length + 12
        self.base_offset = -1
        self.is_acks_all = is_acks_all
        self.view = view
        self.header = header
        self.done = done
        self.append_time_ms = append_time_ms
        self.first: PendingBatch | None = None
        self.followers: list[AppendDone] | None = None
        self.position = -1

    def follow(self, done: AppendDone) -> None:
        """The same batch was sent again. Keep only the newest followers: the producer has retried since the others."""
        if self.followers is None:
            self.followers = []
        self.followers.append(done)
        if len(self.followers) > FOLLOWERS_MAX:
            call(self.followers.pop(0), AppendResult(ErrorCode.REQUEST_TIMED_OUT, message=_SENT_AGAIN))

    def tell(self, result: AppendResult) -> None:
        """Answer the produce, and those that sent the same batch again."""
        if self.done is not None:
            call(self.done, result)
        if self.followers is not None:
            for follower in self.followers:
                call(follower, result)


def call(done: AppendDone, result: AppendResult) -> None:
    """Call `done`. If it fails, that is its owner's bug; the batches behind it must still be answered."""
    try:
        done(result)
    except ENDS_THE_PROCESS:
        raise
    except BaseException:  # noqa: BLE001 a cancelled future's result() raises CancelledError, which is not an Exception
        _log.exception("append_callback_failed")


class Waiters:
    """Callbacks for the next advance of the high watermark or change of state. Each is called once."""

    __slots__ = ("_wakes",)

    def __init__(self) -> None:
        self._wakes: dict[object, Callable[[], None]] = {}

    def add(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Register `wake`; calling the returned function withdraws it."""
        key = object()
        self._wakes[key] = wake

        def forget() -> None:
            self._wakes.pop(key, None)

        return forget

    def wake_all(self) -> None:
        if not self._wakes:
            return
        wakes, self._wakes = self._wakes, {}
        for wake in wakes.values():
            try:
                wake()
            except ENDS_THE_PROCESS:
                raise
            except BaseException:  # noqa: BLE001 any bug is answered or logged
                _log.exception("advance_callback_failed")
