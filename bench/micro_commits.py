"""CPU per committed offsets of one server process, under the load of `bench.groups` (bench/groups/commits.py).

    python -m bench.micro_commits [--server bmq|kafka] [--nodes 1|3] [--seconds N] [--partitions N] [--profile FILE]

`server_cpu_us` is what all servers' processes (with three nodes the storage's, too) use for one commit of every partition of
a topic; 50 groups of one shard commit at once, each on a connection of its own.
`--profile`: one server of bmq runs under cProfile, which slows it down, and leaves its figures in FILE.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.cluster.stage import Stage
from bench.core.client import Client
from bench.criteria import BMQ, KAFKA
from bench.groups.commits import commit
from bench.groups.loads import PARTITIONS
from bench.groups.target import Target, one_node, ready, three_nodes
from testing.servers import BmqServer

TOPIC = "committed"


class ProfiledServer(BmqServer):
    """`bmq standalone` under cProfile."""

    profile = Path()

    def _arguments(self) -> list[str]:
        command, *arguments = super()._arguments()
        return [sys.executable, "-m", "cProfile", "-o", str(self.profile), command, *arguments]


@contextmanager
def profiled(profile: Path, directory: Path) -> Iterator[Target]:
    """One node that leaves its profile when it is stopped."""
    server = ProfiledServer(directory / "server")
    server.profile = profile.absolute()
    try:
        server.start()
        yield ready(Target(BMQ, [server.bootstrap], {BMQ: server.pid}, 1))
        server.stop()
    finally:
        server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=(BMQ, KAFKA), default=BMQ)
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--warm-s", type=float, default=4)
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    parser.add_argument("--profile", type=Path)
    chosen = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="bmq-commits-"))
    stage = Stage(directory)
    if chosen.profile is not None:
        opened = profiled(chosen.profile, directory)
    elif chosen.nodes == 1:
        opened = one_node(chosen.server, stage)
    else:
        opened = three_nodes(chosen.server, stage)
    try:
        with opened as target:
            target.make_topic(TOPIC, chosen.partitions)
            found = commit(target, Client(directory, None), TOPIC, chosen.partitions, chosen.warm_s, chosen.seconds)
        cpu_us, user_us = (found[name] / found["answers"] * 1e6 for name in ("server_cpu_s", "server_user_s"))
        print(
            f"{chosen.server}: {found['answers'] / found['seconds']:,.0f} commits/s of {chosen.partitions} partitions, "
            f"server_cpu_us {cpu_us:.1f} (user {user_us:.1f}), "
            f"p50 {found['latency_p50_us']} us, p99 {found['latency_p99_us']} us"
        )
    finally:
        stage.down()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
