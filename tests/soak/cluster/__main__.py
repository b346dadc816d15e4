"""Run a soak of a cluster: `python -m tests.soak.cluster [--minutes N] [--seed S] [--hazards KIND …]`.

SOAK_MINUTES does the same as --minutes. KIND: `all`, or of node_standstill (for a minute), late_calls (to the NameNode,
carried out after they were given up), power_loss (of all DataNodes). --directory, --results: for its files. Needs root and Linux: this process moves to a network namespace of its own, where
ZooKeeper, HDFS and the clients live too, and every `bmq node` lives in another one; nothing listens anywhere else. Faults
of processes and of the network between them follow from the seed. Prints a report and writes it as JSON. Exit code 1 says
that something acknowledged was lost, doubled or moved, that two owners were acknowledged under one epoch, that something
did not come back or ended by itself, that memory was not bounded, or that too little happened.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import sys
from pathlib import Path

from testing.namespaces import Network, NoNamespaces
from testing.processes import REPOSITORY, kill_everything
from tests.soak.cluster.plan import HAZARDS, Kind
from tests.soak.cluster.report import ClusterReport
from tests.soak.cluster.run import ClusterSoak
from tests.support.unsafe_disk import NoDisks, own_mounts

DATA = REPOSITORY / ".cache" / "soak-cluster"
RESULTS = REPOSITORY / ".cache" / "soak-cluster.json"
INTERRUPTED = 130


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=float(os.environ.get("SOAK_MINUTES", "30")))
    options.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    options.add_argument("--directory", type=Path, default=DATA)
    options.add_argument("--results", type=Path, default=RESULTS)
    options.add_argument("--hazards", nargs="*", choices=["all", *sorted(HAZARDS)], default=(), metavar="KIND")
    given = options.parse_args()
    hazards = HAZARDS if "all" in given.hazards else frozenset(map(Kind, given.hazards))
    try:
        # Before there are threads: both are a thread's own, and inherited from the first one.
        if Kind.POWER_LOSS in hazards:
            own_mounts()
        network = Network.enter()
    except (NoNamespaces, NoDisks) as error:
        print(f"the soak of a cluster cannot run: {error}", file=sys.stderr)
        return 1
    shutil.rmtree(given.directory, ignore_errors=True)
    given.directory.mkdir(parents=True)
    again = f"python -m tests.soak.cluster --minutes {given.minutes:g} --seed {given.seed}"
    again += "".join(f" {word}" for word in ("--hazards", *sorted(hazards)) if hazards)
    print(f"soak of a cluster for {given.minutes:g} minutes; the same again: {again}", flush=True)
    report = run(ClusterSoak(given.directory, network, given.seed, given.minutes, hazards))
    if report is None:
        print("interrupted: everything is ended", file=sys.stderr, flush=True)
        # Threads may still wait for nodes that are gone, and would hold this up.
        os._exit(INTERRUPTED)
    given.results.write_text(json.dumps(report.as_json(), indent=1) + "\n")
    print(report.text())
    print(f"{given.results} written; logs are in {given.directory}")
    return 0 if report.has_passed else 1


def run(soak: ClusterSoak) -> ClusterReport | None:
    """None when a signal ended it. Nothing is left running in any case."""
    loop = asyncio.new_event_loop()
    running = loop.create_task(soak.run())
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, running.cancel)
    try:
        return loop.run_until_complete(running)
    except asyncio.CancelledError:
        return None
    finally:
        kill_everything()


if __name__ == "__main__":
    sys.exit(main())
