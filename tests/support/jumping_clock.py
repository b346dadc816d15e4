"""A pytest plugin that lets time jump in the middle of tests (`-p tests.support.jumping_clock`), as on a machine that stands still.

A process that stood still reads a clock that went on without it: timers of the event loop are due before what was to happen
first. This plugin adds 0.3 to 1.5 s to the clocks of Python's `time` a few times a test, at reads of a clock that the seed in
BMQ_CLOCK_JUMPS and the test's name choose. It costs no time, reaches every read, and the same seed jumps at the same reads.
It reaches no other process, and no time-out that the system counts: `python -m tools.stalls --stop` stops processes.

With BMQ_CLOCK_READS, a directory, each process writes a line of JSON for each test whose loop set timers on real time shorter
than SHORT_S, or that read a clock itself: its name, reads of a clock, and the places that set the timers.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import queue
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import Context
from pathlib import Path
from typing import Any, Final

import pytest

JUMPS: Final = "BMQ_CLOCK_JUMPS"
READS: Final = "BMQ_CLOCK_READS"
JUMP_S: Final = (0.3, 1.5)
JUMPS_PER_TEST: Final = 3
READS_BETWEEN_MAX: Final = 400
SHORT_S: Final = 5.0


def jump_reads(dice: random.Random) -> list[tuple[int, float]]:
    """(number of the read before which the clock jumps, by how many seconds), in order.

    Distances are log-uniform: a test may read the clock ten times or ten thousand times, and most begins soon.
    """
    at, jumps = 0, []
    for _ in range(JUMPS_PER_TEST):
        at += math.ceil(math.exp(dice.uniform(0, math.log(READS_BETWEEN_MAX))))
        jumps.append((at, dice.uniform(*JUMP_S)))
    return jumps


class JumpingClock:
    """Counts reads since `begin`. The seconds that were jumped stay: a monotonic clock never goes back."""

    def __init__(self) -> None:
        self.jumped_s = 0.0
        self.reads = 0
        self._began_at_s = 0.0
        self._jumps: list[tuple[int, float]] = []

    def begin(self, jumps: list[tuple[int, float]]) -> None:
        self.reads, self._jumps, self._began_at_s = 0, jumps[::-1], self.jumped_s

    def offset_s(self) -> float:
        """To be added to a clock, at each read."""
        self.reads += 1
        while self._jumps and self._jumps[-1][0] <= self.reads:
            self.jumped_s += self._jumps.pop()[1]
        return self.jumped_s

    def wall_offset_s(self) -> float:
        """Only of this test: files and certificates have the time of the system."""
        return self.offset_s() - self._began_at_s

    def install(self) -> None:
        """Before others import the functions by name; `threading` and `queue` have done so already."""
        for name, offset_s in (
            ("monotonic", self.offset_s),
            ("perf_counter", self.offset_s),
            ("time", self.wall_offset_s),
        ):
            setattr(time, name, _later(getattr(time, name), offset_s))
            setattr(time, f"{name}_ns", _later_ns(getattr(time, f"{name}_ns"), offset_s))
        threading._time = time.monotonic  # type: ignore[attr-defined]
        queue.time = time.monotonic  # type: ignore[attr-defined]


def _later(read: Callable[[], float], offset_s: Callable[[], float]) -> Callable[[], float]:
    return lambda: read() + offset_s()


def _later_ns(read: Callable[[], int], offset_s: Callable[[], float]) -> Callable[[], int]:
    return lambda: read() + round(offset_s() * 1e9)


class Timers:
    """Where timers of event loops on real time were set, as `file:line`, and for how many seconds, the shortest of each place."""

    def __init__(self) -> None:
        self.places: dict[str, float] = {}
        self._call_at = asyncio.BaseEventLoop.call_at

    def install(self) -> None:
        note, call_at = self._note, self._call_at

        def noting(
            loop: asyncio.BaseEventLoop,
            when: float,
            callback: Callable[..., object],
            *args: Any,
            context: Context | None = None,
        ) -> asyncio.TimerHandle:
            note(when - loop.time())
            return call_at(loop, when, callback, *args, context=context)

        asyncio.BaseEventLoop.call_at = noting  # type: ignore[assignment]

    def _note(self, delay_s: float) -> None:
        if delay_s >= SHORT_S:
            return
        frame: Any = sys._getframe(2)
        while frame.f_back is not None and f"{os.sep}asyncio{os.sep}" in frame.f_code.co_filename:
            frame = frame.f_back
        place = f"{os.path.relpath(frame.f_code.co_filename)}:{frame.f_lineno}"
        self.places[place] = round(min(self.places.get(place, delay_s), delay_s), 4)


class JumpsInTests:
    def __init__(self, clock: JumpingClock, seed: str | None, reads: Path | None) -> None:
        self._clock = clock
        self._seed = seed
        self._reads = reads
        self._timers = Timers()
        if reads is not None:
            self._timers.install()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[object]:
        self._timers.places = {}
        self._clock.begin([] if self._seed is None else jump_reads(random.Random(f"{self._seed} {item.nodeid}")))
        try:
            result = yield  # type: ignore[misc]
            return result
        finally:
            reads = self._clock.reads
            self._clock.begin([])
            if self._reads is not None:
                line = {"name": item.nodeid, "reads": reads, "timers": self._timers.places}
                with (self._reads / f"{os.getpid()}.jsonl").open("a") as file:
                    file.write(json.dumps(line) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    seed, reads = os.environ.get(JUMPS), os.environ.get(READS)
    if seed or reads:
        clock = JumpingClock()
        clock.install()
        config.pluginmanager.register(JumpsInTests(clock, seed, Path(reads) if reads else None))
