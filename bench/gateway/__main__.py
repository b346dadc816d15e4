"""Publishing through a gateway on one core beside Kafka's Java producer on the same core, in alternation.

python -m bench.gateway [--smoke] [--pairs N] [--seconds S]

One bmq server with the embedded store is on the first processor, with the gateway's client, which sends requests of 1,000 records
that are encoded once. On the second is the gateway, or Kafka's ProducerPerformance with acks=all and its defaults. Records have
100 B. Prints JSON, and writes .cache/bench-rough/gateway.json.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka.admin import AdminClient, NewTopic

from bench.core.__main__ import cores
from bench.core.client import pinned_to
from bench.measure import cpu_seconds
from bench.runner import ROUGH_RESULTS
from bench.workloads import produce
from testing.processes import REPOSITORY, ManagedProcess
from testing.servers import BmqServer, bmq_command

DATA: Final = REPOSITORY / ".cache" / "bench-gateway"
TOPIC: Final = "gateway"
PARTITIONS: Final = 6
RECORD_BYTES: Final = 100
RECORDS_PER_REQUEST: Final = 1_000
BOUNDS: Final = {"throughput_ratio": 0.5}
"""The least that is asked for: half of the Java producer's rate."""
_READY: Final = r"^bmq gateway ready grpc=(\S+:\d+)"
_READY_S: Final = 60.0
_STOP_S: Final = 40.0


@dataclass(frozen=True, slots=True)
class Plan:
    """`records`: of the Java producer, behind `warm_up_records`."""

    pairs: int = 5
    seconds: float = 10.0
    warm_up_s: float = 3.0
    records: int = 4_000_000
    warm_up_records: int = 1_000_000


SMOKE: Final = Plan(pairs=1, seconds=2.0, warm_up_s=1.0, records=200_000, warm_up_records=50_000)


@dataclass(frozen=True, slots=True)
class Target:
    """The server as the Java producer's load sees it."""

    server: BmqServer
    name: str = "bmq"

    @property
    def bootstrap(self) -> str:
        return self.server.bootstrap

    @property
    def processes(self) -> Mapping[str, int]:
        return {"bmq": self.server.pid}


def figures(pairs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Medians of the pairs. `gateway_cpu_us`, `java_cpu_us`: processor time of a record, warm-up and start included. Pure."""

    def median(name: str, of: str) -> float:
        return statistics.median(pair[of][name] for pair in pairs)

    return {
        "throughput_ratio": statistics.median(
            pair["gateway"]["records_per_s"] / pair["java"]["records_per_s"] for pair in pairs
        ),
        "gateway_records_per_s": median("records_per_s", "gateway"),
        "java_records_per_s": median("records_per_s", "java"),
        "gateway_cpu_us": median("cpu_us", "gateway"),
        "java_cpu_us": median("cpu_us", "java"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    parser.add_argument("--pairs", type=int)
    parser.add_argument("--seconds", type=float)
    chosen = parser.parse_args()
    plan = SMOKE if chosen.smoke else Plan()
    plan = Plan(
        chosen.pairs or plan.pairs,
        chosen.seconds or plan.seconds,
        plan.warm_up_s,
        plan.records,
        plan.warm_up_records,
    )
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    server_core, rival_core = cores()
    server = BmqServer(DATA / "server")
    try:
        with pinned_to([server_core]):
            server.start()
        pairs = [measure(server, plan, number, server_core, rival_core) for number in range(plan.pairs)]
    finally:
        server.close()
        shutil.rmtree(DATA, ignore_errors=True)
    found = {"pairs": pairs, "figures": figures(pairs), "bounds": BOUNDS, "is_smoke": chosen.smoke}
    text = json.dumps(found, indent=1)
    ROUGH_RESULTS.mkdir(parents=True, exist_ok=True)
    (ROUGH_RESULTS / "gateway.json").write_text(text)
    print(text)


def measure(server: BmqServer, plan: Plan, number: int, server_core: int, rival_core: int) -> dict[str, Any]:
    """A pair. Who comes first changes: neither profits from a machine that slows down or speeds up."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})
    topics = {name: f"{TOPIC}-{name}-{number}" for name in ("gateway", "java")}
    made = admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics.values()])
    for each in made.values():
        each.result(30)
    order = list(topics)[:: 1 if number % 2 == 0 else -1]
    pair: dict[str, Any] = {"order": order}
    for name in order:
        if name == "gateway":
            pair[name] = through_gateway(server, topics[name], plan, server_core, rival_core)
        else:
            with pinned_to([rival_core]):
                pair[name] = by_java(server, topics[name], plan)
    for each in admin.delete_topics(list(topics.values())).values():
        each.result(30)
    return pair


def through_gateway(server: BmqServer, topic: str, plan: Plan, server_core: int, gateway_core: int) -> dict[str, Any]:
    command = [bmq_command(), "gateway", "run", "--listen", "127.0.0.1:0", "--bootstrap", server.bootstrap]
    gateway = ManagedProcess("gateway", command, DATA / "gateway.log")
    try:
        with pinned_to([gateway_core]):
            gateway.start()
        address = gateway.wait_for_line(_READY, _READY_S)[1]
        arguments = {
            "address": address,
            "topic": topic,
            "partitions": PARTITIONS,
            "record_bytes": RECORD_BYTES,
            "records": RECORDS_PER_REQUEST,
            "warm_up_s": plan.warm_up_s,
            "seconds": plan.seconds,
        }
        used, server_used = cpu_seconds(gateway.pid), cpu_seconds(server.pid)
        with pinned_to([server_core]):
            done = subprocess.run(
                [sys.executable, "-m", "bench.gateway.load", json.dumps(arguments)],
                stdout=subprocess.PIPE,
                check=True,
                cwd=REPOSITORY,
            )
        found: dict[str, Any] = json.loads(done.stdout)
        found["cpu_us"] = (cpu_seconds(gateway.pid) - used) / found["all_records"] * 1e6
        found["server_cpu_us"] = (cpu_seconds(server.pid) - server_used) / found["all_records"] * 1e6
        gateway.stop(_STOP_S)
        return found
    finally:
        if gateway.is_running:
            gateway.kill()


def by_java(server: BmqServer, topic: str, plan: Plan) -> dict[str, Any]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found: dict[str, Any] = dict(produce(Target(server), topic, RECORD_BYTES, plan.records, plan.warm_up_records))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    records = plan.records + plan.warm_up_records
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**found, "cpu_us": used / records * 1e6, "server_cpu_us": found["server_cpu_s"] / records * 1e6}


if __name__ == "__main__":
    main()
