"""A topic of many closed segments, and its deletion."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.topics.sides import CALL_S, Side
from bmq.log.names import topic_directory
from testing.compaction import topic_ids
from testing.servers import BmqServer

ROLL_MS: Final = 1_000
ROUND_S: Final = 1.2
"""From one record of a partition to the next, which is for a new segment then."""
ROUNDS_FACTOR: Final = 4
GONE_S_MAX: Final = 120.0
_LOOK_S: Final = 0.05
_CREATE_S: Final = 120.0

Directories = Callable[[], list[Path]]
"""Those of a topic's files that are there."""


class DeletionFailed(Exception):
    """The segments were not made, or do not go."""


def fill_segments(side: Side, topic: str, partitions: int, segments: int) -> Directories:
    """Write until so many segments are closed: what rolls a segment here is time, on either side. Raises DeletionFailed."""
    admin = AdminClient({"bootstrap.servers": side.bootstrap})
    configs = {"segment.ms": str(ROLL_MS)}
    admin.create_topics([NewTopic(topic, partitions, 1, config=configs)])[topic].result(_CREATE_S)
    directories = _directories(side, topic)
    producer = Producer({"bootstrap.servers": side.bootstrap, "linger.ms": 5})
    for _ in range(ROUNDS_FACTOR * (segments // partitions + 2)):
        began = time.monotonic()
        for partition in range(partitions):
            producer.produce(topic, b"record", partition=partition)
        if producer.flush(CALL_S):
            raise DeletionFailed(f"{side.name} does not take the records of {topic}")
        time.sleep(max(0.0, began + ROUND_S - time.monotonic()))
        if closed_segments(directories(), partitions) >= segments:
            return directories
    raise DeletionFailed(f"{closed_segments(directories(), partitions)} of {segments} segments were made")


def closed_segments(directories: list[Path], partitions: int) -> int:
    """At least so many: of each partition the last one with records counts as open."""
    filled = sum(file.stat().st_size > 0 for directory in directories for file in directory.rglob("*.log"))
    return max(0, filled - partitions)


def delete(side: Side, topic: str, directories: Directories) -> float:
    """DeleteTopics; the seconds until all files are gone. Raises DeletionFailed."""
    began = time.monotonic()
    admin = AdminClient({"bootstrap.servers": side.bootstrap})  # has to live as long as its answer is waited for
    admin.delete_topics([topic])[topic].result(CALL_S)
    while directories():
        if time.monotonic() - began > GONE_S_MAX:
            raise DeletionFailed(f"files of {topic} are there {GONE_S_MAX:g} s after its deletion")
        time.sleep(_LOOK_S)
    return time.monotonic() - began


def _directories(side: Side, topic: str) -> Directories:
    directory = side.server.directory
    if isinstance(side.server, BmqServer):
        of_topic = directory / topic_directory(topic_ids(side.bootstrap, [topic])[topic])
        return lambda: [of_topic] if of_topic.exists() else []
    # Kafka renames a deleted partition's directory and keeps its name in front.
    return lambda: list((directory / "data").glob(f"{topic}*-*"))
