"""Kafka Streams with exactly_once_v2: a word count with a repartition topic and a changelog, killed and started again."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.e2e.conftest import TopicMaker, unique_name
from tests.support.java import compile_program, program_command
from tests.support.processes import ManagedProcess, eventually
from tests.support.servers import Server
from tests.support.topic_contents import records_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

JARS = "kafka-streams"
PROGRAMS = Path(__file__).parent.parent / "support" / "java_programs"
PARTITIONS = 2
WORDS = ("lorem", "ipsum", "dolor", "sit", "amet")
LINES_PER_LIFE = 100
LIVES = 3


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("classes")
    compile_program(PROGRAMS / "WordCount.java", JARS, target)
    return target


class WordCount:
    """The application's process, which can be killed and started again on its state directory."""

    def __init__(self, server: Server, classes: Path, source: str, target: str, protocol: str, state: Path) -> None:
        arguments = [server.bootstrap, unique_name("count"), source, target, protocol, str(state)]
        command = program_command("WordCount", JARS, classes, arguments)
        self.process = ManagedProcess("word-count", command, state.with_name(f"{state.name}.log"))

    def start(self) -> None:
        self.process.start()


@pytest.fixture(params=["classic", "streams"])
def word_count(
    request: pytest.FixtureRequest, server: Server, make_topic: TopicMaker, classes: Path, tmp_path: Path
) -> Iterator[tuple[WordCount, str, str]]:
    source, target = make_topic(partitions=PARTITIONS), make_topic(partitions=PARTITIONS)
    application = WordCount(server, classes, source, target, request.param, tmp_path / "state")
    yield application, source, target
    if application.process.is_running:
        application.process.kill()


def counts_of(server: Server, topic: str) -> dict[str, list[int]]:
    """Of every word the counts that are committed by now, in order."""
    counts: dict[str, list[int]] = defaultdict(list)
    for records in records_of(server.bootstrap, topic, PARTITIONS).values():
        for record in records:
            assert record.key is not None
            counts[record.key.decode()].append(int(record.value))
    return counts


def test_every_word_counts_exactly_once_over_kills(server: Server, word_count: tuple[WordCount, str, str]) -> None:
    application, source, target = word_count
    producer = Producer({"bootstrap.servers": server.bootstrap})
    expected: Counter[str] = Counter()

    def write(life: int) -> None:
        for number in range(LINES_PER_LIFE):
            words = [WORDS[(number + step * life) % len(WORDS)] for step in range(4)]
            expected.update(words)
            producer.produce(source, " ".join(words), partition=number % PARTITIONS)
            producer.poll(0)
        assert producer.flush(20) == 0

    for life in range(LIVES):
        application.start()
        write(life)
        if life < LIVES - 1:
            # Killed in the middle of its work, once some of this life's is committed.
            least = sum(expected.values()) - 4 * LINES_PER_LIFE
            eventually(
                lambda least=least: sum(map(len, counts_of(server, target).values())) > least,  # type: ignore[misc]
                60,
                "something was counted",
            )
            application.process.kill()
    eventually(
        lambda: sum(map(len, counts_of(server, target).values())) >= sum(expected.values()), 90, "all is counted"
    )
    counts = counts_of(server, target)
    assert {word: list(range(1, count + 1)) for word, count in expected.items()} == counts
