"""The client in C (load.c): built once, pinned to its core, its figures read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.core.frames import Frames
from bench.measure import total_cpu_times
from bench.workloads import LoadFailed
from testing.processes import dying_with_us

SOURCE: Final = Path(__file__).with_name("load.c")
COMPILE: Final = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror")
PATIENCE_S: Final = 30.0
"""How much longer than its load the client may take."""


@dataclass(frozen=True, slots=True)
class Load:
    """`rate_per_s`: requests that fall due, on all connections together; 0: as many as are answered."""

    frames: Frames
    connections: int
    in_flight: int
    rate_per_s: float = 0
    answer_bytes_min: int = 0


class Stop:
    """Call it to end a client's measured time early, from any thread; also before the client runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_wanted = False
        self._process: subprocess.Popen[str] | None = None

    def __call__(self) -> None:
        with self._lock:
            self._is_wanted = True
            if self._process is not None:
                self._process.terminate()

    def started(self, process: subprocess.Popen[str]) -> None:
        with self._lock:
            self._process = process
            if self._is_wanted:
                process.terminate()


class Client:
    """`core`: the processor that it runs on; None: any. Raises LoadFailed without a C compiler."""

    def __init__(self, directory: Path, core: int | None) -> None:
        self._directory = directory
        self._core = core
        self._program = build(SOURCE, directory / "load")

    def put(
        self,
        port: int,
        pids: Mapping[str, int],
        load: Load,
        *,
        warm_s: float,
        seconds: float,
        stop: Stop | None = None,
    ) -> dict[str, Any]:
        """Put a server of these processes under a load; `server_cpu_s` is what they use in the measured time, and `seconds`
        how long that was. `stop` ends it early.

        Raises LoadFailed: an answer was an error, or none came.
        """
        frames = self._directory / "frames"
        frames.write_bytes(load.frames.data)
        command = [
            *(str(self._program), "--port", str(port), "--frames", str(frames)),
            *("--connections", str(load.connections), "--in-flight", str(load.in_flight)),
            *("--rate", str(load.rate_per_s), "--warm-s", str(warm_s), "--seconds", str(seconds)),
            *("--zero-at", str(load.frames.zero_at), "--answer-bytes-min", str(load.answer_bytes_min)),
        ]
        with pinned_to([self._core]) if self._core is not None else nullcontext():
            return measured(command, pids.values(), stop)


def build(source: Path, program: Path, libraries: Sequence[str] = ()) -> Path:
    """Compile a client in C; the program. Raises LoadFailed."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise LoadFailed("there is no C compiler to build the client with: install gcc and libc6-dev")
    program.parent.mkdir(parents=True, exist_ok=True)
    linked = [f"-l{library}" for library in libraries]
    built = subprocess.run(
        [compiler, *COMPILE, "-o", str(program), str(source), *linked], capture_output=True, text=True
    )
    if built.returncode != 0:
        raise LoadFailed(f"the client was not built: {built.stderr[-2_000:]}")
    return program


def measured(command: Sequence[str], pids: Collection[int], stop: Stop | None = None) -> dict[str, Any]:
    """What a client prints that says "begin" and "end" around its measured time, and what servers of these processes use
    in that time: `server_cpu_s`, of which `server_user_s` in user mode.

    Raises LoadFailed: it ended with an error, or did not say both.
    """
    process = subprocess.Popen(dying_with_us(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    if stop is not None:
        stop.started(process)
    used: list[tuple[float, float]] = []
    result = ""
    try:
        for line in process.stdout:
            if line.strip() in ("begin", "end"):
                used.append(total_cpu_times(pids))
            else:
                result = line
        _, errors = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    if process.returncode != 0 or len(used) != 2:
        raise LoadFailed(errors.strip() or f"the client ended with {process.returncode}")
    (user_before_s, system_before_s), (user_s, system_s) = used
    user_s, system_s = user_s - user_before_s, system_s - system_before_s
    return {**json.loads(result), "server_cpu_s": round(user_s + system_s, 2), "server_user_s": round(user_s, 2)}


@contextmanager
def pinned_to(cores: Sequence[int]) -> Iterator[None]:
    """Processes that are started in here run on these processors, and so do their threads, for good."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
