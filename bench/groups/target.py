"""What transactions and groups are measured on: one node of either side, or three."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.cluster.admin import (
    GROUP_KEY,
    TRANSACTION_KEY,
    coordinator_of,
    create_topic,
    create_topics_request,
    leaders,
    wait_for_leaders,
)
from bench.cluster.many import OFFSETS_TOPIC, insist
from bench.cluster.stage import Stage
from bench.criteria import BMQ, KAFKA
from testing.servers import BmqServer, KafkaServer, Server

TRANSACTIONS_TOPIC: Final = "__transaction_state"
STATE_TOPICS: Final = {GROUP_KEY: OFFSETS_TOPIC, TRANSACTION_KEY: TRANSACTIONS_TOPIC}
MAKERS: Final[Mapping[str, Callable[[Path], Server]]] = {BMQ: BmqServer, KAFKA: KafkaServer}
REPLICATION: Final = 3


@dataclass(frozen=True, slots=True)
class Target:
    """`processes`: ids, by name, of all that serve, the storage's too. `replication`: of topics."""

    name: str
    addresses: Sequence[str]
    processes: Mapping[str, int]
    replication: int

    @property
    def bootstrap(self) -> str:
        return ",".join(self.addresses)

    @property
    def pids(self) -> Sequence[int]:
        return tuple(self.processes.values())

    def make_topic(self, topic: str, partitions: int) -> None:
        """Raises AdminFailed."""
        create_topic(self.addresses, create_topics_request(topic, partitions, self.replication))
        wait_for_leaders(self.addresses, topic, partitions)


Opener = Callable[[str, Stage], AbstractContextManager[Target]]


@contextmanager
def one_node(name: str, stage: Stage) -> Iterator[Target]:
    """`bmq standalone`, or one Apache Kafka node; gone afterwards."""
    stage.down()
    directory = stage.directory / "one" / name
    server = MAKERS[name](directory)
    try:
        server.start()
        yield ready(Target(name, [server.bootstrap], {name: server.pid}, 1))
    finally:
        server.close()
        shutil.rmtree(directory.parent, ignore_errors=True)


@contextmanager
def three_nodes(name: str, stage: Stage) -> Iterator[Target]:
    """Three nodes of bmq on a new HDFS, or three Apache Kafka brokers; gone afterwards."""
    stage.down()
    with stage.combined(name) as side:
        yield ready(Target(name, side.addresses, side.processes, REPLICATION))


def ready(target: Target) -> Target:
    """With coordinators: they appear some time after they are first asked for. Raises AdminFailed."""
    for key_type, topic in STATE_TOPICS.items():
        insist(lambda key_type=key_type: coordinator_of(target.addresses, "any", key_type))  # type: ignore[misc]
        wait_for_leaders(target.addresses, topic, len(leaders(target.addresses, topic)))
    return target
