"""Tables that a supervisor keeps: their jobs' processes, their rows, and whether the states it tells fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyiceberg.table import StaticTable

TOLD_LATE_S_MAX: Final = 10.0
"""A job that died may be told as running for so long. The supervisor looks every half second, on a busy machine later."""


def ids(warehouse: Path, name: str) -> list[int]:
    table = StaticTable.from_metadata(str(warehouse / "tables" / name))
    return sorted(table.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist())


def jobs_of(supervisor: int) -> dict[str, int]:
    """Process ids of its jobs by the names of their tables."""
    found = {}
    for pid in map(int, Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        except OSError:  # it has ended since
            continue
        if "--table" in words:
            found[words[words.index("--table") + 1]] = pid
    return found


@dataclass(slots=True)
class _Killed:
    """A job that was killed. `is_told`: its table was told as not running since."""

    at_s: float
    pid: int
    is_told: bool = False


@dataclass(slots=True)
class TellTale:
    """Compares what is told with the processes, look by look. `wrong`: a sentence for each state that was not true."""

    wrong: list[str] = field(default_factory=list)
    looks: int = 0
    restarts: int = 0
    _killed: dict[str, _Killed] = field(default_factory=dict)
    """By table, until its next job is told as running."""

    def killed(self, now_s: float, name: str, pid: int) -> None:
        self._killed[name] = _Killed(now_s, pid)

    def look(self, now_s: float, jobs: dict[str, int], told: dict[str, dict[str, Any]]) -> None:
        """All tables ran before the first look. `jobs` were read before `told`."""
        self.looks += 1
        for name, status in told.items():
            is_running = status["state"] == "running"
            killed = self._killed.get(name)
            if killed is None:
                if not is_running:
                    self.wrong.append(f"{name} is told as {status['state']} ({status['error']}) and was not killed")
            elif not is_running:
                killed.is_told = True
            elif killed.is_told and jobs.get(name) not in (None, killed.pid):
                del self._killed[name]
                self.restarts += 1
            elif now_s - killed.at_s > TOLD_LATE_S_MAX:
                self.wrong.append(
                    f"{name} is told as running {now_s - killed.at_s:.1f} s after {killed.pid} was killed"
                )
