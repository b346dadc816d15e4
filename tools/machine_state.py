"""What a run finds on its machine: load, pressure, stolen time, limits, room on disks, and what earlier runs left behind.

Each process of a run has MARK in its environment: the process id of the run and the moment it was started. A process whose
run is gone is a leftover; it is named, never killed: it may be somebody's on purpose.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

MARK: Final = "BMQ_TEST_RUN"
OPEN_FILES_MIN: Final = 20_000
DISK_MIN_BYTES: Final = 4 << 30
LOAD_PER_PROCESSOR_MAX: Final = 1.0
LEFTOVERS_SHOWN_MAX: Final = 20
LEAVE_WAIT_S: Final = 5.0

_PRESSURE: Final = re.compile(r"^some .*total=(\d+)$", re.MULTILINE)


def mark_of(process: psutil.Process) -> str:
    return f"{process.pid}-{process.create_time():.0f}"


@dataclass(frozen=True, slots=True)
class Pressure:
    """Time so far, in seconds, in which some process waited for a processor, for a disk, for memory; and processor time that
    the host gave to others, and that processes had. Of the whole machine; 0.0 where the system does not tell.
    """

    cpu_s: float = 0.0
    io_s: float = 0.0
    memory_s: float = 0.0
    stolen_s: float = 0.0
    used_s: float = 0.0

    def since(self, earlier: Pressure) -> Pressure:
        return Pressure(
            self.cpu_s - earlier.cpu_s,
            self.io_s - earlier.io_s,
            self.memory_s - earlier.memory_s,
            self.stolen_s - earlier.stolen_s,
            self.used_s - earlier.used_s,
        )

    def over(self, seconds: float, processors: int) -> str:
        """As shares of `seconds`: `cpu 43 %, io 1 %, memory 0 %, stolen 0 %; processors used 97 %`."""
        whole = max(seconds, 1e-9)
        shares = {"cpu": self.cpu_s, "io": self.io_s, "memory": self.memory_s, "stolen": self.stolen_s / processors}
        waits = ", ".join(f"{name} {share / whole:.0%}" for name, share in shares.items())
        return f"{waits}; processors used {self.used_s / processors / whole:.0%}".replace("%", " %")


def pressure(proc: Path = Path("/proc")) -> Pressure:
    """What the system counted since it started."""

    def waited_s(what: str) -> float:
        try:
            found = _PRESSURE.search((proc / "pressure" / what).read_text())
        except OSError:
            return 0.0
        return int(found[1]) / 1e6 if found else 0.0

    stolen_s, used_s = _stolen_and_used_s(proc)
    return Pressure(waited_s("cpu"), waited_s("io"), waited_s("memory"), stolen_s, used_s)


def _stolen_and_used_s(proc: Path) -> tuple[float, float]:
    try:
        name, *fields = (proc / "stat").read_text().partition("\n")[0].split()
    except (OSError, ValueError):
        return 0.0, 0.0
    if name != "cpu" or len(fields) < 8:
        return 0.0, 0.0
    user, nice, system, _, _, interrupts, soft_interrupts, stolen = map(int, fields[:8])
    ticks = os.sysconf("SC_CLK_TCK")
    return stolen / ticks, (user + nice + system + interrupts + soft_interrupts) / ticks


@dataclass(frozen=True, slots=True)
class MachineState:
    """`open_files`: this process's limit. `leftovers`: `PID COMMAND LINE` each. `loop_devices`: those in use."""

    processors: int
    load: float
    open_files: int
    disk_free_bytes: int
    disk: Path
    autogroup: str
    loop_devices: int
    leftovers: Sequence[str]


def machine_state() -> MachineState:
    """Also raises this process's limit of open files as far as the system lets it."""
    disk = Path(tempfile.gettempdir())
    return MachineState(
        processors=os.cpu_count() or 1,
        load=os.getloadavg()[0],
        open_files=_raised_open_files(),
        disk_free_bytes=shutil.disk_usage(disk).free,
        disk=disk,
        autogroup=_text(Path("/proc/self/autogroup")) or "none",
        loop_devices=sum(1 for device in Path("/sys/block").glob("loop*") if _text(device / "loop" / "backing_file")),
        leftovers=tuple(leftovers()),
    )


def _raised_open_files() -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES_MIN if hard == resource.RLIM_INFINITY else min(OPEN_FILES_MIN, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return OPEN_FILES_MIN if soft == resource.RLIM_INFINITY else soft


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def leftovers() -> Iterator[str]:
    """Processes of runs that are over, as `PID COMMAND LINE`."""
    own = os.environ.get(MARK)
    alive: dict[str, bool] = {}
    for process in psutil.process_iter():
        mark = _mark_in(process)
        if not mark or mark == own:
            continue
        if mark not in alive:
            alive[mark] = is_running(mark)
        if not alive[mark]:
            yield _shown(process)


def left_behind(mark: str) -> list[str]:
    """Processes with exactly this mark that are still there a moment after what started them ended."""
    found = [process for process in psutil.process_iter() if _mark_in(process) == mark]
    _, alive = psutil.wait_procs(found, timeout=LEAVE_WAIT_S)
    return [_shown(process) for process in alive]


def _mark_in(process: psutil.Process) -> str:
    try:
        return process.environ().get(MARK, "")
    except (psutil.Error, OSError):
        return ""


def _shown(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {' '.join(process.cmdline())[:100]}"
    except (psutil.Error, OSError):
        return f"{process.pid}"


def is_running(mark: str) -> bool:
    """Whether the run with this mark, or of a stage with it, still runs."""
    process_id, _, rest = mark.partition("-")
    try:
        if not process_id.isdecimal():
            return False
        return mark_of(psutil.Process(int(process_id))) == f"{process_id}-{rest.partition('-')[0]}"
    except psutil.Error:
        return False


def described(state: MachineState) -> list[str]:
    """What is printed before the first stage: one line of figures, then a warning for each that is out of bounds."""
    lines = [
        f"machine: {state.processors} processors, load {state.load:.1f}, open files {state.open_files}, "
        f"{state.disk_free_bytes / 2**30:.0f} GiB free in {state.disk}, loop devices {state.loop_devices}, "
        f"autogroup {state.autogroup}"
    ]
    if state.load > LOAD_PER_PROCESSOR_MAX * state.processors:
        lines.append(f"warning: the machine is busy already (load {state.load:.1f}); waits take longer")
    if state.open_files < OPEN_FILES_MIN:
        lines.append(f"warning: {state.open_files} open files are allowed; tests need up to {OPEN_FILES_MIN}")
    if state.disk_free_bytes < DISK_MIN_BYTES:
        lines.append(f"warning: {state.disk_free_bytes / 2**30:.1f} GiB are free in {state.disk}; tests need up to 4")
    shown = state.leftovers[:LEFTOVERS_SHOWN_MAX]
    lines += [f"warning: left behind by an earlier run, and still running: {process}" for process in shown]
    if len(state.leftovers) > len(shown):
        lines.append(f"warning: and {len(state.leftovers) - len(shown)} more")
    return lines
