"""Wall-clock time as an argument. Durations are measured with the event loop's own `time()`."""

from typing import Protocol


class Clock(Protocol):
    """Reads the wall clock; a test and the simulation hand in their own."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
