"""Waits until the node's own metadata image shows something: that a topic exists, that a partition has an owner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from bmq.metadata.image import MetadataImage

_RETRY_S: Final = 0.05
"""Interval of looking again without a notice that the image changed."""


class ImageWaits:
    """Made inside the event loop; call `changed` after each new image."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[asyncio.Future[None], None] = {}  # in a fixed order, so that runs are reproducible
        self.is_over = False
        """Nobody shall wait any more."""

    def changed(self) -> None:
        """Wake all waiting callers."""
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    def end(self) -> None:
        """Wake all waiting callers, and let none wait from now on."""
        self.is_over = True
        self.changed()

    async def pause(self, timeout_s: float) -> None:
        """Wait until the next change, at most `timeout_s`; not at all once `is_over`."""
        if self.is_over:
            return
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting[future] = None
        try:
            await asyncio.wait({future}, timeout=timeout_s)
        finally:
            self._waiting.pop(future, None)

    async def until(self, is_there: Callable[[MetadataImage], bool], timeout_s: float) -> bool:
        """Wait until `is_there` holds for the image; whether it does."""
        deadline_s = self._loop.time() + timeout_s
        while not is_there(self._image()):
            left_s = deadline_s - self._loop.time()
            if left_s <= 0 or self.is_over:
                return False
            await self.pause(min(left_s, _RETRY_S))
        return True
