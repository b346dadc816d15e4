"""Kafka Streams with exactly_once_v2: a word count with a repartition topic and a changelog, killed and started again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.processes import eventually
from testing.servers import Server
from tests.e2e.conftest import TopicMaker
from tests.support.word_count import PROTOCOLS, WORDS_PER_LINE, WordCount, compile_word_count

pytestmark = [pytest.mark.campaign("kafka"), pytest.mark.timeout(480), pytest.mark.safety]

PARTITIONS = 2
LINES_PER_LIFE = 100
LIVES = 3
# The partitions of a member that was killed are given to the next one when its session is over, after 45 s.
COUNTED_WAIT_S = 150.0
ALL_COUNTED_WAIT_S = 180.0


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_word_count(tmp_path_factory.mktemp("classes"))


@pytest.fixture(params=PROTOCOLS)
def word_count(
    request: pytest.FixtureRequest, server: Server, make_topic: TopicMaker, classes: Path, tmp_path: Path
) -> Iterator[WordCount]:
    source, target = make_topic(partitions=PARTITIONS), make_topic(partitions=PARTITIONS)
    application = WordCount(server.bootstrap, classes, source, target, PARTITIONS, request.param, tmp_path / "state")
    yield application
    if application.process.is_running:
        application.process.kill()


def test_every_word_counts_exactly_once_over_kills(word_count: WordCount) -> None:
    for life in range(LIVES):
        word_count.start()
        word_count.write(LINES_PER_LIFE)
        if life < LIVES - 1:
            # Killed in the middle of its work, once some of this life's is committed.
            least = sum(word_count.expected.values()) - WORDS_PER_LINE * LINES_PER_LIFE
            eventually(
                lambda least=least: word_count.counted() > least,  # type: ignore[misc]
                COUNTED_WAIT_S,
                "something was counted",
            )
            word_count.process.kill()
    eventually(lambda: word_count.counted() >= sum(word_count.expected.values()), ALL_COUNTED_WAIT_S, "all is counted")
    word_count.assert_exact()
