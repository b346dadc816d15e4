"""CPU per committed offsets of one server process, under the load of `bench.groups` (bench/groups/commits.py).

    python -m bench.micro_commits [--server bmq|kafka] [--seconds N] [--partitions N] [--profile FILE]

`server_cpu_us` is what the server's process uses for a commit by each of 50 groups in turn, of every partition of a topic.
`--profile`: the server of bmq runs under cProfile, which slows it down, and leaves its figures in FILE.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from bench.core.client import Client
from bench.criteria import BMQ, KAFKA
from bench.groups.commits import commit
from bench.groups.loads import PARTITIONS
from bench.groups.target import Target, ready
from tests.support.servers import BmqServer, KafkaServer, Server

TOPIC = "committed"


class ProfiledServer(BmqServer):
    """`bmq standalone` under cProfile."""

    def __init__(self, directory: Path, profile: Path) -> None:
        super().__init__(directory)
        self._profile = profile

    def _arguments(self) -> list[str]:
        command, *arguments = super()._arguments()
        return [sys.executable, "-m", "cProfile", "-o", str(self._profile), command, *arguments]


def server_of(name: str, directory: Path, profile: Path | None) -> Server:
    if name == KAFKA:
        return KafkaServer(directory)
    return BmqServer(directory) if profile is None else ProfiledServer(directory, profile.absolute())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=(BMQ, KAFKA), default=BMQ)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--warm-s", type=float, default=4)
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    parser.add_argument("--profile", type=Path)
    chosen = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="bmq-commits-"))
    server = server_of(chosen.server, directory / "server", chosen.profile)
    try:
        server.start()
        target = ready(Target(chosen.server, [server.bootstrap], {chosen.server: server.pid}, 1))
        target.make_topic(TOPIC, chosen.partitions)
        client = Client(directory, None)
        found = commit(target, client, TOPIC, chosen.partitions, chosen.warm_s, chosen.seconds)
        cpu_us, user_us = (found[name] / found["answers"] * 1e6 for name in ("server_cpu_s", "server_user_s"))
        print(
            f"{chosen.server}: {found['answers'] / found['seconds']:,.0f} commits/s of {chosen.partitions} partitions, "
            f"server_cpu_us {cpu_us:.1f} (user {user_us:.1f}), p50 {found['latency_p50_us']} us, p99 {found['latency_p99_us']} us"
        )
        server.stop()
    finally:
        server.close()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
