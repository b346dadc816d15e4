"""The machine's clocks as an argument. Waits are measured with the event loop's own `time()`.

The event loop's clock stops while the machine sleeps, and uvloop's also during one turn of the loop. So ages that decide about
safety are compared by `elapsed_s` instead.
"""

from typing import Protocol


class Clock(Protocol):
    """Reads the clocks. Tests and the simulation pass their own."""

    def now_ms(self) -> int:
        """The wall clock: milliseconds since 1970-01-01 UTC."""

    def elapsed_s(self) -> float:
        """Seconds since an arbitrary moment. It is never set, and advances while the machine sleeps or the event loop is blocked.

        For ages that decide about safety (docs/FENCING.md, rules 22, 28, 34 and 35).
        """
