"""Is a copy whole? `python -m tests.soak.etl [--minutes N] [--seed S] [--kills N] [--protocol classic|consumer|both]`.

A source of six partitions grows; two copiers by librdkafka and two by Kafka's Java client, members of one group, write it
to a target in transactions, with the group's offsets. Each copier is killed --kills times, while nodes of the cluster (four
processes on a real HDFS and ZooKeeper, in .cache/soak-etl) are killed, paused, restarted and drained, and partitions of the
topics and of the coordinators are moved, all from the seed. --protocol says how they are members: by classic rebalances, by
KIP-848, or both: half of them each, and every copier changes when it is started again, so the group is converted both ways.
Prints `etl_lost_or_doubled`: records of the source that are
missing in the target for readers of committed records, and those that are there too often. Exit code 1 says that there are
some, that their order changed, that a client had to give up, that something hung or did not come back.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import sys
from pathlib import Path

from testing import hdfs as hdfs_support
from testing.cluster import ALL_ROLES, BmqCluster
from testing.processes import REPOSITORY, kill_everything
from testing.zookeeper import new_zookeeper, running_zookeeper
from tests.soak.etl.campaign import PARTITIONS, SHORT_SESSIONS, Campaign, EtlReport
from tests.soak.etl.crew import COPIERS, PROTOCOLS
from tests.soak.etl.plan import Plan, plan

DATA = REPOSITORY / ".cache" / "soak-etl"
RESULTS = REPOSITORY / ".cache" / "soak-etl.json"
NODE_ROLES = (ALL_ROLES, ALL_ROLES, ALL_ROLES, "proxy")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=float(os.environ.get("SOAK_MINUTES", "10")))
    options.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    options.add_argument("--kills", type=int, default=20, help="of each copier")
    options.add_argument("--protocol", choices=tuple(PROTOCOLS), default="classic", help="of the copiers' group")
    options.add_argument("--directory", type=Path, default=DATA)
    options.add_argument("--results", type=Path, default=RESULTS)
    given = options.parse_args()
    again = f"python -m tests.soak.etl --minutes {given.minutes:g} --seed {given.seed} --kills {given.kills}"
    again += f" --protocol {given.protocol}" if given.protocol != "classic" else ""
    shutil.rmtree(given.directory, ignore_errors=True)
    given.directory.mkdir(parents=True)
    print(f"etl for {given.minutes:g} minutes; the same again: {again}", flush=True)
    made = plan(given.seed, given.minutes * 60, len(COPIERS), given.kills, PARTITIONS)
    try:
        report = campaign(made, given.directory, given.protocol)
    finally:
        kill_everything()
    given.results.write_text(json.dumps({**report.as_json(), "again": again}, indent=1) + "\n")
    print(report.text())
    print(f"the same again: {again}")
    print(f"{given.results} written; logs are in {given.directory}")
    return 0 if report.has_passed else 1


def campaign(made: Plan, directory: Path, protocol: str) -> EtlReport:
    """On daemons of its own."""
    with (
        hdfs_support.running(hdfs_support.new_cluster(directory / "hdfs", datanodes=2)) as hdfs,
        running_zookeeper(new_zookeeper(directory / "zookeeper")) as zookeeper,
    ):
        cluster = BmqCluster(directory / "nodes", hdfs.url, str(zookeeper.address), "etl", SHORT_SESSIONS)
        for roles in NODE_ROLES:
            cluster.add(roles)
        try:
            cluster.start()
            running = Campaign(cluster, made, directory / "copiers", protocol, lambda line: print(line, flush=True))
            return asyncio.run(running.run())
        finally:
            cluster.close()


if __name__ == "__main__":
    sys.exit(main())
