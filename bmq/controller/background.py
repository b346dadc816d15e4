"""The controller's background loops: one that fails is logged and restarted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

RESTART_PAUSE_S: Final = 1.0

_log = structlog.get_logger("bmq.controller")


async def keep_running(name: str, run: Callable[[], Awaitable[None]]) -> None:
    """Await `run()` until it returns or this is cancelled. Each failure costs an error line and a pause.

    The loops derive their work from the metadata, so the next run finds what the failed one left undone.
    """
    while True:
        try:
            await run()
        except Exception:  # noqa: BLE001 any bug is answered or logged
            _log.exception("controller_task_failed", task=name)
        else:
            return
        await asyncio.sleep(RESTART_PAUSE_S)
