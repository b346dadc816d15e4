"""The Databus agent beside a producer in each process: `python -m bench.databus [--connections N] [--seconds S]`.

One bmq server with the embedded store. Rows: requests that the server got for the same records per second, hand-over
latencies with the server up and killed, processor time, and how long a change of a channel takes to 20 agents. The producers
are fewer, and their requests and processor time are multiplied: librdkafka's have three threads each. Prints JSON, and writes
.cache/bench-rough/databus.json.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Final

import psutil
from confluent_kafka.admin import AdminClient, NewTopic

from bench.databus.channel_changes import measured_changes, put_channel, shown_version
from bench.measure import cpu_seconds, total_cpu_seconds
from bench.runner import show_rough
from testing.processes import REPOSITORY, ManagedProcess, eventually
from testing.servers import BmqServer, bmq_command

DATA: Final = REPOSITORY / ".cache" / "bench-databus"
TOPIC: Final = "databus"
PARTITIONS: Final = 6
RECORD_BYTES: Final = 200
RATE: Final = 10.0
"""Records per second of each application."""
CHANNEL: Final = "bench"
LINGER_MS: Final = 500
WARM_S: Final = 3.0
BOUNDS: Final = {"requests_ratio": 0.02, "cpu_ratio": 0.25, "p99_up_ms": 2.0, "p99_away_ms": 2.0, "change_s": 1.0}
_REQUESTS: Final = re.compile(r"^bmq_requests_total\{[^}]*\} (\S+)$", re.MULTILINE)
_READY: Final = r"^bmq databus ready agent=\S+ socket=(\S+) http=(\S+)$"


class Cost:
    """Requests that the server answered, and processor seconds, between two looks. The agent's: with its processes."""

    def __init__(self, server: BmqServer, agent: ManagedProcess | None = None) -> None:
        self._server, self._agent = server, agent
        self._before = self._look()

    def since(self) -> dict[str, float]:
        requests, server_s, agent_s = (now - before for now, before in zip(self._look(), self._before, strict=True))
        return {"requests": requests, "server_cpu_s": round(server_s, 2), "agent_cpu_s": round(agent_s, 2)}

    def _look(self) -> tuple[float, float, float]:
        requests = sum(map(float, _REQUESTS.findall(self._server.metrics())))
        agent_s = 0.0 if self._agent is None else total_cpu_seconds(_pids(self._agent))
        return requests, cpu_seconds(self._server.pid), agent_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=1_000)
    parser.add_argument("--producers", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10.0)
    chosen = parser.parse_args()
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    server = BmqServer(DATA / "server")
    agent: ManagedProcess | None = None
    try:
        server.start()
        admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
        changes = _changes(server)
        version = put_channel(server, CHANNEL, TOPIC, LINGER_MS)
        agent, path, http = _start_agent(server, "bench")
        eventually(lambda: shown_version(http) >= version, 30, "the agent knows the channel")
        found = {"changes": changes, **_measure(server, agent, path, chosen)}
    finally:
        for one in (agent, server.process):
            if one is not None and one.is_running:
                one.kill()
    found["figures"] = figures(found, chosen.connections, chosen.producers)
    found["bounds"] = BOUNDS
    show_rough("databus", found)


def figures(found: Mapping[str, Any], connections: int, producers: int) -> dict[str, float]:
    """Ratios for the same number of records per second."""
    agent, rival = found["agent"], found["producers"]
    scale = connections / producers

    def per_s(one: Mapping[str, Any], *names: str) -> float:
        total: float = sum(one[name] for name in names) / one["seconds"]
        return total

    cpu = ("server_cpu_s", "agent_cpu_s", "load_cpu_s")
    return {
        "requests_ratio": per_s(agent, "requests") / (scale * per_s(rival, "requests")),
        "cpu_ratio": per_s(agent, *cpu[:2]) / (scale * per_s(rival, "server_cpu_s", "load_cpu_s")),
        "p99_up_ms": agent["p99_ms"],
        "p99_away_ms": found["agent_away"]["p99_ms"],
        "change_s": found["changes"]["longest_s"],
    }


def _measure(server: BmqServer, agent: ManagedProcess, path: str, chosen: argparse.Namespace) -> dict[str, Any]:
    by_agent = {"by": "agent", "path": path, "channel": CHANNEL, "connections": chosen.connections, "rate": RATE}
    by_agent["record_bytes"] = RECORD_BYTES
    _load({**by_agent, "seconds": WARM_S})
    cost = Cost(server, agent)
    up = _load({**by_agent, "seconds": chosen.seconds})
    up |= cost.since()
    by_producers = {"by": "producers", "bootstrap": server.bootstrap, "topic": TOPIC, "producers": chosen.producers}
    by_producers |= {"rate": RATE, "record_bytes": RECORD_BYTES}
    cost = Cost(server)
    rival = _load({**by_producers, "seconds": chosen.seconds})
    rival |= cost.since()
    server.kill()
    away = _load({**by_agent, "seconds": chosen.seconds})
    return {"agent": up, "producers": rival, "agent_away": away}


def _pids(agent: ManagedProcess) -> list[int]:
    return [agent.pid, *(each.pid for each in psutil.Process(agent.pid).children())]


def _load(arguments: Mapping[str, Any]) -> dict[str, Any]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "bench.databus.load", json.dumps(arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=REPOSITORY)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found: dict[str, Any] = json.loads(done.stdout)
    found["load_cpu_s"] = round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2)
    return found


def _start_agent(server: BmqServer, name: str) -> tuple[ManagedProcess, str, str]:
    """The process, the path of its socket and the address of its HTTP door."""
    path = DATA / f"{name}.s"
    arguments = [bmq_command(), "databus", "run", "--agent-id", name, "--bootstrap", server.bootstrap]
    arguments += ["--rest", f"http://127.0.0.1:{server.rest_port}", "--spool", str(DATA / f"{name}-spool")]
    arguments += ["--socket", str(path), "--http", "127.0.0.1:0"]
    agent = ManagedProcess(name, arguments, DATA / f"{name}.log")
    agent.start()
    return agent, str(path), agent.wait_for_line(_READY, 60)[2]


def _changes(server: BmqServer) -> dict[str, Any]:
    def start(name: str, stack: ExitStack) -> str:
        agent, _, http = _start_agent(server, name)
        stack.callback(agent.kill)
        return http

    return measured_changes(server, "changed", TOPIC, start)


if __name__ == "__main__":
    main()
