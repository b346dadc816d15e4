"""What a server process uses, and the machine it runs on, read from /proc and the tools themselves."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
import psutil

from testing.java import java_executable
from testing.processes import JARS

CLOCK_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_times(pid: int) -> tuple[float, float]:
    """User and system seconds of a process so far, from /proc/PID/stat."""
    # The command name, in parentheses, may hold spaces: fields are counted from behind it.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / CLOCK_TICKS_PER_S, int(fields[12]) / CLOCK_TICKS_PER_S


def cpu_seconds(pid: int) -> float:
    """Both together."""
    return sum(cpu_times(pid))


def total_cpu_seconds(pids: Iterable[int]) -> float:
    """The same of several processes together."""
    return sum(total_cpu_times(pids))


def total_cpu_times(pids: Iterable[int]) -> tuple[float, float]:
    """User and system seconds of several processes together."""
    times = [cpu_times(pid) for pid in pids]
    return sum(user_s for user_s, _ in times), sum(system_s for _, system_s in times)


def memory_mib(pid: int) -> dict[str, float]:
    """Resident and proportional set size (shared pages divided among their users) in MiB, from smaps_rollup."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.endswith("kB")}
    return {"rss_mib": sizes["Rss"] / 1024, "pss_mib": sizes["Pss"] / 1024}


def usage(processes: Mapping[str, int]) -> dict[str, Any]:
    """Processor time so far and memory of all together and of each by name; what they share counts once in `pss_mib`."""
    cpu_s = {name: round(cpu_seconds(pid), 2) for name, pid in processes.items()}
    memory = {name: memory_mib(pid) for name, pid in processes.items()}
    return {
        "cpu_s": round(sum(cpu_s.values()), 2),
        "rss_mib": round(sum(one["rss_mib"] for one in memory.values()), 1),
        "pss_mib": round(sum(one["pss_mib"] for one in memory.values()), 1),
        "cpu_s_by_process": cpu_s,
        "pss_mib_by_process": {name: round(one["pss_mib"], 1) for name, one in memory.items()},
    }


def cpu_percent(pid: int, duration_s: float) -> float:
    """Share of one core a process uses over `duration_s`, in percent."""
    began, used = time.monotonic(), cpu_seconds(pid)
    time.sleep(duration_s)
    return 100 * (cpu_seconds(pid) - used) / (time.monotonic() - began)


def machine_facts(directory: Path) -> dict[str, Any]:
    """What a reader needs to compare figures: processor, memory, kernel, file system of the data."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.processor(),
    )
    mounts = [part for part in psutil.disk_partitions(all=True) if directory.is_relative_to(part.mountpoint)]
    mount = max(mounts, key=lambda part: len(part.mountpoint))
    return {
        "cpu_model": model,
        "cpu_count": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "kernel": platform.release(),
        "file_system": mount.fstype,
    }


def versions() -> dict[str, str]:
    """Versions of everything that takes part."""
    java = subprocess.run([java_executable(), "-version"], capture_output=True, text=True, check=True).stderr
    kafka = next(iter((JARS / "kafka").glob("kafka-clients-*.jar"))).stem.removeprefix("kafka-clients-")
    return {
        "kafka": kafka,
        "librdkafka": confluent_kafka.libversion()[0],
        "python": platform.python_version(),
        "java": java.splitlines()[0],
    }


def hadoop_versions() -> dict[str, str]:
    """As `versions`, of a bench of HDFS clients alone."""
    hadoop = next(iter((JARS / "hadoop").glob("hadoop-hdfs-client-*.jar"))).stem.removeprefix("hadoop-hdfs-client-")
    known = {name: value for name, value in versions().items() if name in ("python", "java")}
    return {**known, "hadoop": hadoop}
