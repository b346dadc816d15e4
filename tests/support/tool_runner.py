"""The JVM in which the tools run, one thread for each run: tests/support/java_programs/ToolRunner.java."""

from __future__ import annotations

import atexit
import itertools
import json
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from testing.java import ToolResult, class_path, compile_program, java_executable
from testing.processes import REPOSITORY, ProcessFailed, dying_with_us

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


_shared: list[ToolRunner] = []
_starting = threading.Lock()


def run_tool(main: str, *arguments: str, stdin: str = "", timeout_s: float = 60, check: bool = True) -> ToolResult:
    """As testing.java's, in a JVM that this process shares among its tools: 0.03 s of a processor in place of 2.

    Raises ProcessFailed when it takes too long or, with `check`, ends with an error.
    """
    result = _runner().run(main, arguments, stdin, int(timeout_s))
    what = f"{main.rpartition('.')[2]} {' '.join(arguments)}"
    if result.code == INTERRUPTED:
        raise ProcessFailed(f"{what} ran longer than {timeout_s} s\n{result.text}")
    if check and result.code != 0:
        raise ProcessFailed(f"{what} ended with {result.code}\n{result.text}")
    return result


def _runner() -> ToolRunner:
    """The first call starts it; it ends with this process."""
    with _starting:
        if not _shared:
            directory = tempfile.TemporaryDirectory(prefix="bmq-tool-runner-")
            atexit.register(directory.cleanup)
            runner = ToolRunner(Path(directory.name))
            runner.__enter__()
            atexit.register(runner.__exit__)
            _shared.append(runner)
        return _shared[0]
