"""A limit of records and bytes per second, as token buckets of one second. Decisions only; time is handed in."""

from __future__ import annotations

from typing import Final

_WAIT_S_MAX: Final = 60.0


class RateLimit:
    """A request may take more than is left, if something is left: the next ones wait for what it took too much."""

    __slots__ = ("_at_s", "_rates", "_tokens")

    def __init__(self, records_per_s: int | None, bytes_per_s: int | None) -> None:
        self._rates = (records_per_s, bytes_per_s)
        self._tokens = [float(records_per_s or 0), float(bytes_per_s or 0)]
        self._at_s: float | None = None

    def wait_s(self, records: int, length: int, now_s: float) -> float:
        """0: they are taken. Else nothing is taken, and the caller may try again after this time.

        `now_s`: of a clock that never goes back; one that does is taken as standing.
        """
        passed_s = max(0.0, now_s - self._at_s) if self._at_s is not None else 0.0
        self._at_s = now_s
        wait_s = 0.0
        for place, rate in enumerate(self._rates):
            if rate is None:
                continue
            self._tokens[place] = min(float(rate), self._tokens[place] + passed_s * rate)
            if self._tokens[place] < min(1.0, rate):
                wait_s = max(wait_s, (1.0 - self._tokens[place]) / rate)
        if wait_s > 0:
            return min(wait_s, _WAIT_S_MAX)
        for place, amount in enumerate((records, length)):
            if self._rates[place] is not None:
                self._tokens[place] -= amount
        return 0.0
