"""Threads that wait for a KDC, which may take half a minute: a login to one server holds up none to another.

They are daemons that end when nothing is left to do. So no idle thread is kept, and a process that ends does not wait for a KDC.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

THREADS_MAX: Final = 16
"""Most threads of one service, such as HDFS; logins to further servers of it wait for one."""

T = TypeVar("T")
_Job = tuple["Future[Any]", Callable[[], Any]]


class KerberosThreads:
    """`submit` is callable from any thread."""

    def __init__(self, threads_max: int = THREADS_MAX) -> None:
        self._threads_max = threads_max
        self._lock = threading.Lock()
        self._services: dict[str, _Service] = {}

    def submit(self, service: str, server: str, work: Callable[[], T]) -> Future[T]:
        """Run `work` behind what was submitted before for the same server of the same service, and beside all other.

        Raises RuntimeError if the system gives no thread for it.
        """
        done: Future[T] = Future()
        with self._lock:
            found = self._services.setdefault(service, _Service())
            found.add(server, (done, work))
            if found.thread_count < self._threads_max and found.has_work():
                try:
                    threading.Thread(
                        target=self._run, args=(found,), name=f"bmq-kerberos-{service}", daemon=True
                    ).start()
                except RuntimeError:
                    done.cancel()  # a thread that comes later leaves it out
                    raise
                found.thread_count += 1  # the thread waits for the lock before it counts itself out
        return done

    def _run(self, service: _Service) -> None:
        while True:
            with self._lock:
                if not service.has_work():
                    service.thread_count -= 1
                    return
                server, (done, work) = service.take()
            if done.set_running_or_notify_cancel():
                try:
                    done.set_result(work())
                except BaseException as error:  # noqa: BLE001 it is the waiter's
                    done.set_exception(error)
            del done, work
            with self._lock:
                service.busy.remove(server)


class _Service:
    """The tasks for one service. `busy`: servers for which a thread works."""

    def __init__(self) -> None:
        self.thread_count = 0
        self.busy: set[str] = set()
        self._jobs: dict[str, deque[_Job]] = {}  # by server; the one that was served last stands last

    def add(self, server: str, job: _Job) -> None:
        jobs = self._jobs.setdefault(server, deque())
        while jobs and jobs[-1][0].cancelled():  # nobody waits for it any more
            jobs.pop()
        jobs.append(job)

    def has_work(self) -> bool:
        """Whether there is work for a server that no thread works for."""
        return any(server not in self.busy for server in self._jobs)

    def take(self) -> tuple[str, _Job]:
        """The oldest work of a server that no thread works for; it is busy from now on."""
        server = next(server for server in self._jobs if server not in self.busy)
        self.busy.add(server)
        jobs = self._jobs.pop(server)
        job = jobs.popleft()
        if jobs:
            self._jobs[server] = jobs
        return server, job
