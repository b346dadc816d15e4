"""Runs a command's event loop whose threads do not keep the process from ending: a name server or a disk may hang."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class DaemonThreads(ThreadPoolExecutor):
    """A thread for each call; nothing waits for it. asyncio takes no other class as the loop's executor."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001  # it is raised where the future is awaited
                future.set_exception(error)
            else:
                future.set_result(result)

        threading.Thread(target=run, daemon=True, name="bmq-command").start()
        return future


def run_with_daemon_threads(work: Coroutine[Any, Any, T]) -> T:
    """As asyncio.run, but returns although a thread of `asyncio.to_thread` or of a name's look-up still hangs."""
    with asyncio.Runner() as runner:
        runner.get_loop().set_default_executor(DaemonThreads())
        return runner.run(work)
