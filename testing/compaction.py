"""How far logs are compacted, as bmq and Apache Kafka write it down themselves."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from uuid import UUID

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from bmq.local_store.store import LocalStore
from bmq.log.names import partition_directory
from bmq.log.partition_log import TopicPartition
from bmq.log.partition_view import view_partition
from bmq.log.store import StoreError

Progress = Callable[[Iterable[tuple[str, int]]], dict[tuple[str, int], int]]
"""Of some partitions, by topic and number, the offset below which the log is compacted; without those not known yet."""


def kafka_progress(directory: Path) -> Progress:
    """From the cleaner's checkpoint. `directory`: of a testing.servers.KafkaServer."""

    def compacted(partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        try:
            lines = (directory / "data" / "cleaner-offset-checkpoint").read_text().splitlines()[2:]
        except FileNotFoundError:
            return {}
        fields = [line.split() for line in lines]
        known = {(topic, int(partition)): int(offset) for topic, partition, offset in fields}
        return {one: known[one] for one in partitions if one in known}

    return compacted


def bmq_progress(store_directory: Path, topic_ids: Mapping[str, UUID]) -> Progress:
    """From the manifests in an embedded store. `topic_ids` may grow."""

    async def looked(partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        store = LocalStore(store_directory, is_root_locked=False)
        found: dict[tuple[str, int], int] = {}
        try:
            for topic, partition in partitions:
                directory = partition_directory(TopicPartition(topic_ids[topic], partition))
                try:
                    view = await view_partition(store, directory)
                except StoreError:
                    continue  # not written to yet, or just being written
                found[topic, partition] = 0 if view.manifest is None else view.manifest.first_dirty_offset
        finally:
            await store.close()
        return found

    return lambda partitions: asyncio.run(looked(partitions))


def topic_ids(bootstrap: str, topics: list[str], timeout_s: float = 30.0) -> dict[str, UUID]:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # has to live as long as its answers are waited for
    described = admin.describe_topics(TopicCollection(topics))
    # Kafka's text of a topic id is base64 without padding.
    return {
        name: UUID(bytes=urlsafe_b64decode(f"{future.result(timeout_s).topic_id}=="))
        for name, future in described.items()
    }
