"""A client under measurement: a process that stays, is told one command a line and answers each with one line of JSON."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from bench.hdfs.client import CHECKSUM_CHUNK_BYTES
from bmq.hdfs.config import Address
from testing.java import class_path, java_executable
from testing.processes import REPOSITORY, dying_with_us

READY_TIMEOUT_S: Final = 60.0
ANSWER_TIMEOUT_S: Final = 180.0
STOP_TIMEOUT_S: Final = 10.0
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
LOG_TAIL_LINES: Final = 20
# Hadoop's client under the options a server would give it.
JVM_OPTIONS: Final = ("-Xmx512M", "-server", "-XX:+UseG1GC", "-Djava.awt.headless=true")
JAVA: Final = "java"


def contender_command(
    name: str,
    namenode: Address,
    root: str,
    segment_bytes: int,
    jvm_options: Sequence[str] = JVM_OPTIONS,
    *,
    configuration: str = "",
) -> list[str]:
    """What starts a client: Hadoop's (JAVA), or one of bench.hdfs.worker, whose files lie below `root`.

    `configuration`: a directory of Hadoop's, for JAVA; the others find it by HADOOP_CONF_DIR.
    """
    if name == JAVA:
        return [
            *(java_executable(), *jvm_options, "-cp", ":".join(filter(None, (configuration, class_path("hadoop"))))),
            str(Path(__file__).with_name("Contender.java")),
            *(str(namenode), str(CHECKSUM_CHUNK_BYTES), str(segment_bytes)),
        ]
    return [sys.executable, "-m", "bench.hdfs.worker", name, str(namenode), root, str(segment_bytes)]


class ContenderFailed(Exception):
    """It answered with an error, not at all, or ended."""


class Contender:
    """One client process. Its standard error goes to `log_file`."""

    def __init__(self, name: str, process: Process, log_file: Path) -> None:
        self.name = name
        self._process = process
        self._log_file = log_file

    @classmethod
    async def start(
        cls, name: str, command: list[str], log_file: Path, environment: Mapping[str, str] | None = None
    ) -> Self:
        """`environment`: variables besides those of this process. Raises ContenderFailed when it does not get ready."""
        log_file.parent.mkdir(parents=True, exist_ok=True)
        with log_file.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *dying_with_us(command),
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                cwd=REPOSITORY,
                env={**os.environ, **(environment or {})},
                limit=ANSWER_BYTES_MAX,
            )
        contender = cls(name, process, log_file)
        try:
            await contender._answer("its start", READY_TIMEOUT_S)
        except ContenderFailed:
            await contender.kill()
            raise
        return contender

    async def ask(self, *words: str | int, timeout_s: float = ANSWER_TIMEOUT_S) -> dict[str, Any]:
        """One command. Raises ContenderFailed; after a missing answer the process cannot be used any more."""
        command = " ".join(map(str, words))
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n".encode())
        try:
            await self._process.stdin.drain()
        except ConnectionError:
            raise self._failed(f"ended before {command!r}") from None
        return await self._answer(command, timeout_s)

    async def _answer(self, command: str, timeout_s: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(timeout_s):
                line = await self._process.stdout.readline()
        except TimeoutError:
            await self.kill()
            raise self._failed(f"did not answer {command!r} within {timeout_s:g} s") from None
        if not line:
            raise self._failed(f"ended during {command!r}")
        try:
            answer: dict[str, Any] = json.loads(line)
        except json.JSONDecodeError:
            await self.kill()
            raise self._failed(f"answered {command!r} with {line!r}") from None
        if "error" in answer:
            raise ContenderFailed(f"{self.name}: {command!r} failed: {answer['error']}")
        return answer

    async def stop(self) -> None:
        """Ask it to end by closing its input; kill it when it does not."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._process.wait()
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    def _failed(self, what: str) -> ContenderFailed:
        log = self._log_file.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return ContenderFailed("\n".join([f"{self.name} {what}; the end of its log:", *log]))
