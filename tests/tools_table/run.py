"""Plays every case on both servers, at the same time, and compares what the tools print."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from testing.processes import REPOSITORY, ProcessFailed
from testing.servers import BmqServer, KafkaServer, Server
from tests.conformance.world import SetupFailed
from tests.support.tool_runner import ToolRunner
from tests.tools_table.case import Case, Step
from tests.tools_table.compare import ComparedStep, compared
from tests.tools_table.tools import TOOLS, options_of
from tests.tools_table.world import World

DATA: Final = REPOSITORY / ".cache" / "tools-table"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case, played on both."""

    tool: str
    case: str
    steps: Sequence[ComparedStep]


@contextmanager
def both_servers(directory: Path = DATA) -> Iterator[tuple[World, World, ToolRunner]]:
    """bmq's and Kafka's worlds, on new directories, and the JVM of the tools; all are gone afterwards."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    servers: list[Server] = [BmqServer(directory / "bmq"), KafkaServer(directory / "kafka")]
    worlds: list[World] = []
    with ToolRunner(directory / "runner") as runner:
        try:
            for server in servers:
                server.execute()
            for server in servers:
                server.wait_until_ready()
            worlds = [World(server, runner, directory / f"{server.name}-files") for server in servers]
            for world in worlds:
                world.start()
            yield worlds[0], worlds[1], runner
        finally:
            for world in worlds:
                world.close()
            for server in servers:
                server.close()


def options_by_tool(runner: ToolRunner, tools: Sequence[str]) -> dict[str, list[str]]:
    """From each tool's own --help, and its subcommands'."""
    found: dict[str, list[str]] = {}
    for name in tools:
        tool = TOOLS[name]
        found[name] = options_of(runner.run(tool.main, ["--help"]).text)
        for subcommand in tool.subcommands:
            arguments = [subcommand, "--help"]
            if not tool.is_bootstrap_last:
                arguments = [tool.bootstrap, "none:1", *arguments]
            found[name].append(subcommand)
            options = options_of(runner.run(tool.main, arguments).text)
            found[name] += [f"{subcommand} {option}" for option in options if option != "--help"]
    return found


def compare_all(
    bmq: World, kafka: World, cases: Sequence[Case], tell: Callable[[str], None] = lambda _: None
) -> list[Outcome]:
    """In the order of the cases; `tell` hears of each."""
    outcomes = []
    with ThreadPoolExecutor(2) as pool:
        for case in cases:
            began = time.monotonic()
            ours, theirs = [one.result() for one in [pool.submit(steps_of, world, case) for world in (bmq, kafka)]]
            outcomes.append(Outcome(case.tool, case.name, compared(ours, theirs)))
            tell(f"{case.tool}: {case.name}: {len(ours)} steps, {time.monotonic() - began:.1f} s")
    return outcomes


def steps_of(world: World, case: Case) -> Sequence[Step]:
    """What could not be set up is a step of its own, which no other side can agree with."""
    world.begin(case)
    try:
        case.play(world)
    except (SetupFailed, ProcessFailed, LookupError, ValueError, TypeError, OSError) as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        world.steps.append(Step("setting up", frozenset(), [f"{world.side}: {why}"]))
    return world.steps
