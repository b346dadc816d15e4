"""Watches the time of day while other checks run."""

from __future__ import annotations

import asyncio
from typing import Final

from bmq.cli.doctor.machine import Machine

LOOK_EVERY_S: Final = 0.1


class ClockWatch:
    """`offsets_ms`: the time of day less the time that no change moves, at each look. `watch` runs until cancelled."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.offsets_ms: list[float] = []
        self.look()

    def look(self) -> None:
        # Between both readings this process may be suspended: the closest two of three count.
        best_gap_s, best_ms = float("inf"), 0.0
        for _ in range(3):
            before_s = self._machine.elapsed_s()
            now_ms = self._machine.now_ms()
            gap_s = self._machine.elapsed_s() - before_s
            if gap_s < best_gap_s:
                best_gap_s, best_ms = gap_s, now_ms - before_s * 1000
        self.offsets_ms.append(best_ms)

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self.look()
