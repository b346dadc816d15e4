"""The JVM in which the tools run, one thread for each run: tests/support/java_programs/ToolRunner.java."""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.support.java import ToolResult, class_path, compile_program, java_executable
from tests.support.processes import REPOSITORY, ProcessFailed, dying_with_us

PROGRAM: Final = REPOSITORY / "tests" / "support" / "java_programs" / "ToolRunner.java"
LOGGING: Final = PROGRAM.with_name("tool-runner-log4j2.xml")
# The tools' own limits are far below: they wait a minute for a server at most.
ANSWER_WAIT_S: Final = 60
INTERRUPTED: Final = -1
"""The code of a run that took longer than it was given."""


class ToolRunner:
    """For any number of threads. A context: the JVM is gone afterwards."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ids = itertools.count(1)
        self._answers: dict[int, Any] = {}
        self._changed = threading.Condition()
        self._is_gone = False

    def __enter__(self) -> ToolRunner:
        classes = self._directory / "classes"
        classes.mkdir(parents=True, exist_ok=True)
        compile_program(PROGRAM, "kafka", classes)
        jars = class_path("kafka").split(":")
        (tools,) = (jar for jar in jars if Path(jar).name.startswith("kafka-tools-4"))
        command = [
            java_executable(),
            "-Xmx512M",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Djava.security.manager=allow",
            "-Duser.timezone=UTC",
            f"-Dlog4j2.configurationFile={LOGGING}",
            "-cp",
            ":".join([str(classes), *(jar for jar in jars if jar != tools)]),
            "ToolRunner",
            tools,
        ]
        self._log = (self._directory / "runner.log").open("wb")
        self._process = subprocess.Popen(
            dying_with_us(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            # Tools write files beside them when they are told no place.
            cwd=self._directory,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # what was not sent is for nobody any more
                    pipe.close()
        self._log.close()

    def run(self, main: str, arguments: Sequence[str], stdin: str = "", seconds: int = 30) -> ToolResult:
        """Raises ProcessFailed when the JVM does not say how it ended."""
        number = next(self._ids)
        order = {
            "id": number,
            "main": main,
            "arguments": list(arguments),
            "stdin": stdin,
            "seconds": seconds,
        }
        assert self._process.stdin is not None
        with self._changed:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            self._changed.wait_for(lambda: number in self._answers or self._is_gone, seconds + ANSWER_WAIT_S)
            answer = self._answers.pop(number, None)
        if answer is None or "problem" in answer:
            raise ProcessFailed(f"{main} {' '.join(arguments)}: {answer or 'no answer'}, see {self._log.name}")
        code = INTERRUPTED if answer["code"] is None else answer["code"]
        return ToolResult(code, answer["out"], answer["err"])

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            with self._changed:
                self._answers[answer["id"]] = answer
                self._changed.notify_all()
        with self._changed:
            self._is_gone = True
            self._changed.notify_all()
