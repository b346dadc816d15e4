"""Agents of Databus as processes, and applications that hand records to them through the Unix socket."""

from __future__ import annotations

import json
import socket
import threading
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from bmq.databus.record_fields import NO_HEADERS
from bmq.databus.socket_frame import Answer, Code, Request, encoded_request, parse_answer
from testing.processes import ManagedProcess, eventually
from testing.servers import bmq_command

READY_LINE = r"^bmq databus ready agent=(\S+) socket=(\S+) http=(\S+?)(?: grpc=(\S+))?$"
READY_S = 60.0
STOP_S = 40.0
ANSWER_S = 30.0
PACE_S = 0.01
"""Between the rounds of an application, so that the load leaves the processors to those that are killed and started."""


class AgentProcess:
    """`bmq databus run` on one directory. Every further `start` uses the same spool and socket. `more`: options."""

    def __init__(
        self, directory: Path, bootstrap: str, rest_port: int, config: Path | None = None, more: Sequence[str] = ()
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.socket = directory / "s"
        self.http = ""
        self.grpc = ""
        arguments = [bmq_command(), "databus", "run", "--agent-id", "tested", "--bootstrap", bootstrap]
        arguments += ["--rest", f"http://127.0.0.1:{rest_port}", "--spool", str(directory / "spool")]
        arguments += ["--socket", str(self.socket), "--http", "127.0.0.1:0"]
        arguments += [*more] if config is None else ["--config", str(config), *more]
        self.process = ManagedProcess("databus", arguments, directory / "agent.log")

    def start(self) -> None:
        self.process.start()
        ready = self.process.wait_for_line(READY_LINE, READY_S)
        self.http, self.grpc = ready[3], ready[4]

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()

    def stop(self) -> int:
        return self.process.stop(STOP_S)

    def close(self) -> None:
        if self.process.is_running:
            self.process.kill()

    def status(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://{self.http}/v1/status", timeout=ANSWER_S) as response:
            found: dict[str, Any] = json.load(response)
            return found

    def metrics(self) -> str:
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=ANSWER_S) as response:
            text: str = response.read().decode()
            return text

    def wait_until_empty(self, timeout_s: float) -> None:
        """All records are produced."""

        def is_empty() -> bool:
            status = self.status()
            return all(lane["is_empty"] for lane in status["lanes"])

        eventually(is_empty, timeout_s, "the agent's spool is empty")


class Producers:
    """The processes that produce for an agent, which begins others when these end."""

    def __init__(self, agent: AgentProcess) -> None:
        self._agent = agent

    def kill(self) -> None:
        """kill -9."""
        own = psutil.Process(self._agent.process.pid)
        for each in eventually(own.children, READY_S, "a process produces for the agent"):
            each.kill()


class Application:
    """Hands numbered records over, some at once, until told to finish. A record without an answer is not sent again.

    Values are `NAME-NUMBER`. `accepted`: those that the agent took. `sent`: how many were sent.
    """

    def __init__(self, name: str, path: Path, channel: str, at_once: int = 50) -> None:
        self.name = name
        self.accepted: set[bytes] = set()
        self.refused: list[Answer] = []
        self.sent = 0
        self._path, self._channel, self._at_once = path, channel.encode(), at_once
        self._finish = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"application-{name}", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        self._finish.set()
        self._thread.join(ANSWER_S)
        assert not self._thread.is_alive()

    def wait_for_accepted(self, more: int, timeout_s: float) -> None:
        target = len(self.accepted) + more
        eventually(lambda: len(self.accepted) >= target, timeout_s, f"{self.name} has {target} accepted records", 0.02)

    def _run(self) -> None:
        while not self._finish.is_set():
            try:
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.settimeout(ANSWER_S)
                    connection.connect(str(self._path))
                    while not self._finish.is_set():
                        self._hand_over(connection)
                        self._finish.wait(PACE_S)
            except OSError:
                self._finish.wait(0.02)  # the agent was killed, and is not back yet

    def _hand_over(self, connection: socket.socket) -> None:
        """Raises OSError when the agent ends before it answers all."""
        values = {}
        for _ in range(self._at_once):
            values[self.sent] = b"%s-%d" % (self.name.encode(), self.sent)
            self.sent += 1
        frames = [
            encoded_request(Request(number, -1, self._channel, value, value, NO_HEADERS))
            for number, value in values.items()
        ]
        connection.sendall(b"".join(frames))
        received = bytearray()
        for number, value in values.items():
            while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4], "big"):
                part = connection.recv(65_536)
                if not part:
                    raise ConnectionResetError
                received += part
            answer, end = parse_answer(received)
            del received[:end]
            assert answer.request_id == number
            if answer.code is Code.ACCEPTED:
                self.accepted.add(value)
            else:
                self.refused.append(answer)
