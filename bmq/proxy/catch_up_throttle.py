"""Limits the rate of catch-up reads in favour of produces. Decisions only; the caller passes the time.

Catch-up reads compete with produces for processor, network and DataNodes. The 99th percentile of produce latency may rise to
`ratio_max` times its value without catch-up reads. `adjust` compares: if more than one produce in a hundred was slower than
that in the last ten seconds, the limit becomes half of the present rate (or half of the limit, if that is lower). Without slow
produces the limit grows, faster if it was high before.
There is no limit without produces, or before they become slow. The limit never falls below `bytes_per_s_min`: produces that are
slow even then are slow for another reason, and become the new baseline.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from math import inf
from typing import Final

ADJUST_INTERVAL_S: Final = 0.25
SLOW_SHARE: Final = 0.01  # share of produces beyond a 99th percentile
CREDIT_STEPS: Final = 40  # steps over which the share is judged: good ones excuse a burst
SLOW_CREDIT_LEAST: Final = 2.0  # slow produces that are excused after a good period
SETTLING_STEPS: Final = 2  # steps before the effect of a lower limit shows
PRODUCES_LEAST: Final = 4  # produces in PRODUCE_STEPS steps; fewer are not protected
PRODUCE_STEPS: Final = 4
CALM_BLOCK: Final = 250  # produces whose 99th percentile is one sample of the baseline
CALM_BLOCKS_MAX: Final = 12
CALM_RANK_SHARE: Final = 0.5  # quantile of the samples: bursts of other work do not count
GROWTH_SHARE: Final = 0.04  # growth per step, as a share of the rate that was too high
SHRINKAGE: Final = 0.5
TOO_HIGH_KEPT: Final = 0.8  # after a burst of other work the limit grows back fast
QUIET_STEPS_MAX: Final = 40  # steps without catch-up reads, after which the limit is forgotten
TURNS_AHEAD_MAX_S: Final = 2.0  # other requests on the connection wait as well

UNLIMITED_BYTES: Final = 1 << 62
# Each bound is a quarter above the one before, so a percentile has an error of at most a quarter.
BOUNDS_S: Final = tuple(0.000_25 * 1.25**number for number in range(56))


class CatchUpThrottle:
    """The throttle of a process. `limit_bytes_per_s`: limit of all its catch-up reads together; inf without a limit."""

    __slots__ = (
        "_calm",
        "_calm_p99s",
        "_credit",
        "_limit",
        "_min",
        "_next_turn_s",
        "_produces",
        "_quiet_steps",
        "_ratio_max",
        "_settling",
        "_slice_bytes",
        "_taken_bytes",
        "_too_high",
        "calm_p99_s",
        "is_watching",
        "limit_bytes_per_s",
    )

    def __init__(self, *, ratio_max: float, bytes_per_s_min: int, slice_bytes: int) -> None:
        self._ratio_max = ratio_max
        self._min = float(max(1, bytes_per_s_min))
        self._slice_bytes = slice_bytes
        self._limit = inf
        self._too_high = 0.0
        self._credit = SLOW_CREDIT_LEAST
        self._settling = 0  # steps until the limit may be lowered again
        self._calm = [0] * (len(BOUNDS_S) + 1)  # counts of the present sample
        self._calm_p99s: deque[float] = deque(maxlen=CALM_BLOCKS_MAX)
        self.calm_p99_s = inf
        """99th percentile of produce latency without catch-up reads, in seconds; inf until enough produces were seen."""
        self._produces: deque[int] = deque(maxlen=PRODUCE_STEPS)
        self._quiet_steps = 0
        self._next_turn_s = 0.0
        self._taken_bytes = 0
        self.limit_bytes_per_s = inf
        self.is_watching = False
        """Whether there are enough produces to protect."""

    # --- adjusting the limit

    def adjust(self, produces: Sequence[int], elapsed_s: float) -> None:
        """Judge the time since the last step, `elapsed_s` ago. `produces`: counts by latency (BOUNDS_S) in that time."""
        catch_up_bytes, self._taken_bytes = self._taken_bytes, 0
        count = sum(produces)
        self._produces.append(count)
        self._quiet_steps = 0 if catch_up_bytes else self._quiet_steps + 1
        is_calm = self._quiet_steps > 1 or (catch_up_bytes > 0 and self._limit <= self._min)
        self.is_watching = self._ratio_max > 0 and sum(self._produces) >= PRODUCES_LEAST
        if self._quiet_steps == QUIET_STEPS_MAX:
            self._limit, self._credit, self._too_high = inf, SLOW_CREDIT_LEAST, 0.0
        elif catch_up_bytes and self.is_watching:
            self._judge(produces, count, catch_up_bytes / elapsed_s)
        if is_calm and count:
            self._learn(produces)
        self.limit_bytes_per_s = self._limit if self.is_watching else inf

    def _judge(self, produces: Sequence[int], count: int, bytes_per_s: float) -> None:
        slow_from = bisect_right(BOUNDS_S, self.calm_p99_s * self._ratio_max)
        slow = sum(produces[slow_from:])
        usual = sum(self._produces) / len(self._produces)
        credit_max = max(SLOW_CREDIT_LEAST, usual * SLOW_SHARE * CREDIT_STEPS)
        self._credit = min(credit_max, self._credit + count * SLOW_SHARE - slow)
        if self._settling:
            self._settling -= 1
            self._credit = max(self._credit, 0.0)
        elif self._credit < 0:
            # Use the actual rate if it was lower: a limit far above it would have no effect.
            was = min(self._limit, bytes_per_s)
            self._too_high = max(was, self._too_high * TOO_HIGH_KEPT)
            self._limit = max(self._min, was * SHRINKAGE)
            self._credit, self._settling = 0.0, SETTLING_STEPS
        elif not slow and bytes_per_s > self._limit / 2:
            self._limit += max(self._too_high, self._min) * GROWTH_SHARE

    def _learn(self, produces: Sequence[int]) -> None:
        self._calm = [old + new for old, new in zip(self._calm, produces, strict=True)]
        if sum(self._calm) >= CALM_BLOCK:
            self._calm_p99s.append(_p99_of(self._calm))
            self._calm = [0] * len(self._calm)
            self.calm_p99_s = sorted(self._calm_p99s)[int(len(self._calm_p99s) * CALM_RANK_SHARE)]

    # --- turns

    @property
    def slice_bytes_max(self) -> int | None:
        """Most bytes that one fetch may read far behind the end; None without a limit."""
        if not self.is_watching:
            return None
        return UNLIMITED_BYTES if self.limit_bytes_per_s == inf else self._slice_bytes

    def turn(self, now_s: float) -> float:
        """The time at which a fetch that comes now may read a slice: now, or after the fetches that came before it."""
        if self.limit_bytes_per_s == inf:
            self._next_turn_s = 0.0
            return now_s
        due_s = max(now_s, self._next_turn_s)
        self._take(now_s, due_s, self._slice_bytes)
        return due_s

    def settle(self, now_s: float, taken_bytes: int) -> None:
        """Correct the account by the bytes that a turn has really read: more for a batch longer than a slice, or fewer."""
        self._taken_bytes += taken_bytes
        if self.limit_bytes_per_s != inf:
            self._take(now_s, self._next_turn_s, taken_bytes - self._slice_bytes)

    def _take(self, now_s: float, from_s: float, size_bytes: int) -> None:
        # Bounded, so that a short period with a low limit has no long effect.
        self._next_turn_s = min(from_s + size_bytes / self.limit_bytes_per_s, now_s + TURNS_AHEAD_MAX_S)


def _p99_of(counts: Sequence[int]) -> float:
    """The lowest bound that at least 99 % of the values are below."""
    above = sum(counts) * SLOW_SHARE
    number = len(counts)
    while above >= 0:
        number -= 1
        above -= counts[number]
    return BOUNDS_S[min(number, len(BOUNDS_S) - 1)]
