"""One node of either side, with what share groups need, and a topic that has been filled."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.cluster.admin import (
    AdminFailed,
    call_any,
    create_topic,
    create_topics_request,
    metadata_request,
    wait_for_leaders,
)
from bench.criteria import BMQ, KAFKA
from bench.groups.target import Target
from bench.loads.client import Client
from bench.logged_errors import with_logged_errors
from bench.workloads import LoadFailed
from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.create_topics_request import CreateTopicsRequest
from testing.servers import BmqServer, KafkaServer, Server

FILL_S: Final = 120.0
ONE_CONFIGS: Final = {"max.connections.per.ip": str(2**31 - 1)}


def _bmq(directory: Path, configs: Mapping[str, str]) -> Server:
    return BmqServer(directory, {"BMQ_KAFKA": json.dumps({**ONE_CONFIGS, **configs})})


def _kafka(directory: Path, configs: Mapping[str, str]) -> Server:
    return KafkaServer(directory, configs)


MAKERS: Final[Mapping[str, Callable[[Path, Mapping[str, str]], Server]]] = {BMQ: _bmq, KAFKA: _kafka}


@contextmanager
def one_node(name: str, directory: Path, configs: Mapping[str, str] | None = None) -> Iterator[Target]:
    """A node of either side on a new directory, gone afterwards. `configs`: by Kafka's names."""
    place = directory / name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    server = MAKERS[name](place / "node", configs or {})
    try:
        with with_logged_errors([server.log_file]):
            server.start()
            yield Target(name, [server.bootstrap], {name: server.pid}, 1)
    finally:
        server.close()
        shutil.rmtree(place, ignore_errors=True)


def node_ids(addresses: Sequence[str]) -> list[int]:
    """Of the nodes at these addresses, in their order. Raises AdminFailed."""
    brokers = call_any(addresses, ApiKey.METADATA, metadata_request([])).brokers
    by_address = {f"{one.host}:{one.port}": one.node_id for one in brokers}
    missing = [address for address in addresses if address not in by_address]
    if missing:
        raise AdminFailed(f"no node says that it is at {', '.join(missing)}")
    return [by_address[address] for address in addresses]


def topic_of(target: Target, topic: str, partitions: int) -> CreateTopicsRequest:
    """A topic wherever the servers put its partitions."""
    return create_topics_request(topic, partitions, target.replication)


def filled(
    target: Target,
    client: Client,
    request: CreateTopicsRequest,
    records: int,
    record_bytes: int,
    properties: Mapping[str, str] | None = None,
) -> None:
    """Make the topic and produce so many records to partitions at random; `properties`: of librdkafka.

    Raises LoadFailed, AdminFailed.
    """
    (topic,) = request.topics
    partitions = len(topic.assignments) or topic.num_partitions
    create_topic(target.addresses, request)
    wait_for_leaders(target.addresses, topic.name, partitions)
    produced(client, target.bootstrap, topic.name, partitions, records, record_bytes, properties)


def produced(
    client: Client,
    bootstrap: str,
    topic: str,
    partitions: int,
    records: int,
    record_bytes: int,
    properties: Mapping[str, str] | None = None,
) -> None:
    """So many records, at random partitions. Raises LoadFailed."""
    done = client.produce(
        bootstrap,
        [],
        topic,
        partitions,
        record_bytes=record_bytes,
        warm_s=0,
        seconds=FILL_S,
        records_max=records,
        properties=properties,
    )
    if done["acknowledged"]["count"] < records:
        raise LoadFailed(f"{done['acknowledged']['count']} of {records} records were produced in {FILL_S:g} s")
