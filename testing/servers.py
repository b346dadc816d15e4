"""One server a client can talk to: bmq, or a single Apache Kafka node that shows what the right answer is."""

from __future__ import annotations

import http.client
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from confluent_kafka.admin import AdminClient, NewTopic

from testing.java import java_command
from testing.patience import Patience
from testing.processes import POLL_INTERVAL_S, ManagedProcess, ProcessFailed, eventually, free_port

READY_LINE = r"^bmq ready kafka=(\S+:\d+) rest=127\.0\.0\.1:(\d+)$"
READY_TIMEOUT_S = 120.0
KAFKA_READY_TIMEOUT_S = 60.0
# A clean stop of bmq may take as long as PATIENCE allows, 5 seconds elsewhere; the rest is for the process to go.
STOP_TIMEOUT_S = 40.0
METRICS_WAIT_S = 60.0
TOPIC_WAIT_S = 30.0
KAFKA_STOP_TIMEOUT_S = 60.0

# What bin/kafka-server-start.sh and bin/kafka-run-class.sh of Apache Kafka pass to its JVM.
KAFKA_JVM_OPTIONS = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
KAFKA_CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"

UNDER_TEST = "BMQ_UNDER_TEST"
"""The variable in which the Makefile names the plain install's command."""

REST_WAIT_S = 30.0
# What tests give their servers (conftest.py) unless the environment says otherwise: on a busy machine, too, one seals and
# saves at a stop all that it would have elsewhere, and keeps its connections although it got no processor for some seconds.
# Benchmarks and soaks have the product's own values.
PATIENCE = {
    "BMQ_STOP_TIMEOUT_MS": "35000",
    "BMQ_BROKER__STOP_WAIT_MAX_S": "30",
    "BMQ_LOOP_STALL_MAX_MS": "30000",
}


class Bootstrap(Protocol):
    """A server or a cluster that Kafka clients can reach."""

    @property
    def bootstrap(self) -> str: ...


