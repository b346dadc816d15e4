"""The machine's clocks as an argument. Waits are measured with the event loop's own `time()`.

The loop's clock stands still while the machine sleeps, and uvloop's also for as long as one turn of the loop takes. So it is
not compared where an age decides about safety; `elapsed_s` is.
"""

from typing import Protocol


class Clock(Protocol):
    """Reads the clocks; a test and the simulation hand in their own."""

    def now_ms(self) -> int:
        """The wall clock: milliseconds since 1970-01-01 UTC."""

    def elapsed_s(self) -> float:
        """Seconds since some moment; never set, and goes on while the machine sleeps or the event loop is held up.

        For ages that decide about safety (docs/FENCING.md, rules 22, 28, 34 and 35).
        """
