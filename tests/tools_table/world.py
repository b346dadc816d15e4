"""One of the two servers as the cases see it: tools that are run on it, and what they have printed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from testing.java import ToolResult
from testing.servers import Server
from tests.conformance.world import SetupFailed
from tests.conformance.world import World as Wire
from tests.support.tool_runner import INTERRUPTED, ToolRunner
from tests.tools_table.case import Case, Step
from tests.tools_table.output import Shown
from tests.tools_table.tools import TOOLS, Tool, used_options

UNTIL_WAIT_S: Final = 20.0
_NAMES: Final = re.compile(r"[^a-z0-9]+")


class World:
    """Not for two threads at once. `wire`: the same server for requests of ours, in setting up."""

    def __init__(self, server: Server, runner: ToolRunner, directory: Path) -> None:
        self.side = server.name
        self.server = server
        self.wire = Wire(server.name, server.port)
        self.directory = directory
        self.steps: list[Step] = []
        self._runner = runner
        self._tool = TOOLS["kafka-topics"]
        self._scope = ""
        self._literals: dict[str, str] = {}
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def bootstrap(self) -> str:
        return self.server.bootstrap

    def start(self) -> None:
        """Have it make its internal topics, and learn what it calls itself."""
        self.wire.start()
        cluster = self._runner.run(
            TOOLS["kafka-cluster"].main, ["cluster-id", "--bootstrap-server", self.bootstrap]
        ).out.split()[-1]
        self._literals = {
            str(self.directory): "DIR",
            # Kafka's directory of logs is one of its own in the server's.
            str(self.server.directory / "data"): "DATA",
            str(self.server.directory): "DATA",
            self.bootstrap: "SERVER",
            cluster: "CLUSTER",
            str(self.server.port): "PORT",
        }

    def begin(self, case: Case) -> None:
        """Names and steps are this case's from here on."""
        self._scope = _NAMES.sub("-", f"{case.tool.removeprefix('kafka-')} {case.name}".lower()).strip("-")
        self._tool = TOOLS[case.tool]
        self.steps = []
        self.wire.begin(self._scope)

    def close(self) -> None:
        self.wire.close()

    def name(self, what: str = "t") -> str:
        """The same on both servers, and of no other case."""
        return f"{self._scope}-{what}"

    def file(self, name: str, text: str) -> str:
        """The path of a new file with this in it."""
        path = self.directory / f"{self._scope}-{name}"
        path.write_text(text)
        return str(path)

    def path(self, name: str) -> str:
        return str(self.directory / f"{self._scope}-{name}")

    def impatient(self) -> tuple[str, str]:
        """For commands whose client asks again and again until its time is up."""
        return ("--command-config", self.file("impatient", "default.api.timeout.ms=4000\nrequest.timeout.ms=3000\n"))

    # -- tools ---------------------------------------------------------------------------------------------------------

    def run(
        self,
        *arguments: str,
        tool: str = "",
        stdin: str = "",
        bootstrap: bool = True,
        seconds: int = 30,
        is_unordered: bool = False,
        hidden: Sequence[str] = (),
        patterns: Sequence[tuple[str, str]] = (),
        until: Callable[[ToolResult], bool] | None = None,
        only: str = "",
    ) -> ToolResult:
        """Run the case's tool, or another, and have what it prints compared.

        `until`: run it again until this holds; what the last run printed counts. `is_unordered`: lines are compared as a
        set. `hidden`: columns that are not compared. `patterns`: what stands for a text of this step. `only`: lines
        without a match are left out.
        """
        ran = TOOLS[tool] if tool else self._tool
        ended = self._ended(ran, arguments, stdin, bootstrap, seconds, until)
        shown = Shown(self._literals, tuple(hidden), tuple(patterns))
        lines = [*shown.lines(ended.out), *(f"stderr: {line}" for line in shown.lines(ended.err))]
        if only:
            lines = [line for line in lines if re.search(only, line)]
        how = "does not end" if ended.code == INTERRUPTED else f"exit code {ended.code}"
        command = " ".join(shown.text(one) if one else '""' for one in (ran.name, *arguments))
        options = set() if tool else used_options(ran, self._arguments(ran, arguments, bootstrap))
        self.steps.append(Step(command, frozenset(options), [how, *(sorted(lines) if is_unordered else lines)]))
        return ended

    def do(
        self,
        tool: str,
        *arguments: str,
        stdin: str = "",
        seconds: int = 30,
        until: Callable[[ToolResult], bool] | None = None,
    ) -> ToolResult:
        """Run any tool to set something up. Raises SetupFailed when it does not exit with 0."""
        ended = self._ended(TOOLS[tool], arguments, stdin, True, seconds, until)
        if ended.code:
            raise SetupFailed(f"{self.side}: {tool} {' '.join(arguments)} ended with {ended.code}: {ended.text}")
        return ended

    def _ended(
        self,
        tool: Tool,
        arguments: Sequence[str],
        stdin: str,
        bootstrap: bool,
        seconds: int,
        until: Callable[[ToolResult], bool] | None,
    ) -> ToolResult:
        deadline = time.monotonic() + UNTIL_WAIT_S
        whole = self._arguments(tool, arguments, bootstrap)
        while True:
            ended = self._runner.run(tool.main, whole, stdin, seconds)
            if until is None or until(ended) or time.monotonic() > deadline:
                return ended

    def _arguments(self, tool: Tool, arguments: Sequence[str], bootstrap: bool) -> list[str]:
        named = [tool.bootstrap, self.bootstrap] if bootstrap else []
        return [*arguments, *named] if tool.is_bootstrap_last else [*named, *arguments]
