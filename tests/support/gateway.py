"""A gateway process, and clients of it that grpc_tools generates from the .proto file, as users do."""

from __future__ import annotations

import base64
import contextlib
import importlib
import queue
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc

from testing.processes import ManagedProcess
from testing.servers import Bootstrap, bmq_command

REPOSITORY = Path(__file__).parents[2]
PROTO = "bmq/gateway/v1/gateway.proto"
READY = r"^bmq gateway ready grpc=(\S+:\d+)(?: metrics=(\S+:\d+))?$"
READY_S = 60.0
STOP_S = 40.0
CALL_S = 60.0


class Gateway:
    """`bmq gateway run` on a free port of 127.0.0.1. `environment`: settings."""

    def __init__(self, server: Bootstrap, directory: Path, environment: Mapping[str, str] | None = None) -> None:
        self.address = ""
        self.metrics = ""
        directory.mkdir(parents=True, exist_ok=True)
        command = [bmq_command(), "gateway", "run", "--listen", "127.0.0.1:0", "--bootstrap", server.bootstrap]
        self.process = ManagedProcess(
            "gateway", [*command, "--metrics", "127.0.0.1:0"], directory / "gateway.log", environment
        )

    def start(self) -> None:
        self.process.start()
        ready = self.process.wait_for_line(READY, READY_S)
        self.address, self.metrics = ready[1], ready[2]

    def stop(self) -> int:
        return self.process.stop(STOP_S)

    @property
    def log(self) -> str:
        return self.process.log_file.read_text()


@contextlib.contextmanager
def running_gateway(
    server: Bootstrap, directory: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Gateway]:
    """Ends in order, and has logged no traceback then."""
    gateway = Gateway(server, directory, environment)
    gateway.start()
    try:
        yield gateway
        assert gateway.stop() == 0, gateway.log
        assert "Traceback" not in gateway.log, gateway.log
    finally:
        if gateway.process.is_running:
            gateway.process.kill()


def generated(directory: Path) -> tuple[ModuleType, ModuleType]:
    """The modules of messages and of stubs, made by protoc in `directory`."""
    from grpc_tools import protoc

    made = directory / "generated"
    made.mkdir(parents=True, exist_ok=True)
    arguments = [f"--proto_path={REPOSITORY}", f"--python_out={made}", f"--grpc_python_out={made}", PROTO]
    assert protoc.main(["protoc", *arguments]) == 0
    stubs = (made / "bmq/gateway/v1/gateway_pb2_grpc.py").read_text()
    (made / "gateway_stubs.py").write_text(stubs)
    sys.path.insert(0, str(made))
    try:
        return importlib.import_module("bmq.gateway.v1.gateway_pb2"), importlib.import_module("gateway_stubs")
    finally:
        sys.path.remove(str(made))


def basic(user: str, password: str) -> tuple[tuple[str, str]]:
    return (("authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()),)


class Subscriber:
    """A subscription of a generated client: `send` says something, `next` waits for the next answer."""

    def __init__(self, stub: Any, messages: ModuleType, metadata: Any = None, **start: Any) -> None:
        self._messages = messages
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.send(start=messages.Start(**start))
        self.call = stub.Subscribe(iter(self._requests.get, None), metadata=metadata, timeout=CALL_S)
        self.settled: list[int] = []
        self.not_settled: list[Any] = []
        self.is_started = False

    def send(self, **request: Any) -> None:
        self._requests.put(self._messages.SubscribeRequest(**request))

    def credit(self, records: int) -> None:
        self.send(credit=self._messages.Credit(records=records))

    def acknowledge(self, ids: Sequence[int]) -> None:
        self.send(acknowledge=self._messages.Acknowledge(delivery_ids=ids))

    def release(self, ids: Sequence[int]) -> None:
        self.send(release=self._messages.Release(delivery_ids=ids))

    def reject(self, ids: Sequence[int]) -> None:
        self.send(reject=self._messages.Reject(delivery_ids=ids))

    def started(self) -> Any:
        """Waits for the first answer."""
        first = next(self.call)
        assert first.WhichOneof("response") == "started", first
        self.is_started = True
        return first.started

    def take(self, count: int) -> list[Any]:
        """The next records, at least so many."""
        found: list[Any] = []
        while len(found) < count:
            found.extend(self._next())
        return found

    def wait_settled(self, count: int) -> None:
        """Until so many deliveries have an answer."""
        while len(self.settled) + sum(len(one.delivery_ids) for one in self.not_settled) < count:
            assert self._next() == []

    def _next(self) -> list[Any]:
        answer = next(self.call)
        kind = answer.WhichOneof("response")
        if kind == "settled":
            self.settled.extend(answer.settled.delivery_ids)
        elif kind == "not_settled":
            self.not_settled.append(answer.not_settled)
        elif kind == "delivery":
            return list(answer.delivery.records)
        return []

    def half_close(self) -> None:
        self._requests.put(None)

    def failure(self) -> grpc.RpcError:
        """How the call ends."""
        try:
            while True:
                self._next()
        except grpc.RpcError as error:
            return error

    def close(self) -> None:
        self.call.cancel()
        self.half_close()
