"""Parts on one stage: each under its limit, and none takes the others along."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from bench.cluster.stage import Stage
from bench.findings import Findings, say
from bench.hdfs.commands import prepare_process
from bench.measure import versions
from bench.time_limit import seconds_since, time_limit
from testing.processes import JARS, kill_everything

P = TypeVar("P")


def run_parts(
    directory: Path,
    parts: Sequence[str],
    runs: Mapping[str, Callable[[Stage, P, Findings], None]],
    limit_s: Callable[[str], float],
    plan: P,
    findings: Findings,
) -> dict[str, float]:
    """The seconds each run took. `directory` is made anew; parts with the same run are done together."""
    prepare_process()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    stage = Stage(directory)
    took: dict[str, float] = {}
    try:
        for part in parts:
            together = [name for name in parts if runs[name] is runs[part]]
            if part != together[0]:
                continue
            say(", ".join(together))
            began = time.monotonic()
            try:
                with time_limit(limit_s(part), part):
                    runs[part](stage, plan, findings)
            except Exception as error:
                for name in together:
                    findings.failed(name, f"{type(error).__name__}: {error}")
                _clean(stage)  # nobody knows what it left behind
            took[part] = seconds_since(began)
    finally:
        _clean(stage)
    return took


def _clean(stage: Stage) -> None:
    """End everything; what cannot be ended does not take the results along."""
    kill_everything()
    try:
        stage.down()
    except Exception as error:
        say(f"FAILED to clean up: {error}")


def cluster_versions() -> dict[str, str]:
    hadoop = next(iter((JARS / "hadoop").glob("hadoop-hdfs-client-*.jar"))).stem.removeprefix("hadoop-hdfs-client-")
    zookeeper = next(iter((JARS / "zookeeper").glob("zookeeper-[0-9]*.jar"))).stem.removeprefix("zookeeper-")
    return {**versions(), "hadoop": hadoop, "zookeeper": zookeeper, "kazoo": version("kazoo")}
