"""An event loop on virtual time: when nothing is ready, the clock jumps to the next timer.

There are no file descriptors and no threads in it, so a run is the same every time. Each handle belongs to the simulated
process (process.py) whose context it was made in: the loop keeps back the handles of a process that is paused, and
never runs those of one that was killed.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any

from tests.simulation.process import PROCESS

if TYPE_CHECKING:
    from tests.simulation.network import Network

# So many callbacks without the clock moving can only be a loop that feeds itself.
CALLBACKS_WITHOUT_TIME_MAX = 500_000

_AT_ONCE_S = 0.0005
"""uvloop's timers count whole milliseconds: what is due before is called in the next turn."""


class Deadlock(AssertionError):
    """Nothing is ready, no timer is set, and what was to be run has not ended."""


class TimeLimit(AssertionError):
    """The virtual clock passed its limit: something waits for ever, or tries for ever."""


class Livelock(AssertionError):
    """Callbacks make callbacks for ever while the clock stands still."""


class _Timer(asyncio.TimerHandle):
    """One that is called at once does not say when: the handle that uvloop gives for it cannot either."""

    __slots__ = ("is_at_once",)
    is_at_once: bool
    _when: float  # asyncio's own, which its types leave out, as of the loop below
    _scheduled: bool

    def when(self) -> float:
        if self.is_at_once:
            raise AttributeError("uvloop's Handle has no attribute 'when'")
        return super().when()


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """Ends with `discard()`. `failures` collects what would have been logged as an unhandled exception."""

    network: Network | None = None
    _ready: deque[asyncio.Handle]
    _scheduled: list[tuple[float, int, _Timer]]
    """When, number, timer: of two that are due at the same time, the older one comes first. Tuples compare without Python."""
    _stopping: bool
    _timer_cancelled_count: int

    def __init__(self, *, time_limit_s: float = 3600.0) -> None:
        super().__init__()
        self._time_limit_s = time_limit_s
        self._now_s = 0.0
        self._callbacks_at_now = 0
        self.callback_count = 0
        self.turn_count = 0
        self.failures: list[dict[str, Any]] = []
        self.expected_failures: tuple[type[BaseException], ...] = ()  # what a history raises itself
        self.set_exception_handler(self._note_failure)
        self.set_task_factory(self._make_task)
        self._generators: list[Any] = []
        self._timer_numbers = itertools.count()

    # --- what BaseEventLoop asks of its children

    def time(self) -> float:
        return self._now_s

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _Timer(when, callback, args, self, context)
        timer.is_at_once = when - self._now_s < _AT_ONCE_S
        heapq.heappush(self._scheduled, (when, next(self._timer_numbers), timer))
        timer._scheduled = True
        return timer

    def _write_to_self(self) -> None:
        """There is no selector to wake."""

    def _process_events(self, event_list: list[Any]) -> None:
        """There are no descriptors."""

    def _run_once(self) -> None:
        ready, scheduled = self._ready, self._scheduled
        self.turn_count += 1
        if not ready:
            self._jump()
        while scheduled and (scheduled[0][0] <= self._now_s or scheduled[0][2]._cancelled):
            _, _, timer = heapq.heappop(scheduled)
            timer._scheduled = False
            if not timer._cancelled:
                ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            process = handle._context.get(PROCESS)  # type: ignore[attr-defined]
            if process is None or process.admits(handle):
                self.callback_count += 1
                self._callbacks_at_now += 1
                handle._run()
        if self._callbacks_at_now > CALLBACKS_WITHOUT_TIME_MAX:
            raise Livelock(f"{self._callbacks_at_now} callbacks at {self._now_s} s")

    def _jump(self) -> None:
        if self._stopping:
            return
        scheduled = self._scheduled
        while scheduled and scheduled[0][2]._cancelled:
            heapq.heappop(scheduled)[2]._scheduled = False
        if not scheduled:
            raise Deadlock(f"nothing will ever happen again after {self._now_s} s")
        if scheduled[0][0] > self._now_s:
            self._now_s = scheduled[0][0]
            self._callbacks_at_now = 0
        if self._now_s > self._time_limit_s:
            raise TimeLimit(f"not done after {self._time_limit_s} s")

    # `_timer_cancelled_count` makes BaseEventLoop clean its heap in its own `_run_once`; here it only has to exist.
    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._timer_cancelled_count += 1
        if self._timer_cancelled_count > 1000 and self._timer_cancelled_count * 2 > len(self._scheduled):
            for _, _, timer in self._scheduled:
                if timer._cancelled:
                    timer._scheduled = False
            self._scheduled[:] = [entry for entry in self._scheduled if not entry[2]._cancelled]
            heapq.heapify(self._scheduled)
            self._timer_cancelled_count = 0

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        raise AssertionError(f"threads are not simulated: {func}")

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        assert self.network is not None, "this loop has no network"
        return self.network.listen(protocol_factory, host, port)

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        assert self.network is not None, "this loop has no network"
        return await self.network.connect(protocol_factory, host, port)

    # --- bookkeeping

    def _note_failure(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        process = PROCESS.get()
        if isinstance(context.get("exception"), self.expected_failures):
            return
        if process is None or process.is_alive:
            self.failures.append({**context, "process": process and process.name, "time_s": self._now_s})

    def _asyncgen_firstiter_hook(self, agen: Any) -> None:
        """Keeps it: the collector would close what nobody closed, whenever it comes, and each run would be another history."""
        self._generators.append(agen)
        super()._asyncgen_firstiter_hook(agen)  # type: ignore[misc]

    def _make_task(self, loop: asyncio.AbstractEventLoop, coro: Any, context: Any = None) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, context=context)
        process = PROCESS.get() if context is None else context.get(PROCESS)
        if process is not None:
            process.keep(task)
        return task

    def requeue(self, handles: list[asyncio.Handle]) -> None:
        """Run these next: a paused process goes on."""
        self._ready.extend(handles)

    def discard(self) -> None:
        """Close the loop with all that never ended: the `finally` blocks of dead processes concern nobody."""
        if self.network is not None:
            self.network.discard()
        # Their `finally` blocks ask for the loop that runs; without one asyncio would make one that nobody closes.
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            for task in asyncio.all_tasks(self):
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                coroutine: Any = task.get_coro()
                try:
                    coroutine.close()
                except BaseException:
                    continue
        finally:
            asyncio._set_running_loop(outer)
        self._ready.clear()
        self._scheduled.clear()
        self.close()
