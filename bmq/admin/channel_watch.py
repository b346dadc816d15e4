"""Wakes the agents that wait at this process for a change of Databus channels in its metadata image."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from bmq.admin.channel_agents import SeenAgents
from bmq.metadata.image import MetadataImage


class ChannelWatch:
    """Tell it each new image. Only waits cost anything. One event loop. `agents`: those that asked this process."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], None] = {}  # in a fixed order, so that runs are reproducible
        self.is_closed = False
        self.agents = SeenAgents()

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Wake all who wait, if the channels differ."""
        if new.channels is not old.channels or new.channels_version != old.channels_version:
            self._wake()

    def close(self) -> None:
        """The process stops: wake all who wait. Further waits end at once."""
        self.is_closed = True
        self._wake()

    @contextmanager
    def next_change(self) -> Iterator[asyncio.Future[None]]:
        """A future that the next change ends, or `close`. Look at the image inside: a change before is not told."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.is_closed:
            future.set_result(None)
        self._waiting[future] = None
        try:
            yield future
        finally:
            del self._waiting[future]

    def _wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
