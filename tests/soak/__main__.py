"""Run a soak: `python -m tests.soak [--minutes N] [--seed S] [--results FILE] [--hazards KIND …] [--secured] [--secure-hdfs]`.

SOAK_MINUTES does the same as --minutes. KIND: `all`, or of server_standstill and datanode_standstill (for a minute),
late_calls (to the NameNode, carried out after they were given up), power_loss (of all DataNodes; needs root).

A cluster of one NameNode and three DataNodes and a `bmq standalone` on it are started in .cache/soak; faults follow from
the seed. A topic of its own has two share groups, whose members are processes: they accept, release and reject records, let
locks run out, and are killed or closed and started again. Each of its records has to be accepted once or to be a dead letter.
Prints a report and writes it as JSON. Exit code 1 says that something acknowledged was lost, doubled or moved, that
something did not come back, or that memory was not bounded.
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

from testing.processes import REPOSITORY, kill_everything
from tests.soak.faults import HAZARDS, Kind
from tests.soak.run import Soak
from tests.support.unsafe_disk import own_mounts

DATA = REPOSITORY / ".cache" / "soak"
RESULTS = REPOSITORY / ".cache" / "soak.json"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=float(os.environ.get("SOAK_MINUTES", "20")))
    options.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    options.add_argument("--results", type=Path, default=RESULTS)
    options.add_argument("--hazards", nargs="*", choices=["all", *sorted(HAZARDS)], default=(), metavar="KIND")
    options.add_argument("--secured", action="store_true", help="TLS, logins by SCRAM and ACLs at the server")
    options.add_argument(
        "--secure-hdfs", action="store_true", help="Kerberos at HDFS: tickets of two minutes, block tokens of one"
    )
    given = options.parse_args()
    hazards = HAZARDS if "all" in given.hazards else frozenset(map(Kind, given.hazards))
    again = " ".join(
        (
            f"--minutes {given.minutes:g} --seed {given.seed}",
            *(["--secured"] if given.secured else []),
            *(["--secure-hdfs"] if given.secure_hdfs else []),
            *(["--hazards", *sorted(hazards)] if hazards else []),
        )
    )
    if Kind.POWER_LOSS in hazards:
        own_mounts()
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    print(f"soak of {given.minutes:g} minutes; the same again: python -m tests.soak {again}", flush=True)
    try:
        soak = Soak(DATA, given.seed, given.minutes, hazards, is_secured=given.secured, is_kerberized=given.secure_hdfs)
        report = asyncio.run(soak.run())
    finally:
        kill_everything()
    given.results.write_text(json.dumps(report.as_json(), indent=1) + "\n")
    print(report.text())
    print(f"{given.results} written; logs are in {DATA}")
    if not report.has_passed:
        print(f"the same again: python -m tests.soak {again}")
    return 0 if report.has_passed else 1


if __name__ == "__main__":
    sys.exit(main())
