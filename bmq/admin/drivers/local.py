"""Nodes as processes on this machine. Started nodes are found by their pid files, by a later process too.

    DIRECTORY/node-100.json     its pid and start time, while it runs and until it is stopped
    DIRECTORY/node-100.log      its output

A node gets a session of its own, so it outlives the controller that started it. A controller on another machine sees none
of these processes: this driver is for clusters that live on one.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import structlog

from bmq.admin.drivers.driver import DriverFailed, NodeHandle, NodeSpec, first_free
from bmq.admin.drivers.processes import send_signal, start_mark
from bmq.dataclass import dataclass

# Longer than a node waits for its partitions to move (`cluster.shutdown_wait_max_ms`), and then stops.
STOP_WAIT_S: Final = 195.0
KILL_WAIT_S: Final = 5.0
_POLL_INTERVAL_S: Final = 0.02
_LOG_TAIL_BYTES: Final = 4096
_LINE_CHARACTERS_MAX: Final = 200
# Addresses of this node that would be wrong for another one.
_NOT_INHERITED: Final = frozenset({"BMQ_ADVERTISED"})
_PID_FILE: Final = re.compile(r"node-(\d{1,10})\.json", re.ASCII)

_log = structlog.get_logger("bmq.admin")


@dataclass(frozen=True, slots=True)
class _Started:
    node_id: int
    pid: int
    mark: str

    @property
    def is_running(self) -> bool:
        return start_mark(self.pid) == self.mark


class LocalProcesses:
    """Implements Driver. `command_of(spec)`: the command line of `bmq node`, every address with port 0."""

    stops_in_order = False

    def __init__(
        self,
        directory: Path,
        node_ids: range,
        command_of: Callable[[NodeSpec], Sequence[str]],
        *,
        stop_wait_s: float = STOP_WAIT_S,
    ) -> None:
        self._directory = directory
        self._node_ids = node_ids
        self._command_of = command_of
        self._stop_wait_s = stop_wait_s
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    async def next_node_ids(self, count: int, taken: Collection[int]) -> Sequence[int]:
        running = {started.node_id for started in self._read_all() if started.is_running}
        return first_free(self._node_ids, count, running | set(taken))

    async def start_node(self, spec: NodeSpec) -> NodeHandle:
        before = self._read(spec.node_id)
        if before is not None and before.is_running:
            return NodeHandle(spec.node_id, True, f"pid {before.pid}")
        try:
            started = self._spawn(spec)
        except OSError as error:
            raise DriverFailed(f"node {spec.node_id} cannot be started: {error}") from error
        _log.info("node_started", started_node=spec.node_id, pid=started.pid, log=str(self._log_file(spec.node_id)))
        return NodeHandle(spec.node_id, True, f"pid {started.pid}")

    async def stop_node(self, node_id: int) -> None:
        """SIGTERM, and SIGKILL for one that does not end: fencing makes that safe. Raises DriverFailed."""
        started = self._read(node_id)
        if started is None:
            return
        if send_signal(started.pid, started.mark, signal.SIGTERM):
            # A process stopped with SIGSTOP ends only after it is resumed.
            send_signal(started.pid, started.mark, signal.SIGCONT)
            if started.pid == os.getpid():
                # This is our own process. It cannot wait for its own end; the next start finds the file stale.
                return
            if not await self._ended_within(started, self._stop_wait_s):
                _log.warning("node_does_not_stop", stopped_node=node_id, pid=started.pid)
                send_signal(started.pid, started.mark, signal.SIGKILL)
                if not await self._ended_within(started, KILL_WAIT_S):
                    raise DriverFailed(f"node {node_id} (pid {started.pid}) is still there after SIGKILL")
        self._reap()
        with suppress(FileNotFoundError):
            self._pid_file(node_id).unlink()
        _log.info("node_stopped", stopped_node=node_id, pid=started.pid)

    async def list_nodes(self) -> Sequence[NodeHandle]:
        self._reap()
        return [self._handle(started) for started in self._read_all()]

    # --- processes

    def _spawn(self, spec: NodeSpec) -> _Started:
        """Start the process without asyncio's child watcher, which would end it with the loop: it must outlive us."""
        self._directory.mkdir(parents=True, exist_ok=True)
        environment = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
        with self._log_file(spec.node_id).open("ab") as log:
            process = subprocess.Popen(
                self._command_of(spec),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        self._children[process.pid] = process
        mark = start_mark(process.pid)
        if mark is None:
            raise DriverFailed(f"node {spec.node_id} ended at once: {self._last_line(spec.node_id)}")
        started = _Started(spec.node_id, process.pid, mark)
        self._write(started)
        return started

    def _handle(self, started: _Started) -> NodeHandle:
        if started.is_running:
            return NodeHandle(started.node_id, True, f"pid {started.pid}")
        return NodeHandle(started.node_id, False, f"it ended: {self._last_line(started.node_id)}")

    async def _ended_within(self, started: _Started, wait_s: float) -> bool:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + wait_s
        while started.is_running:
            if loop.time() > deadline_s:
                return False
            await asyncio.sleep(_POLL_INTERVAL_S)
        return True

    def _reap(self) -> None:
        """Children that ended stay zombies until they are waited for."""
        for pid, process in list(self._children.items()):
            if process.poll() is not None:
                del self._children[pid]

    # --- files

    def _pid_file(self, node_id: int) -> Path:
        return self._directory / f"node-{node_id}.json"

    def _log_file(self, node_id: int) -> Path:
        return self._directory / f"node-{node_id}.log"

    def _write(self, started: _Started) -> None:
        path = self._pid_file(started.node_id)
        new = path.with_suffix(".new")
        new.write_text(json.dumps(asdict(started)))
        new.replace(path)

    def _read(self, node_id: int) -> _Started | None:
        """None when there is no such file, or not one of ours. Raises DriverFailed when it cannot be read."""
        try:
            found: Any = json.loads(self._pid_file(node_id).read_text())
            started = _Started(int(found["node_id"]), int(found["pid"]), str(found["mark"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None
        except OSError as error:
            raise _unreadable(self._directory, error) from error
        return started if started.node_id == node_id and started.pid > 0 else None

    def _read_all(self) -> list[_Started]:
        try:
            names = [entry.name for entry in self._directory.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _unreadable(self._directory, error) from error
        node_ids = sorted(int(match[1]) for name in names if (match := _PID_FILE.fullmatch(name)))
        return [started for node_id in node_ids if (started := self._read(node_id)) is not None]

    def _last_line(self, node_id: int) -> str:
        try:
            with self._log_file(node_id).open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES))
                lines = log.read().decode(errors="replace").split("\n")
        except FileNotFoundError:
            return "it has no log"
        said = [line.strip() for line in lines if line.strip()]
        return said[-1][:_LINE_CHARACTERS_MAX] if said else "it said nothing"


def _unreadable(directory: Path, error: OSError) -> DriverFailed:
    return DriverFailed(f"scale.directory {directory} cannot be used: {error.strerror or error}")