class Server(ABC):
    """A server process on one data directory. Every further `start` uses the same directory and the same Kafka port."""

    name = ""
    stop_timeout_s = 0.0

    def __init__(self, directory: Path, environment: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.log_file = directory.with_name(f"{directory.name}.log")
        self.port = free_port()
        self._environment = dict(environment or {})
        self._process: ManagedProcess | None = None

    def set_environment(self, more: Mapping[str, str]) -> None:
        """Beside what it has; for the next start."""
        self._environment.update(more)

    @property
    def bootstrap(self) -> str:
        """HOST:PORT for Kafka clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def process(self) -> ManagedProcess:
        assert self._process is not None, f"{self.name} was never started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def pids(self) -> tuple[int, ...]:
        """Of all its processes: one."""
        return (self.pid,)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.is_running

    def start(self) -> None:
        """Execute it and return once it serves. Raises ProcessFailed with the log."""
        self.execute()
        self.wait_until_ready()

    def execute(self) -> None:
        self._process = ManagedProcess(self.name, self._arguments(), self.log_file, self._environment)
        self._process.start()

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()

    def stop(self) -> int:
        """SIGTERM; the exit code. Raises ProcessFailed when it does not stop in time."""
        return self.process.stop(self.stop_timeout_s)

    def close(self) -> None:
        """Make sure that it is gone."""
        if self.is_running:
            self.process.kill()

    @abstractmethod
    def wait_until_ready(self) -> None: ...

    @abstractmethod
    def _arguments(self) -> list[str]: ...


class BmqServer(Server):
    """`bmq standalone`; ready when `GET /v1/health` answers 200. `store`: a URL in place of a data directory.

    `has_extras`: by the command beside this interpreter, for tests that are about an extra.
    """

    name = "bmq"
    stop_timeout_s = STOP_TIMEOUT_S
    ready_timeout_s = READY_TIMEOUT_S
    patience: Mapping[str, str] = {}
    rest_port = 0

    def __init__(
        self,
        directory: Path,
        environment: Mapping[str, str] | None = None,
        *,
        store: str = "",
        has_extras: bool = False,
    ) -> None:
        patience = {name: value for name, value in self.patience.items() if name not in os.environ}
        super().__init__(directory, {**patience, **(environment or {})})
        self.store = store
        self._command = bmq_command() if has_extras else server_command()

    @property
    def advertised(self) -> str:
        """HOST:PORT that clients of the first listener are told."""
        return self._environment.get("BMQ_ADVERTISED", self.bootstrap)

    def wait_until_ready(self) -> None:
        patience = Patience(self.ready_timeout_s)
        ready = self.process.wait_for_line(READY_LINE, self.ready_timeout_s)
        assert ready[1] == self.advertised
        self.rest_port = int(ready[2])
        while self.get("/v1/health")[0] != 200:
            if patience.is_over() or not self.is_running:
                raise ProcessFailed(f"GET /v1/health never answered 200{self.process}")
            time.sleep(POLL_INTERVAL_S)

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a GET on the REST address; (0, reason) when nobody answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.rest_port, timeout=REST_WAIT_S)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except OSError as error:
            return 0, str(error)
        finally:
            connection.close()

    def metrics(self) -> str:
        """What Prometheus is told; asked again while it takes longer than `get` waits."""

        def told() -> str:
            status, text = self.get("/metrics")
            return text if status == 200 else ""

        return eventually(told, METRICS_WAIT_S, f"{self.name} tells its metrics")

    def _arguments(self) -> list[str]:
        listen = f"127.0.0.1:{self.port}"
        return [
            self._command,
            *standalone_arguments(self.directory, listen),
            *(["--store", self.store] if self.store else []),
        ]


def bmq_command() -> str:
    """The `bmq` command installed beside this interpreter."""
    return str(Path(sys.executable).with_name("bmq"))


def server_command() -> str:
    """The `bmq` command that servers under test are started by: in `make test` a plain install, without extras.

    Without `make` it is `bmq_command`, which reads the tree in place.
    """
    return os.environ.get(UNDER_TEST) or bmq_command()


def standalone_arguments(data: Path, listen: str = "127.0.0.1:0") -> list[str]:
    return ["standalone", "--listen", listen, "--rest", "127.0.0.1:0", "--data", str(data)]


def without_listen(arguments: Sequence[str]) -> list[str]:
    """Of a server whose listeners stand in its settings."""
    place = arguments.index("--listen")
    return [*arguments[:place], *arguments[place + 2 :]]


class KafkaServer(Server):
    """One Apache Kafka node, broker and controller in one process (KRaft), with the default 1 GiB heap.

    `advertised_port`: where clients are told to connect in place of its own port; what it asks itself goes past that.
    """

    name = "kafka"
    stop_timeout_s = KAFKA_STOP_TIMEOUT_S

    def __init__(
        self, directory: Path, properties: Mapping[str, str] | None = None, *, advertised_port: int = 0
    ) -> None:
        super().__init__(directory)
        self._controller_port = free_port()
        self._advertised_port = advertised_port
        self._properties = dict(properties or {})

    @property
    def controller_port(self) -> int:
        """Of the listener of the controller in it."""
        return self._controller_port

    def set(self, properties: Mapping[str, str]) -> None:
        """Set more properties; before the first start."""
        self._properties.update(properties)

    def execute(self) -> None:
        if not (self.directory / "data").exists():
            self._format()
        super().execute()

    def wait_until_ready(self) -> None:
        self.process.wait_for_line(r"Kafka Server started", KAFKA_READY_TIMEOUT_S)

    def _arguments(self) -> list[str]:
        return java_command("kafka.Kafka", [str(self._settings_file)], KAFKA_JVM_OPTIONS)

    @property
    def _settings_file(self) -> Path:
        return self.directory / "server.properties"

    def _format(self) -> None:
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.directory / "data"),
            # One node has one replica of everything; the rebalance delay is what Kafka's own quick start sets.
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **(self._apart_from_clients() if self._advertised_port else {}),
            **self._properties,
        }
        self.directory.mkdir(parents=True, exist_ok=True)
        self._settings_file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        arguments = ["format", "-t", KAFKA_CLUSTER_ID, "-c", str(self._settings_file)]
        formatting = ManagedProcess("kafka-storage", java_command("kafka.tools.StorageTool", arguments), self.log_file)
        formatting.start()
        if formatting.wait(KAFKA_READY_TIMEOUT_S) != 0:
            raise ProcessFailed(f"the directory of Apache Kafka could not be formatted{formatting}")

    def _apart_from_clients(self) -> dict[str, str]:
        """A listener for the node's own requests, as those to the coordinators of transactions."""
        own = f"OWN://127.0.0.1:{free_port()}"
        clients, controller = f"PLAINTEXT://127.0.0.1:{self.port}", f"CONTROLLER://127.0.0.1:{self._controller_port}"
        return {
            "listeners": f"{clients},{own},{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self._advertised_port},{own}",
            "inter.broker.listener.name": "OWN",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OWN:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }


@contextmanager
def bmq_with_topic(directory: Path, topic: str, partitions: int) -> Iterator[BmqServer]:
    """A server on a new directory, with a topic on it; gone afterwards."""
    server = BmqServer(directory)
    try:
        server.start()
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        for created in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            created.result(TOPIC_WAIT_S)
        yield server
    finally:
        server.close()
