"""Callbacks that wait for a partition to move on. Pure."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from bmq.log.partition_log import ENDS_THE_PROCESS

_log = structlog.get_logger("bmq.broker")


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
