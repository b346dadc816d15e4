"""A contender: one Spark in its own long-running process, which scans on request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import Any, Final, Self

from testing.processes import JARS, REPOSITORY, dying_with_us

SCAN_WAIT_S: Final = 600.0
STOP_WAIT_S: Final = 30.0
LOG_BYTES_MAX: Final = 2_000
SUBMIT_ARGUMENTS: Final = " ".join(
    [
        "--master local[2]",
        f"--jars {','.join(str(jar) for jar in sorted((JARS / 'spark').glob('*.jar')))}",
        "--conf spark.ui.enabled=false",
        "--conf spark.ui.showConsoleProgress=false",
        "--conf spark.driver.host=127.0.0.1",
        "--conf spark.driver.bindAddress=127.0.0.1",
        "--conf spark.sql.shuffle.partitions=2",
        "--conf spark.sql.session.timeZone=UTC",
        "pyspark-shell",
    ]
)
ENVIRONMENT: Final = {
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_SUBMIT_ARGS": SUBMIT_ARGUMENTS,
    "PYTHONPATH": str(REPOSITORY),
    "SPARK_LOCAL_IP": "127.0.0.1",
}


class ScanFailed(Exception):
    """A scan gave no figures."""


class Scanner:
    """A context manager. `source`: Spark's format name, bmq or kafka; `bootstrap`: the servers it uses."""

    def __init__(self, name: str, source: str, bootstrap: str, directory: Path) -> None:
        self.name = name
        self.source = source
        self.bootstrap = bootstrap
        self.version = ""
        self._log_file = directory / f"spark-{name}.log"
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        """Start it and wait for its session. Raises ScanFailed."""
        with self._log_file.open("a") as log:
            self._process = subprocess.Popen(
                dying_with_us([sys.executable, "-m", "bench.spark.scan_job"]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=REPOSITORY,
                env={**os.environ, **ENVIRONMENT},
            )
        try:
            self.version = self._answer()["spark"]
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Stop it; it and its JVM are gone when this returns."""
        process = self._process
        if process is None:
            return
        self._process = None
        assert process.stdin is not None
        try:
            process.stdin.close()
            process.wait(STOP_WAIT_S)
        except (OSError, subprocess.TimeoutExpired):
            process.kill()
            process.wait()

    @property
    def pid(self) -> int:
        """The driver's process; the JVM is its child, and Spark's Python workers are the JVM's."""
        assert self._process is not None, f"{self.name} does not run"
        return self._process.pid

    def scan(self, topic: str, columns: Sequence[str], options: Mapping[str, str] | None = None) -> dict[str, Any]:
        """`row`: the values of the columns (SQL); `seconds`; `heap_mib` of the JVM. Raises ScanFailed."""
        given = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": topic, **(options or {})}
        order = {"format": self.source, "options": given, "columns": list(columns)}
        assert self._process is not None and self._process.stdin is not None, f"{self.name} does not run"
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise ScanFailed(f"{self.name} is gone: {error}{self._log()}") from None
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        process = self._process
        assert process is not None and process.stdout is not None
        patience = Timer(SCAN_WAIT_S, process.kill)
        patience.start()
        try:
            # The JVM may print lines to it too.
            line = next((line for line in process.stdout if line.startswith("{")), "")
        finally:
            patience.cancel()
        if not line:
            raise ScanFailed(f"{self.name} ended, or said nothing for {SCAN_WAIT_S:g} s{self._log()}")
        answer: dict[str, Any] = json.loads(line)
        if "failure" in answer:
            raise ScanFailed(f"{self.name}: {answer['failure']}")
        return answer

    def _log(self) -> str:
        return f"\n{self._log_file.read_text()[-LOG_BYTES_MAX:]}"
