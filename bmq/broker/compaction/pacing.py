"""Slows the writing of compacted segments down, so that producers keep their latency.

After each append a compaction waits several times as long as the event loop kept it waiting, and as long as
`broker.compaction_bytes_per_s_max` asks for.
"""

from __future__ import annotations

import asyncio
from typing import Final

from bmq.broker.context import BrokerContext

LAG_FACTOR: Final = 4
PAUSE_MAX_S: Final = 0.5
_PROBE_S: Final = 0.001


class CompactionPacing:
    """`pace` is awaited after each append."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    async def pace(self, size_bytes: int) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        await asyncio.sleep(_PROBE_S)
        lag_s = loop.time() - began_s - _PROBE_S
        rate_s = size_bytes / self._context.compaction.bytes_per_s_max
        pause_s = max(min(PAUSE_MAX_S, lag_s * LAG_FACTOR), rate_s)
        if pause_s > _PROBE_S:
            await asyncio.sleep(pause_s)
