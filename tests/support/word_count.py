"""The word count of Kafka Streams (support/java_programs/WordCount.java) as a process that is killed and started again."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from testing.java import compile_program, program_command
from testing.processes import ManagedProcess
from testing.topic_contents import records_of
from tests.e2e.conftest import unique_name

PROTOCOLS: Final = ("classic", "streams")
WORDS: Final = ("lorem", "ipsum", "dolor", "sit", "amet")
WORDS_PER_LINE: Final = 4
JARS: Final = "kafka-streams"
PROGRAMS: Final = Path(__file__).parent / "java_programs"


def compile_word_count(target: Path) -> Path:
    compile_program(PROGRAMS / "WordCount.java", JARS, target)
    return target


class WordCount:
    """`state`: the application's directory, which stays when it is killed. `expected`: of every word that was written."""

    def __init__(
        self, bootstrap: str, classes: Path, source: str, target: str, partitions: int, protocol: str, state: Path
    ) -> None:
        self.application_id = unique_name("count")
        arguments = [bootstrap, self.application_id, source, target, protocol, str(state)]
        command = program_command("WordCount", JARS, classes, arguments)
        self.process = ManagedProcess("word-count", command, state.with_name(f"{state.name}.log"))
        self.expected: Counter[str] = Counter()
        self._bootstrap = bootstrap
        self.source = source
        self._target = target
        self._partitions = partitions
        self._lines = 0
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})

    def start(self) -> None:
        self.process.start()

    def write(self, lines: int) -> None:
        """Return once they are acknowledged. Raises AssertionError."""
        for number in range(self._lines, self._lines + lines):
            words = [WORDS[(number + step * (1 + number // lines)) % len(WORDS)] for step in range(WORDS_PER_LINE)]
            self.expected.update(words)
            self._producer.produce(self.source, " ".join(words), partition=number % self._partitions)
            self._producer.poll(0)
        self._lines += lines
        assert self._producer.flush(60) == 0

    def counts(self) -> dict[str, list[int]]:
        """Of every word the counts that are committed by now, in order."""
        counts: dict[str, list[int]] = defaultdict(list)
        for records in records_of(self._bootstrap, self._target, self._partitions).values():
            for record in records:
                assert record.key is not None
                counts[record.key.decode()].append(int(record.value))
        return counts

    def counted(self) -> int:
        return sum(map(len, self.counts().values()))

    def assert_exact(self) -> None:
        """Every word was counted once each time, in order."""
        assert {word: list(range(1, count + 1)) for word, count in self.expected.items()} == self.counts()
