"""How fast something happened lately, as Kafka measures it for quotas: sums of the last windows over the time they cover.

Figures equal those of org.apache.kafka.common.metrics.stats.Rate and SampledStat (kafka-clients 4.3) with the windows of
ClientQuotaManagerConfig: 11 samples of 1 s. The elapsed time is at least 10 s, so the first 10 s' worth passes at once.
"""

from __future__ import annotations

from typing import Final

SAMPLES: Final = 11
"""`quota.window.num`."""
WINDOW_MS: Final = 1_000
"""`quota.window.size.seconds`."""
_EXPIRES_MS: Final = SAMPLES * WINDOW_MS
_KEPT_MAX: Final = SAMPLES + 1
"""One more than are counted: the oldest one overlaps the measured time."""


class Rate:
    """Amounts per second. Times are milliseconds of one clock that does not go back."""

    __slots__ = ("_current", "_last_ms", "_starts_ms", "_values")

    def __init__(self) -> None:
        # A ring of samples; `oldest` searches it, as its places do not stand in the order of time.
        self._starts_ms: list[int] = []
        self._last_ms: list[int] = []
        self._values: list[float] = []
        self._current = 0

    def record(self, amount: float, now_ms: int) -> None:
        """Count an amount; a negative one takes back what was counted before."""
        if not self._starts_ms:
            self._add(now_ms)
        elif now_ms - self._starts_ms[self._current] >= WINDOW_MS:
            self._current = (self._current + 1) % _KEPT_MAX
            if self._current >= len(self._starts_ms):
                self._add(now_ms)
            else:
                self._reset(self._current, now_ms)
        self._values[self._current] += amount
        self._last_ms[self._current] = now_ms

    def measure(self, now_ms: int) -> tuple[float, int]:
        """(amount per second, milliseconds that it was measured over)."""
        if not self._starts_ms:
            return 0.0, (SAMPLES - 1) * WINDOW_MS
        for place, last_ms in enumerate(self._last_ms):
            if now_ms - last_ms >= _EXPIRES_MS:
                self._reset(place, now_ms)
        covered_ms = now_ms - min(self._starts_ms)
        whole = covered_ms // WINDOW_MS
        if whole < SAMPLES - 1:
            covered_ms += (SAMPLES - 1 - whole) * WINDOW_MS
        covered_ms = max(covered_ms, 1)
        return sum(self._values) * 1_000 / covered_ms, covered_ms

    def _add(self, now_ms: int) -> None:
        self._starts_ms.append(now_ms)
        self._last_ms.append(now_ms)
        self._values.append(0.0)

    def _reset(self, place: int, now_ms: int) -> None:
        self._starts_ms[place] = self._last_ms[place] = now_ms
        self._values[place] = 0.0


def rate_throttle_ms(rate: float, limit: float, measured_ms: int) -> int:
    """How long to wait until `rate`, measured over `measured_ms`, has come down to `limit`; 0: it is not above it."""
    if rate <= limit:
        return 0
    return rounded((rate - limit) / limit * measured_ms) if limit > 0 else measured_ms


def rounded(number: float) -> int:
    """As Java's Math.round: half goes up."""
    return int(number + 0.5)
