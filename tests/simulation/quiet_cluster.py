"""A cluster on virtual time where nothing goes wrong by itself: a test makes its one fault, and measures what follows.

The store answers as a real HDFS does, some milliseconds a call. Unlike the histories of a seed (cluster.py) there is no
chaos, and nothing is balanced.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from bmq.admin.operations import Operations
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.messages import create_topics_request, produce_request
from bmq.server.node import NodeServer
from bmq.server.node_dependencies import NodeHooks
from bmq.server.settings import load_settings
from tests.fakes.election import FakeElectionService
from tests.fakes.store import FakeStore, Faults
from tests.simulation.clients import Client, Unhappy, expect
from tests.simulation.clock import SimulatedClock
from tests.simulation.cluster_kind import ALL_ROLES
from tests.simulation.cluster_node import NodeProcess
from tests.simulation.loop import VirtualTimeLoop
from tests.simulation.network import Network
from tests.simulation.process import Process

CALL_S: Final = (0.002, 0.003)
"""One way: a call takes some 5 ms."""
APPEND_S: Final = (0.0005, 0.001)
TIME_LIMIT_S: Final = 120.0
_LOOK_S: Final = 0.05


class QuietCluster:
    """`nodes`: the newest incarnation of each. `operations`: of each process, by its node's id; without a driver. `settings`:
    in addition to the test's own, of every node.
    """

    def __init__(self, loop: VirtualTimeLoop, node_count: int = 3, settings: Mapping[str, Any] | None = None) -> None:
        self.loop = loop
        self.network = Network(loop, random.Random("network"))
        self.store = FakeStore(random.Random("store"), Faults(request_s=CALL_S, append_s=APPEND_S))
        self.elections = FakeElectionService(loop, random.Random("elections"), session_timeout_s=2.0)
        self.nodes: dict[int, NodeProcess] = {}
        self.operations: dict[int, Operations] = {}
        self._numbers: dict[int, int] = {}
        self._clients: list[Client] = []
        self._settings = dict(settings or {})
        self._ids = range(1, node_count + 1)

    async def start(self) -> None:
        """All nodes; returns when they serve."""
        for node_id in self._ids:
            self.start_node(node_id)
        await self.until(lambda: all(node.address is not None for node in self.nodes.values()))

    def start_node(self, node_id: int) -> NodeProcess:
        number = self._numbers[node_id] = self._numbers.get(node_id, -1) + 1
        host = f"node-{node_id}-{number}"
        process = Process(self.loop, host)
        client, election = self.store.client(host), self.elections.session(node_id)
        process.on_kill(client.kill)
        process.on_kill(election.kill)
        node = self.nodes[node_id] = NodeProcess(node_id, process, client, election)
        process.spawn(self._serve(node))
        return node

    async def _serve(self, node: NodeProcess) -> None:
        host, clock = node.process.host, SimulatedClock(self.loop)
        operations = self.operations[node.node_id] = Operations(
            lambda: None if node.server is None else node.server.controller, None, clock, random.Random(f"tasks {host}")
        )
        given = {
            "node_id": node.node_id,
            "roles": ALL_ROLES,
            "listen": f"{host}:9092",
            "internal": f"{host}:9093",
            "internode_security": {"mode": "plaintext"},
            "store": "hdfs://simulated:1/",
            "zookeeper": "simulated:1",
            **self._settings,
        }
        node.server = NodeServer(
            load_settings(given, None).settings,
            node.client,
            node.election,
            clock,
            random.Random(host),
            rest=(host, 8080),
            hooks=NodeHooks(
                run_aside=_at_once,
                controller_config=lambda config: replace(config, balancer_enabled=False),
                on_controller_started=operations.controller_gained,
                on_controller_ended=operations.controller_lost,
            ),
        )
        node.address, _ = await node.server.start()

    async def stop(self, node: NodeProcess) -> float:
        """Stop the node in order; how long it took, in seconds."""
        assert node.server is not None
        began_s = self.loop.time()
        await node.process.spawn(node.server.stop())
        took_s = self.loop.time() - began_s
        node.process.kill()
        return took_s

    # --- looking inside

    @property
    def controller(self) -> NodeProcess:
        """The node whose controller is active."""
        return next(node for node in self.nodes.values() if node.is_controller)

    def owned_count(self, node: NodeProcess, topic: str) -> int:
        """How many of the topic's partitions the node has started and owns."""
        roles = node.roles
        assert roles is not None
        return sum(runtime.topic_name == topic for runtime in roles.manager.owned())

    async def until(self, is_done: Callable[[], bool]) -> None:
        """Until it holds; the loop's time limit ends what never does."""
        while not is_done():  # noqa: ASYNC110 nothing tells of it
            await asyncio.sleep(_LOOK_S)

    # --- clients

    def client(self, name: str, *node_ids: int) -> Client:
        """One that talks to these nodes, or to any: the first that lives."""

        def where() -> tuple[str, int] | None:
            for node_id in node_ids or self._ids:
                node = self.nodes[node_id]
                if node.process.is_alive and node.address is not None:
                    return node.address
            return None

        client = Client(name, where, random.Random(name))
        self._clients.append(client)
        return client

    def disconnect(self) -> None:
        """End the connections of all clients."""
        for client in self._clients:
            client.disconnect()


async def create_topic_at(client: Client, topic: str, partitions: int, owner: int) -> None:
    """All partitions belong to this node."""
    assignments = [
        create_topics_request.CreatableReplicaAssignment(partition_index=number, broker_ids=[owner])
        for number in range(partitions)
    ]
    creatable = create_topics_request.CreatableTopic(
        name=topic, num_partitions=-1, replication_factor=-1, assignments=assignments
    )
    request = create_topics_request.CreateTopicsRequest(topics=[creatable], timeout_ms=10_000)
    answer = await client.request(ApiKey.CREATE_TOPICS, 5, request)
    expect(answer.topics[0].error_code)


async def produce(client: Client, topic: str, partitions: range, *, timeout_ms: int = 30_000) -> None:
    """One record to each of these partitions, in one request, until all are taken."""
    left = list(partitions)

    async def attempt() -> None:
        batch = bytes(encode_batch([Record(None, b"x", timestamp_ms=1)]))
        data = [produce_request.PartitionProduceData(index=partition, records=batch) for partition in left]
        topic_data = [produce_request.TopicProduceData(name=topic, partition_data=data)]
        request = produce_request.ProduceRequest(acks=-1, timeout_ms=timeout_ms, topic_data=topic_data)
        answer = await client.request(ApiKey.PRODUCE, 9, request)
        codes = {one.index: one.error_code for one in answer.responses[0].partition_responses}
        left[:] = [partition for partition in left if codes[partition]]
        for partition in left:
            expect(codes[partition])
        if left:
            raise Unhappy

    await client.until_done(attempt)


@contextmanager
def quiet_cluster(node_count: int = 3, settings: Mapping[str, Any] | None = None) -> Iterator[QuietCluster]:
    """A cluster on a loop of its own."""
    loop = VirtualTimeLoop(time_limit_s=TIME_LIMIT_S)
    cluster = QuietCluster(loop, node_count, settings)
    try:
        yield cluster
    finally:
        cluster.disconnect()
        loop.discard()


async def _at_once(work: Callable[[], Any]) -> Any:
    """On virtual time there are no threads."""
    return work()
