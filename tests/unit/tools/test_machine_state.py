"""What a run says of its machine before its first stage."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tools import machine_state
from tools.machine_state import (
    MARK,
    MachineState,
    Pressure,
    described,
    is_running,
    left_behind,
    leftovers,
    mark_of,
    pressure,
)

pytestmark = pytest.mark.unit

WELL = MachineState(
    processors=2,
    load=0.4,
    open_files=20_000,
    disk_free_bytes=50 << 30,
    disk=Path("/tmp"),
    autogroup="/autogroup-7 nice 0",
    loop_devices=0,
    leftovers=(),
)


def test_a_machine_that_is_well_is_one_line() -> None:
    (line,) = described(WELL)
    assert line == (
        "machine: 2 processors, load 0.4, open files 20000, 50 GiB free in /tmp, loop devices 0, autogroup "
        "/autogroup-7 nice 0"
    )


def test_each_bound_that_is_not_kept_is_a_warning() -> None:
    ill = replace(WELL, load=2.1, open_files=1_024, disk_free_bytes=1 << 30, leftovers=["71 java NameNode"])
    _, busy, files, disk, left = described(ill)
    assert "busy" in busy and "1024 open files" in files and "1.0 GiB are free in /tmp" in disk
    assert left == "warning: left behind by an earlier run, and still running: 71 java NameNode"


def test_of_many_leftovers_the_first_are_named() -> None:
    lines = described(replace(WELL, leftovers=[f"{number} java" for number in range(30)]))
    assert len(lines) == 22 and lines[-1] == "warning: and 10 more"


def test_pressure_is_what_the_system_counted(tmp_path: Path) -> None:
    (tmp_path / "pressure").mkdir()
    for name, total_us in {"cpu": 3_000_000, "io": 500_000, "memory": 0}.items():
        text = f"some avg10=1.00 avg60=2.00 avg300=3.00 total={total_us}\nfull avg10=0.00 avg60=0.00 total=7\n"
        (tmp_path / "pressure" / name).write_text(text)
    ticks = os.sysconf("SC_CLK_TCK")
    used = f"{ticks} {2 * ticks} {3 * ticks} 7 7 {4 * ticks} {5 * ticks}"
    (tmp_path / "stat").write_text(f"cpu  {used} {2 * ticks} 9 9\ncpu0 1 2 3 4 5 6 7 8 9 0\n")
    assert pressure(tmp_path) == Pressure(cpu_s=3.0, io_s=0.5, memory_s=0.0, stolen_s=2.0, used_s=15.0)


@pytest.mark.parametrize("stat", [None, "", "cpu 1 2 3\n", "processor 1 2 3 4 5 6 7 8\n"])
def test_a_system_that_tells_nothing_has_no_pressure(tmp_path: Path, stat: str | None) -> None:
    if stat is not None:
        (tmp_path / "stat").write_text(stat)
    assert pressure(tmp_path) == Pressure()


def test_shares_of_a_stage() -> None:
    waited = Pressure(14.0, 3.0, 2.0, 5.0, 20.0).since(Pressure(10.0, 2.0, 2.0, 1.0, 4.0))
    assert waited.over(10.0, processors=2) == "cpu 40 %, io 10 %, memory 0 %, stolen 20 %; processors used 80 %"


def test_a_process_whose_run_is_over_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MARK, raising=False)
    own = mark_of(psutil.Process())
    gone = f"{os.getpid()}-1"  # a process of this id that was started long ago
    assert is_running(own) and is_running(f"{own}-hurt") and not is_running(gone)
    processes = [subprocess.Popen(["sleep", "60"], env={**os.environ, MARK: mark}) for mark in (own, gone, "nonsense")]
    try:
        found = [line for line in leftovers() if any(line == f"{process.pid} sleep 60" for process in processes)]
        assert found == [f"{process.pid} sleep 60" for process in processes[1:]]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_what_a_stage_left_behind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_state, "LEAVE_WAIT_S", 0.1)
    mark = f"{mark_of(psutil.Process())}-hurt"
    with subprocess.Popen(["sleep", "60"], env={**os.environ, MARK: mark}) as left:
        assert left_behind(mark) == [f"{left.pid} sleep 60"]
        assert left_behind(f"{mark}-other") == []
        left.kill()
    assert left_behind(mark) == []
