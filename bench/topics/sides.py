"""The two servers that a topic lives on here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

from bench.topics.tuning import CHECK_INTERVAL_MS, DELETE_DELAY_MS
from testing.compaction import Progress, bmq_progress, kafka_progress
from testing.servers import BmqServer, KafkaServer, Server

CALL_S: Final = 60.0


@dataclass(slots=True)
class Side:
    server: Server
    compacted: Progress
    known: dict[str, UUID]

    @property
    def name(self) -> str:
        return self.server.name

    @property
    def bootstrap(self) -> str:
        return self.server.bootstrap

    @property
    def processes(self) -> Mapping[str, int]:
        return {self.server.name: self.server.pid}

    def start(self) -> None:
        self.server.start()

    def close(self) -> None:
        self.server.close()


def bmq_side(directory: Path) -> Side:
    known: dict[str, UUID] = {}
    server = BmqServer(directory, {"BMQ_BROKER__COMPACTION_CHECK_INTERVAL_MS": str(CHECK_INTERVAL_MS)})
    return Side(server, bmq_progress(directory, known), known)


def kafka_side(directory: Path) -> Side:
    properties = {
        "log.cleaner.backoff.ms": str(CHECK_INTERVAL_MS),
        "log.segment.delete.delay.ms": str(DELETE_DELAY_MS),
    }
    server = KafkaServer(directory, properties)
    return Side(server, kafka_progress(directory), {})


MAKERS: Final[Mapping[str, Callable[[Path], Side]]] = {"bmq": bmq_side, "kafka": kafka_side}
