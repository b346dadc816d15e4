"""Apache Kafka as a cluster of three brokers on this machine (KRaft), each a process that can be hurt."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

from kio.schema.describe_quorum.v0.request import DescribeQuorumRequest, PartitionData, TopicData
from kio.schema.describe_quorum.v0.response import DescribeQuorumResponse
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.types import TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32

from bench.cluster.admin import AdminFailed, Connection, leaders
from bench.cluster.sides import wait_in_sync
from bmq.dev.ports import pick_ports
from testing.java import java_command
from testing.processes import ManagedProcess, ProcessFailed
from testing.servers import KAFKA_CLUSTER_ID, KAFKA_JVM_OPTIONS

HOST: Final = "127.0.0.1"
BROKERS: Final = 3
SEPARATE_CONTROLLER_ID: Final = 100
READY_WAIT_S: Final = 90.0
STOP_WAIT_S: Final = 60.0
FORMAT_WAIT_S: Final = 60.0


class KafkaNode:
    """One process; `kafka` is HOST:PORT for clients, empty for a controller."""

    def __init__(self, node_id: int, kafka: str, settings: Path, log_file: Path, wrapper: Sequence[str] = ()) -> None:
        self.node_id = node_id
        self.kafka = kafka
        command = [*wrapper, *java_command("kafka.Kafka", [str(settings)], KAFKA_JVM_OPTIONS)]
        self.process = ManagedProcess(f"kafka {node_id}", command, log_file)

    @property
    def is_running(self) -> bool:
        return self.process.is_running

    @property
    def is_paused(self) -> bool:
        return self.process.is_paused

    def execute(self) -> None:
        self.process.start()

    def wait_until_ready(self) -> None:
        self.process.wait_for_line(r"Kafka Server started", READY_WAIT_S)

    def start(self) -> None:
        self.execute()
        self.wait_until_ready()

    def kill(self) -> None:
        """kill -9, paused or not."""
        self.process.kill()

    def stop(self) -> None:
        """SIGTERM: a controlled shutdown."""
        self.process.stop(STOP_WAIT_S)

    def pause(self) -> None:
        self.process.pause()

    def resume(self) -> None:
        self.process.resume()


class KafkaCluster:
    """Brokers 1 to 3 with the defaults of Apache Kafka. `is_combined`: they are the controllers as well, else one more
    process is. `wrapper`: in front of each process's command line.
    """

    name: Final = "kafka"

    def __init__(
        self,
        directory: Path,
        *,
        is_combined: bool,
        wrapper: Sequence[str] = (),
        configs: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.is_combined = is_combined
        ids = list(range(1, BROKERS + 1))
        controllers = ids if is_combined else [SEPARATE_CONTROLLER_ID]
        ports = iter(pick_ports(HOST, len(ids) + len(controllers), Random()))
        self._controller_ports = {node_id: next(ports) for node_id in controllers}
        self._wrapper = tuple(wrapper)
        self._configs = dict(configs or {})
        self.nodes: dict[int, KafkaNode] = {}
        for node_id in dict.fromkeys((*controllers, *ids)):
            port = next(ports) if node_id in ids else None
            self.nodes[node_id] = self._node(node_id, port)

    # -- Running -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Format what is new, start everything that does not run. Raises ProcessFailed."""
        new = [node for node in self.nodes.values() if not self._data(node.node_id).exists()]
        formats = [self._format(node.node_id) for node in new]
        for format_ in formats:
            if format_.wait(FORMAT_WAIT_S) != 0:
                raise ProcessFailed(f"a directory of Apache Kafka could not be formatted{format_}")
        stopped = [node for node in self.nodes.values() if not node.is_running]
        for node in stopped:
            node.execute()
        for node in stopped:
            node.wait_until_ready()

    def close(self) -> None:
        for node in self.nodes.values():
            if node.is_running:
                node.kill()

    @property
    def addresses(self) -> list[str]:
        return [node.kafka for node in self.nodes.values() if node.kafka]

    @property
    def bootstrap(self) -> str:
        return ",".join(self.addresses)

    @property
    def processes(self) -> Mapping[str, int]:
        return {f"kafka {node.node_id}": node.process.pid for node in self.nodes.values() if node.is_running}

    @property
    def pids(self) -> Sequence[int]:
        return tuple(self.processes.values())

    @property
    def broker_ids(self) -> list[int]:
        return list(range(1, BROKERS + 1))

    # -- What it says about itself -------------------------------------------------------------------------------------

    @property
    def live_addresses(self) -> list[str]:
        return [node.kafka for node in self.nodes.values() if node.kafka and node.is_running and not node.is_paused]

    def owners(self, topic: str) -> dict[int, int]:
        """Broker by partition. Raises AdminFailed."""
        return leaders(self.live_addresses, topic)

    def active_controller(self) -> int:
        """Raises AdminFailed."""
        for address in self.live_addresses:
            try:
                with Connection(address) as connection:
                    return quorum_leader(connection)
            except OSError:
                continue
        raise AdminFailed("no broker says who is the controller")

    def wait_whole(self) -> None:
        """Return once every replica is in sync. Raises AdminFailed."""
        wait_in_sync(self.live_addresses)

    def log_files(self) -> dict[str, int]:
        """Bytes of every segment on the brokers' disks."""
        found = {}
        for node_id in self.broker_ids:
            for path in self._data(node_id).rglob("*.log"):
                with suppress(FileNotFoundError):  # it was renamed or deleted just now
                    found[str(path)] = path.stat().st_size
        return found

    # -- Parts -------------------------------------------------------------------------------------------------------

    def _data(self, node_id: int) -> Path:
        return self.directory / f"kafka-{node_id}" / "data"

    def _settings_file(self, node_id: int) -> Path:
        return self.directory / f"kafka-{node_id}" / "server.properties"

    def _log_file(self, node_id: int) -> Path:
        return self.directory / f"kafka-{node_id}.log"

    def _node(self, node_id: int, port: int | None) -> KafkaNode:
        controller_port = self._controller_ports.get(node_id)
        roles = [*(["broker"] if port else []), *(["controller"] if controller_port else [])]
        listeners = [
            *([f"PLAINTEXT://{HOST}:{port}"] if port else []),
            *([f"CONTROLLER://{HOST}:{controller_port}"] if controller_port else []),
        ]
        settings = {
            "process.roles": ",".join(roles),
            "node.id": str(node_id),
            "controller.quorum.voters": ",".join(
                f"{voter}@{HOST}:{voter_port}" for voter, voter_port in self._controller_ports.items()
            ),
            "listeners": ",".join(listeners),
            **({"advertised.listeners": listeners[0]} if port else {}),
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self._data(node_id)),
            # What Kafka's own quick start sets.
            "group.initial.rebalance.delay.ms": "0",
            **self._configs,
        }
        path = self._settings_file(node_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return KafkaNode(node_id, f"{HOST}:{port}" if port else "", path, self._log_file(node_id), self._wrapper)

    def _format(self, node_id: int) -> ManagedProcess:
        arguments = ["format", "-t", KAFKA_CLUSTER_ID, "-c", str(self._settings_file(node_id))]
        command = java_command("kafka.tools.StorageTool", arguments)
        formatting = ManagedProcess("kafka-storage", command, self._log_file(node_id))
        formatting.start()
        return formatting


def quorum_leader(connection: Connection) -> int:
    """The active controller: the leader of the metadata quorum (DescribeQuorum, which bmq has not). Raises AdminFailed."""
    quorum = TopicData(topic_name=TopicName("__cluster_metadata"), partitions=(PartitionData(partition_index=i32(0)),))
    out = io.BytesIO()
    header = RequestHeader(
        request_api_key=DescribeQuorumRequest.__api_key__,
        request_api_version=i16(0),
        correlation_id=i32(1),
        client_id="bench",
    )
    entity_writer(RequestHeader)(out, header)
    entity_writer(DescribeQuorumRequest)(out, DescribeQuorumRequest(topics=(quorum,)))
    frame = connection.exchange_frame(out.getvalue())
    # The response header: a correlation id and no tagged fields.
    answer, _ = entity_reader(DescribeQuorumResponse)(frame, 5)
    if not answer.topics:
        raise AdminFailed(f"the metadata quorum cannot be described: {answer.error_code.name}")
    return int(answer.topics[0].partitions[0].leader_id)
