"""Apache Kafka's own tests, as its test jars publish them, against servers of ours: support/java_programs/KafkaSuite.java."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bmq.metadata.broker_configs import BROKER_CONFIGS
from testing.java import class_path, compile_program, program_command
from testing.processes import REPOSITORY, ProcessFailed, dying_with_us
from testing.servers import BmqServer

PROGRAM: Final = REPOSITORY / "tests" / "support" / "java_programs" / "KafkaSuite.java"
JARS: Final = "kafka-tests"
PASSED_ON: Final = sorted(
    name for name in BROKER_CONFIGS if name.startswith("group.") or name == "offsets.topic.num.partitions"
)
"""Server properties of a test's annotations that its server gets."""
SERVICE: Final = "META-INF/services/org.junit.jupiter.api.extension.Extension"
PASS, FAIL, NOT_APPLICABLE = "pass", "fail", "not applicable"


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """How one variant of a test ended. `reason`: the exception's text; empty when it passed."""

    test: str
    outcome: str
    reason: str


class KafkaSuite:
    """Each test has a server on a new directory. `more_jars`: of tests that are in none of the fetched jars."""

    def __init__(
        self, directory: Path, more_jars: Sequence[str] = (), environment: dict[str, str] | None = None
    ) -> None:
        self._directory = directory
        self._more_jars = more_jars
        self._environment = environment or {}
        self._server: BmqServer | None = None
        self._servers = 0

    def run(self, *tests: str, on_stop: Callable[[BmqServer], None] = lambda _: None) -> list[SuiteResult]:
        """Classes, or methods as CLASS#METHOD. `on_stop` sees each server when its test is over.

        Raises ProcessFailed when the program does not end well.
        """
        command = self._command(tests)
        results: list[SuiteResult] = []
        log_file = self._directory / "suite.log"
        with log_file.open("wb") as log:
            process = subprocess.Popen(
                dying_with_us(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
            assert process.stdin is not None and process.stdout is not None
            try:
                for line in process.stdout:
                    event = json.loads(line)
                    if event["event"] == "start":
                        process.stdin.write(json.dumps({"bootstrap": self._start(event)}) + "\n")
                        process.stdin.flush()
                    elif event["event"] == "stop":
                        self._stop(on_stop)
                    else:
                        results.append(SuiteResult(event["test"], event["outcome"], event["reason"]))
                code = process.wait()
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
                process.stdin.close()
                process.stdout.close()
                if self._server is not None:
                    self._server.close()
        if code or not results:
            raise ProcessFailed(f"the suite ended with {code}\n{log_file.read_text()[-8_000:]}")
        return results

    def _command(self, tests: Sequence[str]) -> list[str]:
        classes = self._directory / "classes"
        service = classes / SERVICE
        service.parent.mkdir(parents=True)
        compile_program(PROGRAM, JARS, classes)
        service.write_text("KafkaSuite$Clusters\n")
        command = program_command("KafkaSuite", JARS, classes, [",".join(PASSED_ON), *tests])
        if self._more_jars:
            place = command.index("-cp") + 1
            command[place] = ":".join([str(classes), *self._more_jars, class_path(JARS)])
        return command

    def _start(self, event: Any) -> str:
        self._servers += 1
        environment = {**self._environment, "BMQ_KAFKA": json.dumps(event["properties"])}
        self._server = BmqServer(self._directory / f"server-{self._servers}", environment)
        self._server.start()
        return self._server.bootstrap

    def _stop(self, on_stop: Callable[[BmqServer], None]) -> None:
        server, self._server = self._server, None
        assert server is not None
        server.close()
        on_stop(server)
