"""Has every client do the same at both servers, each behind a proxy that notes what it is asked."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from testing.processes import REPOSITORY, ProcessFailed, dying_with_us
from testing.servers import BmqServer, KafkaServer, Server
from tests.conformance.clients.clients import Client
from tests.conformance.clients.matrix import Behaviour, ClientRun
from tests.conformance.clients.recorder import RecordingProxy
from tests.conformance.run import DATA, KAFKA_SETTINGS, start_all

PROGRAM_WAIT_S: Final = 300.0
BASE_AGE_MS: Final = 3_600_000
"""Records are from an hour ago: a time that both servers take and keep."""


@dataclass(frozen=True, slots=True)
class ObservedServer:
    """A server, and the proxy that clients take for it."""

    server: Server
    proxy: RecordingProxy


@contextmanager
def observed_servers(directory: Path = DATA / "clients") -> Iterator[tuple[ObservedServer, ObservedServer]]:
    """bmq and Kafka on new directories; servers and proxies are gone afterwards."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    with ExitStack() as stack:
        proxies = [stack.enter_context(RecordingProxy()) for _ in range(2)]
        servers: list[Server] = [
            BmqServer(directory / "bmq", {"BMQ_ADVERTISED": f"127.0.0.1:{proxies[0].port}"}),
            KafkaServer(directory / "kafka", KAFKA_SETTINGS, advertised_port=proxies[1].port),
        ]
        for server in servers:
            stack.callback(server.close)
        start_all(servers)
        for server, proxy in zip(servers, proxies, strict=True):
            proxy.target_port = server.port
        bmq, kafka = (ObservedServer(*pair) for pair in zip(servers, proxies, strict=True))
        yield bmq, kafka


def run_clients(
    bmq: ObservedServer,
    kafka: ObservedServer,
    clients: Sequence[Client],
    directory: Path,
    tell: Callable[[str], None] = lambda _: None,
) -> list[ClientRun]:
    """One client after the other, at both servers at the same time."""
    runs = []
    for client in clients:
        began = time.monotonic()
        command = client.prepare(directory)
        base_ms = int(time.time() * 1_000) - BASE_AGE_MS
        arguments = [client.name.lower().replace(" ", "-"), str(base_ms)]
        runs.append(ClientRun(client.name, client.version(), *_at_both((bmq, kafka), command, arguments)))
        tell(f"{client.name}: {time.monotonic() - began:.1f} s")
    return runs


def _at_both(sides: Sequence[ObservedServer], command: Sequence[str], arguments: Sequence[str]) -> list[Behaviour]:
    with ExitStack() as stack:
        recorded = [stack.enter_context(side.proxy.recording()) for side in sides]
        # Linux kills a child with the thread that started it (processes.dying_with_us): only waiting is done elsewhere.
        programs = [_started([*command, f"127.0.0.1:{side.proxy.port}", *arguments]) for side in sides]
        try:
            with ThreadPoolExecutor(len(programs)) as waiting:
                outcomes = list(waiting.map(_outcome, programs))
        finally:
            for program in programs:
                program.kill()
        return [Behaviour(dict(requests), outcome) for requests, outcome in zip(recorded, outcomes, strict=True)]


def _started(command: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        dying_with_us(command),
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _outcome(program: subprocess.Popen[str]) -> Any:
    """What the program's last line says. Raises ProcessFailed with its words when it failed."""
    try:
        out, err = program.communicate(timeout=PROGRAM_WAIT_S)
    except subprocess.TimeoutExpired:
        program.kill()
        out, err = program.communicate()
        err += f"\nit ran longer than {PROGRAM_WAIT_S} s"
    if program.returncode:
        command = program.args if isinstance(program.args, list) else [program.args]
        raise ProcessFailed(f"{' '.join(map(str, command))}\n{out}\n{err}")
    return json.loads(out.splitlines()[-1])
