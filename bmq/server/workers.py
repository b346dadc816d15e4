"""`bmq node --workers N`: N processes side by side on one host, and a supervisor that keeps them running.

Each worker is a node of the cluster. Its node id and ports follow those of the worker before. A worker that ended is started
again. A worker whose event loop hangs is killed first. Its connections end with it, so its clients find another leader at
once instead of after their own timeout (30 s by default). A separate process ends a dead worker's session in ZooKeeper, with
the id and password that the worker has sent, so that the cluster need not wait for its timeout.

The supervisor has no event loop and no threads, so that it may fork: a restarted worker has everything imported already.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field
from multiprocessing.connection import Connection, wait
from typing import Any, Final

import structlog

from bmq.aio.backoff import Backoff
from bmq.dataclass import dataclass
from bmq.election.zookeeper_wire import SessionKey
from bmq.protocol.errors import BmqError
from bmq.server.logs import configure_logs
from bmq.server.session_end import end_worker_session
from bmq.server.settings import Settings
from bmq.server.worker_messages import BEAT, session_of

BEAT_INTERVAL_S: Final = 0.25
LOOK_INTERVAL_S: Final = 0.25
OWN_PAUSE_S_MAX: Final = 1.0  # after a longer pause of ours, silence proves nothing: the machine may have stood still
RESTART_FIRST_S: Final = 0.05
RESTART_MAX_S: Final = 5.0
STEADY_S: Final = 10.0  # a worker that ran this long is restarted without a pause
_ADDRESSES: Final = ("listen", "advertised", "internal", "internal_advertised", "rest", "rest_advertised")
_ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_PORT_MAX: Final = 65_535

RunWorker = Callable[[Settings, Connection], None]
Process = multiprocessing.process.BaseProcess
_fork = multiprocessing.get_context("fork")
_log = structlog.get_logger("bmq.cli")


class WorkerSettingsWrong(BmqError):
    """These settings do not allow this number of workers."""


class WorkerNotStarted(BmqError):
    """A worker ended before it was ready for the first time. It has logged why."""


def worker_settings(settings: Settings, number: int) -> Settings:
    """Settings of worker `number` (from 0 on): its ids and ports follow the given ones.

    Port 0 stays 0: any free one.
    """
    changes: dict[str, Any] = {"node_id": settings.node_id + number}
    for name in _ADDRESSES:
        host, _, port = getattr(settings, name).rpartition(":")
        if port and int(port):
            if int(port) + number > _PORT_MAX:
                raise WorkerSettingsWrong(f"{name} {host}:{port} leaves no port for worker {number + 1}")
            changes[name] = f"{host}:{int(port) + number}"
    return settings.model_copy(update=changes)


@dataclass(slots=True)
class _Worker:
    settings: Settings
    process: Process | None = None
    beats: Connection | None = None
    heard_s: float | None = None  # the last beat; None before the first
    session: SessionKey | None = None  # the last one its process reported
    started_s: float = 0.0
    due_s: float | None = None  # when it is started again
    backoff: Backoff = field(default_factory=lambda: Backoff(None, first_s=RESTART_FIRST_S, max_s=RESTART_MAX_S))


class Workers:
    """`run` returns after SIGTERM or SIGINT, when all workers have left in order.

    `run_worker` runs in a worker's process: it sends a heartbeat over the connection every `BEAT_INTERVAL_S` once it is
    ready (server/heartbeat), and leaves in order when the other end is gone.
    """

    def __init__(self, settings: Settings, run_worker: RunWorker) -> None:
        self._workers = [_Worker(worker_settings(settings, number)) for number in range(settings.workers)]
        self._hang_s = settings.worker_hang_ms / 1000
        self._run_worker = run_worker
        self._session_ends: list[Process] = []
        self._signals = 0
        self._is_ending = False

    def run(self) -> None:
        """Supervise until all workers have left. Raises WorkerNotStarted."""
        for number in _ENDING_SIGNALS:
            signal.signal(number, self._ask)
        for worker in self._workers:
            self._start(worker)
        failed = None
        checked_s, handled_signals = time.monotonic(), 0
        while self._running():
            wait(self._watched(), self._pause_s())
            if self._signals > handled_signals:
                handled_signals = self._signals
                self._end()
            now_s = time.monotonic()
            for worker in self._workers:
                self._read_messages(worker, now_s)
            if now_s - checked_s > OWN_PAUSE_S_MAX:
                self._trust_all(now_s)
            checked_s = now_s
            self._collect_session_ends()
            for worker in self._workers:
                failed = self._check_worker(worker, now_s) or failed
            if failed is not None and not self._is_ending:
                self._end()
        if failed is not None:
            raise WorkerNotStarted(failed)

    def _running(self) -> bool:
        are_workers = any(worker.process is not None or worker.due_s is not None for worker in self._workers)
        return are_workers or bool(self._session_ends)

    def _pause_s(self) -> float:
        """Seconds until the next check if nothing happens before."""
        now_s = time.monotonic()
        due = [worker.due_s - now_s for worker in self._workers if worker.due_s is not None]
        return max(0.0, min([LOOK_INTERVAL_S, *due]))

    def _watched(self) -> list[Any]:
        found: list[Any] = [process.sentinel for process in self._session_ends]
        for worker in self._workers:
            if worker.process is not None:
                found.append(worker.process.sentinel)
            if worker.beats is not None:
                found.append(worker.beats)
        return found

    def _start(self, worker: _Worker) -> None:
        beats, other_end = _fork.Pipe(duplex=False)
        worker.due_s, worker.heard_s, worker.started_s = None, None, time.monotonic()
        worker.beats, worker.session = beats, None
        worker.process = self._spawn(self._be_worker, worker.settings, other_end)
        other_end.close()
        _log.info("worker_started", node_id=worker.settings.node_id, pid=worker.process.pid)

    def _spawn(self, work: Callable[..., None], *arguments: Any) -> Process:
        process = _fork.Process(target=self._be_child, args=(work, arguments))
        # Block signals: one that reached the child before it has reset our handlers would be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING_SIGNALS)
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING_SIGNALS)
        return process

    def _be_child(self, work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        """In the child's process: release the supervisor's resources, then run the worker."""
        for number in _ENDING_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING_SIGNALS)
        for connection in [worker.beats for worker in self._workers if worker.beats is not None]:
            with suppress(OSError):  # already closed
                connection.close()
        work(*arguments)

    def _be_worker(self, settings: Settings, beats: Connection) -> None:
        """Run the worker, in its process."""
        try:
            self._run_worker(settings, beats)
        except BmqError as error:
            sys.stderr.write(f"bmq: node {settings.node_id}: {error}\n")
            sys.stderr.flush()
            os._exit(1)

    def _read_messages(self, worker: _Worker, now_s: float) -> None:
        beats = worker.beats
        if beats is None:
            return
        try:
            while beats.poll():
                message = beats.recv_bytes()
                if message == BEAT:
                    worker.heard_s = now_s
                else:
                    worker.session = session_of(message) or worker.session
        except (EOFError, OSError):
            worker.beats = None
            beats.close()

    def _trust_all(self, now_s: float) -> None:
        for worker in self._workers:
            if worker.heard_s is not None:
                worker.heard_s = now_s

    def _check_worker(self, worker: _Worker, now_s: float) -> str | None:
        """Restart or kill one worker if that is due. Returns a sentence if it cannot be started at all."""
        process = worker.process
        if process is None:
            if worker.due_s is not None and now_s >= worker.due_s:
                self._start(worker)
            return None
        if process.exitcode is None:
            if worker.heard_s is not None and now_s - worker.heard_s > self._hang_s:
                _log.error("worker_hung", node_id=worker.settings.node_id, pid=process.pid)
                process.kill()
                worker.heard_s = now_s  # dying may take a while: do not log and kill again before `_hang_s` is over
            return None
        return self._ended(worker, process, now_s)

    def _ended(self, worker: _Worker, process: Process, now_s: float) -> str | None:
        self._read_messages(worker, now_s)  # read its last messages
        exit_code, was_ready = process.exitcode, worker.heard_s is not None or worker.backoff.failures > 0
        process.join()
        process.close()
        worker.process = None
        if worker.beats is not None:
            worker.beats.close()
            worker.beats = None
        if exit_code != 0:  # otherwise it has ended its session itself
            self._end_session(worker)
        if self._is_ending:
            return None
        if not was_ready:
            return f"node {worker.settings.node_id} ended with exit code {exit_code} before it was ready"
        if now_s - worker.started_s > STEADY_S:
            worker.backoff.reset()
        pause_s = worker.backoff.next_s()
        worker.due_s = now_s + pause_s
        _log.error("worker_ended", node_id=worker.settings.node_id, exit_code=exit_code, again_in_s=pause_s)
        return None

    def _end_session(self, worker: _Worker) -> None:
        """End a dead worker's session. Only for processes known to be dead: a living one must not lose its session."""
        if worker.session is None:
            return
        try:
            self._session_ends.append(self._spawn(end_worker_session, worker.settings, worker.session))
        except OSError as error:  # no memory or no process available: the session will time out
            _log.warning("session_not_ended", node_id=worker.settings.node_id, reason=str(error))
        worker.session = None

    def _collect_session_ends(self) -> None:
        for process in [process for process in self._session_ends if process.exitcode is not None]:
            self._session_ends.remove(process)
            if process.exitcode:  # that process logs its failure itself
                _log.warning("session_end_failed", exit_code=process.exitcode)
            process.join()
            process.close()

    def _ask(self, *_: Any) -> None:
        self._signals += 1

    def _end(self) -> None:
        self._is_ending = True
        for worker in self._workers:
            worker.due_s = None
            if worker.process is not None:
                worker.process.terminate()


def run_workers(settings: Settings, run_worker: RunWorker) -> None:
    """Serve with `settings.workers` workers until SIGTERM or SIGINT. Raises BmqError with one sentence."""
    workers = Workers(settings, run_worker)
    configure_logs(settings.log_level, settings.log_format)
    workers.run()
