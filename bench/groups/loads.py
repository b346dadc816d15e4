"""Every load of transactions and committed offsets against one fresh target, each warmed until it stops getting faster."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.core.client import Client as FrameClient
from bench.groups.clients import Reader, Transactor
from bench.groups.commits import commit
from bench.groups.plan import Plan
from bench.groups.target import Target
from bench.loads.client import PLAIN, Client, Guarantees
from bench.loads.loads import Attempt
from bench.measure import usage
from bench.warm_up import warm_up
from bench.workloads import LoadFailed, settle

PARTITIONS: Final = 6
RECORD_BYTES: Final = 1_024
QUEUE_RECORDS: Final = 10_000
"""May wait for their acknowledgement, with transactions and without: what lies in librdkafka's queue when a transaction's time
is over is a part of it, and its default of 100,000 would make a second of 100 ms."""
IDEMPOTENT: Final = Guarantees(is_idempotent=True)
TRANSACTIONAL: Final = Guarantees(transaction_ms=100)
SOME_ABORTED: Final = Guarantees(transaction_ms=10, abort_every=5)
SMALL_PRODUCERS: Final = 16
SMALL_BYTES: Final = 100
RATED_RECORDS: Final = 10
RATED_PER_S: Final = 100
COMMITTED: Final = "read_committed"
UNCOMMITTED: Final = "read_uncommitted"
FILL_WAIT_S: Final = 300.0
VISIBLE_WAIT_S: Final = 60.0
VISIBLE_LOOK_S: Final = 0.5

PRODUCED: Final = "produced"
SMALL: Final = "small"
READ: Final = "read"
TOPICS: Final = (PRODUCED, SMALL, READ)


@dataclass(frozen=True, slots=True)
class Clients:
    producer: Client
    transactor: Transactor
    reader: Reader
    frames: FrameClient

    @classmethod
    def build(cls, directory: Path) -> Clients:
        """Raises LoadFailed."""
        return cls(Client(directory), Transactor(directory), Reader(directory), FrameClient(directory / "frames", None))


def run_all(target: Target, clients: Clients, plan: Plan, attempt: Attempt) -> None:
    """Raises AdminFailed when there are no topics; a load that fails takes nothing from the others."""
    for topic in TOPICS:
        target.make_topic(topic, PARTITIONS)

    def produce(guarantees: Guarantees, warm_s: float, seconds: float) -> dict[str, Any]:
        settle()
        return clients.producer.produce(
            target.bootstrap, target.pids, PRODUCED, PARTITIONS,
            record_bytes=RECORD_BYTES, queue_records=QUEUE_RECORDS, guarantees=guarantees, warm_s=warm_s, seconds=seconds,
        )  # fmt: skip

    def small(warm_s: float, seconds: float, records: int = 1, rate_per_s: float = 0) -> dict[str, Any]:
        settle()
        return clients.transactor.transact(
            target, SMALL, PARTITIONS,
            producers=SMALL_PRODUCERS, records=records, record_bytes=SMALL_BYTES, warm_s=warm_s, seconds=seconds,
            rate_per_s=rate_per_s,
        )  # fmt: skip

    def offsets(warm_s: float, seconds: float) -> dict[str, Any]:
        settle()
        return commit(target, clients.frames, SMALL, PARTITIONS, warm_s, seconds)

    def warm(name: str, run: Callable[[float, float], dict[str, Any]], figure: str) -> None:
        attempt(
            f"{name}_warm_up",
            lambda: warm_up(lambda: run(0, plan.warming_s)[figure], plan.warm_ups_max, plan.warm_ups_min),
        )

    def load(name: str, run: Callable[[float, float], dict[str, Any]], figure: str) -> None:
        """Warm the servers by it, then measure it."""
        warm(name, run, figure)
        attempt(name, partial(run, plan.warm_s, plan.seconds))

    # These are compared with each other: none is measured by servers that only the ones before it have warmed.
    produces = {
        "txn_produce": partial(produce, TRANSACTIONAL),
        "plain_produce": partial(produce, PLAIN),
        "idempotent_produce": partial(produce, IDEMPOTENT),
    }
    for name, run in produces.items():
        warm(name, run, "records")
    for name, run in produces.items():
        attempt(name, partial(run, plan.warm_s, plan.seconds))
    load("small_txn", small, "transactions")
    attempt("end_txn", lambda: small(plan.warm_s, plan.rated_s, RATED_RECORDS, RATED_PER_S))
    load("offset_commits", offsets, "answers")
    attempt("isolation", lambda: isolation(target, clients, plan))
    attempt("memory", lambda: usage(target.processes))


def isolation(target: Target, clients: Clients, plan: Plan) -> dict[str, Any]:
    """A topic that transactions wrote, every fifth of them aborted, is read under both levels in turn.

    Rates are of what the log holds, aborted records too, as a reader has to get past them. Raises LoadFailed: a reader was
    handed other records than its level promises.
    """
    filled = clients.producer.produce(
        target.bootstrap, target.pids, READ, PARTITIONS,
        record_bytes=RECORD_BYTES, queue_records=QUEUE_RECORDS, guarantees=SOME_ABORTED,
        warm_s=0, seconds=FILL_WAIT_S, records_max=plan.read_bytes // RECORD_BYTES,
    )  # fmt: skip
    produced, committed = filled["produced"], filled["committed_records"]
    if not filled["aborted"]:
        raise LoadFailed("no transaction was aborted: the topic is too small")
    _wait_until_visible(partial(clients.reader.read, target, READ, PARTITIONS, COMMITTED), committed)
    promised = {UNCOMMITTED: produced, COMMITTED: committed}
    passes: dict[str, list[dict[str, Any]]] = {level: [] for level in promised}
    for number in range(plan.read_passes):
        for level in [*promised][:: 1 if number % 2 == 0 else -1]:
            settle()
            found = clients.reader.read(target, READ, PARTITIONS, level)
            if found["records"] != promised[level]:
                raise LoadFailed(f"{found['records']} records under {level}, and {promised[level]} were promised")
            passes[level].append(found)
    return {
        "filled": filled,
        **{
            level: {
                "mb_per_s": statistics.median(produced * RECORD_BYTES / one["seconds"] / 1e6 for one in some),
                "passes": some,
            }
            for level, some in passes.items()
        },
    }


def _wait_until_visible(read: Callable[[], dict[str, Any]], records: int) -> None:
    """The last commit was answered before its markers were written. Raises LoadFailed."""
    deadline = time.monotonic() + VISIBLE_WAIT_S
    while (found := read()["records"]) != records:
        if found > records or time.monotonic() > deadline:
            raise LoadFailed(f"{found} records are committed, and {records} should be")
        time.sleep(VISIBLE_LOOK_S)
