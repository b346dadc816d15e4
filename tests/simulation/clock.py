"""Wall time that follows a simulated loop's."""

from __future__ import annotations

from tests.simulation.loop import VirtualTimeLoop


class SimulatedClock:
    """Implements bmq.log.clock.Clock."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return 1_700_000_000_000 + int(self._loop.time() * 1000)

    def elapsed_s(self) -> float:
        return self._loop.time()
