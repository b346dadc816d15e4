"""The copiers: processes that are killed, started again, and asked what came of it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from testing.java import compile_program, program_command
from testing.processes import ManagedProcess

PROGRAMS: Final = Path(__file__).resolve().parents[2] / "support" / "java_programs"
TIMEOUT_MS: Final = 30_000
"""Of a transaction: longer than any failover, shorter than the patience of those who wait for its end."""
STOP_WAIT_S: Final = 60.0
LIBRDKAFKA: Final = "librdkafka"
JAVA: Final = "java"
# Of each client one that keeps its partitions while it is started again, and one that does not.
COPIERS: Final = ((LIBRDKAFKA, True), (LIBRDKAFKA, False), (JAVA, True), (JAVA, False))
# How a copier is a member in its first life, in its second, and so on, round and round. With both, copiers of odd numbers
# begin with the second.
PROTOCOLS: Final = {"classic": ("classic",), "consumer": ("consumer",), "both": ("consumer", "classic")}


class Said(NamedTuple):
    """A line of a copier. `at_s`: wall time."""

    at_s: float
    word: str
    more: str


class Copier:
    """`start` it in the main thread, with which it dies."""

    def __init__(
        self,
        number: int,
        client: str,
        instance: str,
        bootstrap: str,
        topics: tuple[str, str],
        group: str,
        protocol: str,
        directory: Path,
    ) -> None:
        """`protocol`: of PROTOCOLS."""
        self.name = f"copier-{number}-{client}"
        self._lives = 0
        self.client = client
        self.transactional_id = f"{group}-{number}"
        self.kills = 0
        self.is_expected = False
        protocols = PROTOCOLS[protocol]
        first = number % len(protocols)

        def command(protocol: str) -> list[str]:
            arguments = (bootstrap, *topics, group, self.transactional_id, instance, protocol, str(TIMEOUT_MS))
            if client == JAVA:
                return program_command("Copier", "kafka", directory / "classes", arguments)
            return [sys.executable, "-m", "tests.soak.etl.copier", *arguments]

        self._commands = [command(each) for each in (*protocols[first:], *protocols[:first])]
        self.process = ManagedProcess(self.name, self._commands[0], directory / f"{self.name}.log")

    def start(self) -> None:
        self.process.arguments = self._commands[self._lives % len(self._commands)]
        self._lives += 1
        self.process.start()
        self.is_expected = True

    def kill(self) -> None:
        self.is_expected = False
        self.process.kill()
        self.kills += 1

    def stop(self) -> int:
        """After the present transaction. Raises ProcessFailed."""
        self.is_expected = False
        return self.process.stop(STOP_WAIT_S)

    def said(self) -> Iterator[Said]:
        """Everything, over all its lives."""
        for line in self.process.log_file.read_text(errors="replace").splitlines():
            time_ms, _, rest = line.partition(" ")
            if time_ms.isdecimal():
                word, _, more = rest.partition(" ")
                yield Said(int(time_ms) / 1000, word, more)


def hire(bootstrap: str, topics: tuple[str, str], group: str, protocol: str, directory: Path) -> Sequence[Copier]:
    """Two by each client, not started; compiles what is to be. Raises ProcessFailed."""
    directory.mkdir(parents=True, exist_ok=True)
    compile_program(PROGRAMS / "Copier.java", "kafka", directory / "classes")
    return [
        Copier(
            number,
            client,
            f"{group}-static-{number}" if is_static else "-",
            bootstrap,
            topics,
            group,
            protocol,
            directory,
        )
        for number, (client, is_static) in enumerate(COPIERS)
    ]


@dataclass(slots=True)
class Work:
    """What copiers said. `longest_s`: of one transaction, by client. `gap_s`: in which none of them committed anything."""

    words: Counter[str] = field(default_factory=Counter)
    records: int = 0
    longest_s: dict[str, float] = field(default_factory=dict)
    gap_s: float = 0.0
    fatal: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)


def work_of(copiers: Sequence[Copier]) -> Work:
    work = Work()
    commits_s: list[float] = []
    for copier in copiers:
        for said in copier.said():
            work.words[said.word] += 1
            if said.word in ("committed", "aborted", "refused"):
                records, took_ms, *why = said.more.split(" ", 2)
                longest_s = max(work.longest_s.get(copier.client, 0.0), int(took_ms) / 1000)
                work.longest_s[copier.client] = longest_s
                if said.word == "committed":
                    work.records += int(records)
                    commits_s.append(said.at_s)
                elif said.word == "refused":
                    work.refused[f"{copier.client}: {' '.join(why)[:160]}"] += 1
            elif said.word == "fatal":
                work.fatal.append(f"{copier.name} at {said.at_s:.3f}: {said.more}")
    commits_s.sort()
    work.gap_s = max((after - before for before, after in pairwise(commits_s)), default=0.0)
    return work
