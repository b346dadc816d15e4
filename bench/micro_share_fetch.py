"""CPU of a server under share fetches, beside an earlier revision: `python -m bench.micro_share_fetch [OLD]`.

    python -m bench.micro_share_fetch [OLD] [--pairs N] [--load NAME …] [--seconds N] [--profile FILE]

Loads: `ones`: 100 members that fetch one record and accept it with the next fetch; `hundreds`: 4 that fetch 500;
`one`: one that does so from the only partition;
`idle`: 2,000 members that wait 10 s for records that never come, measured from the eleventh second on; `idle_stock`: the
same with 500 ms, as stock clients do; `heartbeats`: 500 members that only heartbeat.
`server_cpu_us` is what the server's process uses for one fetch, or one heartbeat. OLD: any name that git knows; both sides run in turn.
`--profile`: one server of this tree runs under cProfile, which slows it down, and leaves its figures in FILE.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import shutil
import statistics
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.cluster.admin import coordinator_of, create_topic, create_topics_request, wait_for_leaders
from bench.cluster.many import insist
from bench.core.client import Client as HeartbeatClient
from bench.core.client import Load as HeartbeatLoad
from bench.core.contenders import ServerOfTree
from bench.criteria import BMQ
from bench.groups.target import Target
from bench.loads.client import Client
from bench.queues.client import Members
from bench.queues.frames import Fetching
from bench.queues.groups import configure, initialize, member_ids, topic_id_of
from bench.queues.idle import Member, heartbeat_frames, settle
from bench.queues.target import filled
from testing.processes import REPOSITORY
from testing.revisions import checked_out

PARTITIONS: Final = 8
RECORD_BYTES: Final = 100
OLD, NEW = "old", "new"
CONFIGS: Final = {
    "max.connections.per.ip": "2147483647",
    "group.share.max.size": "1000",
    "group.share.max.share.sessions": "20000",
    "max.connections": "20000",
}
_OPEN_FILES: Final = 12_000


@dataclass(frozen=True, slots=True)
class Load:
    """`fetch_records`: of one fetch, 0: heartbeats in place of fetches; `batch_records`: of the batches they lie in;
    `records`: in the topic. `rate_per_s`: 0: as many as are answered.
    """

    members: int
    fetch_records: int
    batch_records: int
    records: int
    wait_ms: int = 500
    rate_per_s: float = 0
    warm_s: float = 1
    partitions: int = PARTITIONS


LOADS: Final[Mapping[str, Load]] = {
    "ones": Load(100, 1, 10, 60_000),
    "hundreds": Load(4, 500, 500, 4_000_000),
    "one": Load(1, 500, 500, 4_000_000, partitions=1),
    "idle": Load(2_000, 500, 1, 0, wait_ms=10_000, rate_per_s=200, warm_s=10),
    "idle_stock": Load(2_000, 500, 1, 0, wait_ms=500, rate_per_s=4_000, warm_s=2),
    "heartbeats": Load(500, 0, 1, 0, warm_s=2),
}


class ProfiledServer(ServerOfTree):
    """Under cProfile."""

    profile = Path()

    def _arguments(self) -> list[str]:
        interpreter, _, _, program, *arguments = super()._arguments()
        profiled = "\n".join(
            (
                "import atexit, cProfile",
                "profile = cProfile.Profile()",
                f"atexit.register(lambda: (profile.disable(), profile.dump_stats({str(self.profile)!r})))",
                "profile.enable()",
                program,
            )
        )
        return [interpreter, "-P", "-c", profiled, *arguments]


def measured(server: ServerOfTree, directory: Path, load: Load, seconds: float) -> dict[str, Any]:
    """Raises LoadFailed, AdminFailed, OSError."""
    members = Members(directory)
    try:
        server.start()
        target = Target(BMQ, [server.bootstrap], {BMQ: server.pid}, 1)
        request = create_topics_request("fetched", load.partitions, 1)
        if load.records:
            batches = {"batch.num.messages": str(load.batch_records), "linger.ms": "50"}
            filled(target, Client(directory), request, load.records, RECORD_BYTES, batches)
        else:
            create_topic(target.addresses, request)
            wait_for_leaders(target.addresses, "fetched", load.partitions)
        configure(target.addresses, "g")
        if not load.fetch_records:
            found = _heartbeats(target, load, directory, seconds)
            server.stop()
            return found
        initialize(target.addresses, "g", "fetched", load.partitions)
        named = [(one, number % load.partitions) for number, one in enumerate(member_ids(load.members, "m"))]
        topic_id = topic_id_of(target.addresses, "fetched")
        asked = Fetching("g", topic_id, named, load.wait_ms, load.fetch_records)
        found = members.fetch(
            server.port, target.pids, asked, rate_per_s=load.rate_per_s, warm_s=load.warm_s, seconds=seconds
        )
        server.stop()
        return found
    finally:
        server.close()


def _heartbeats(target: Target, load: Load, directory: Path, seconds: float) -> dict[str, Any]:
    """As many as are answered, on a connection for every ten members. Raises LoadFailed, AdminFailed, OSError."""
    insist(lambda: coordinator_of(target.addresses, "g"))
    members = [Member("g", one, topic="fetched") for one in member_ids(load.members, "m")]
    asyncio.run(settle(target.addresses[0], members))
    asked = HeartbeatLoad(heartbeat_frames(members), load.members // 10, 1, load.rate_per_s)
    port = int(target.addresses[0].rpartition(":")[2])
    client = HeartbeatClient(directory / "heartbeats", None)
    found = client.put(port, {BMQ: target.pids[0]}, asked, warm_s=load.warm_s, seconds=seconds)
    return {**found, "fetches": found["answers"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", metavar="OLD", nargs="?")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--load", nargs="*", choices=LOADS, default=("ones", "hundreds"))
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--profile", type=Path)
    chosen = parser.parse_args()
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (_OPEN_FILES, max(_OPEN_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    )
    directory = Path(tempfile.mkdtemp(prefix="bmq-share-fetch-"))
    environment = {"BMQ_KAFKA": json.dumps(CONFIGS)}
    try:
        with ExitStack() as stack:
            trees = {NEW: REPOSITORY}
            if chosen.revision is not None:
                trees = {OLD: stack.enter_context(checked_out(chosen.revision)), **trees}
            for name in chosen.load:
                used: dict[str, list[float]] = {side: [] for side in trees}
                for number in range(chosen.pairs):
                    for side, tree in list(trees.items())[:: 1 if number % 2 else -1]:
                        if chosen.profile is None:
                            server = ServerOfTree(directory / "server", tree, environment=environment)
                        else:
                            server = ProfiledServer(directory / "server", tree, environment=environment)
                            server.profile = chosen.profile.absolute()
                        found = measured(server, directory, LOADS[name], chosen.seconds)
                        shutil.rmtree(directory / "server", ignore_errors=True)
                        cpu_us = found["server_cpu_s"] / found["fetches"] * 1e6
                        used[side].append(cpu_us)
                        took_us = found.get("latency_p50_us", 0)
                        print(
                            f"{name} {side}: {found['fetches'] / chosen.seconds:,.0f} fetches/s, "
                            f"{found.get('records', 0) / chosen.seconds:,.0f} records/s, server_cpu_us {cpu_us:.0f}, "
                            f"latency_p50_us {took_us}",
                            flush=True,
                        )
                if OLD in used:
                    ratios = [new / old for new, old in zip(used[NEW], used[OLD], strict=True)]
                    print(
                        f"{name}: new to old {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
                    )
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
