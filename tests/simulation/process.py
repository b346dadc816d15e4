"""Simulated processes: everything started inside one runs in a context that names it.

process = Process(loop, "server-1")            # its host has the same name
process.spawn(main())
process.pause(); process.resume()      # a long pause makes a zombie
process.kill()                         # kill -9: no callback, no `finally` block of it runs any more
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.loop import VirtualTimeLoop

PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


class Process:
    def __init__(self, loop: VirtualTimeLoop, name: str) -> None:
        self.name = name
        self.host = name
        self.is_alive = True
        self.is_paused = False
        self.tasks: set[asyncio.Task[Any]] = set()
        self._when_killed: list[Callable[[], None]] = []
        self._loop = loop
        self._held: list[asyncio.Handle] = []

    def spawn(self, coro: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task inside this process."""
        return self._loop.create_task(coro, context=self.context())

    def context(self) -> contextvars.Context:
        context = contextvars.copy_context()
        context.run(PROCESS.set, self)
        return context

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        held, self._held = self._held, []
        if self.is_alive:
            self._loop.requeue(held)

    def on_kill(self, callback: Callable[[], None]) -> None:
        """Call it, in the killer's context, when this process is killed: its store client dies with it."""
        self._when_killed.append(callback)

    def kill(self) -> None:
        """Its sockets are reset and nothing of it runs again."""
        if not self.is_alive:
            return
        self.is_alive = False
        self._held.clear()
        for task in self.tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        if self._loop.network is not None:
            self._loop.network.kill(self)
        for callback in self._when_killed:
            callback()

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Hold on to a task until it ends. Those of a killed process never do: collecting one would run its `finally`."""
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def admits(self, handle: asyncio.Handle) -> bool:
        """Whether the loop may run a handle of this process now; if not, it is kept for later or forgotten."""
        if not self.is_alive:
            return False
        if self.is_paused:
            self._held.append(handle)
            return False
        return True
