"""The clients of the benchmark of transactions and groups, against Apache Kafka: they do what they say they measure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.core.client import Client as FrameClient
from bench.groups import heartbeats
from bench.groups.clients import Reader, Transactor
from bench.groups.commits import commit
from bench.groups.failover import TransactionLoad
from bench.groups.gathering import rebalance
from bench.groups.loads import COMMITTED, UNCOMMITTED
from bench.groups.target import Target, ready
from bench.loads.client import Client, Guarantees
from bench.workloads import LoadFailed
from testing.processes import eventually
from testing.servers import KafkaServer

pytestmark = [pytest.mark.campaign("bench"), pytest.mark.timeout(180)]

PARTITIONS = 3
TRIES = 5
ACCEPTED_WAIT_S = 60


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    server = KafkaServer(tmp_path_factory.mktemp("kafka") / "server")
    try:
        server.start()
        yield ready(Target(server.name, [server.bootstrap], {server.name: server.pid}, 1))
    finally:
        server.close()


def read(target: Target, directory: Path, topic: str, isolation: str) -> int:
    records: int = Reader(directory).read(target, topic, PARTITIONS, isolation)["records"]
    return records


def test_what_was_committed_and_what_was_aborted(target: Target, tmp_path: Path) -> None:
    target.make_topic("aborted", PARTITIONS)
    found = Client(tmp_path).produce(
        target.bootstrap, target.pids, "aborted", PARTITIONS,
        record_bytes=100, warm_s=0, seconds=60, rate_per_s=500, records_max=5_000,
        guarantees=Guarantees(transaction_ms=20, abort_every=3),
    )  # fmt: skip
    assert found["produced"] == 5_000 and found["aborted"] >= 1
    assert found["records"] == found["committed_records"] < 5_000
    assert found["commits"]["count"] == found["transactions"] >= 2 * found["aborted"]
    assert read(target, tmp_path, "aborted", UNCOMMITTED) == 5_000
    assert read(target, tmp_path, "aborted", COMMITTED) == found["committed_records"]


def test_small_transactions_of_many_producers_at_a_rate(target: Target, tmp_path: Path) -> None:
    transactor = Transactor(tmp_path)
    counts = []
    for number in range(TRIES):  # others may have the processors in some
        topic = f"small-{number}"
        target.make_topic(topic, PARTITIONS)
        found = transactor.transact(
            target, topic, PARTITIONS, producers=4, records=5, record_bytes=100, warm_s=0, seconds=2, rate_per_s=20
        )
        assert found["transactions"] == found["commits"]["count"] == found["whole"]["count"] <= 40
        if found["transactions"]:
            assert found["commits"]["p50_us"] < found["whole"]["p50_us"]
        counts.append(found["transactions"])
        # The last of each producer may have come too late to count, or not have begun before the end.
        committed, rest = divmod(read(target, tmp_path, topic, COMMITTED), 5)
        assert rest == 0 and counts[-1] <= committed <= min(counts[-1] + 4, 40)
        if counts[-1] >= 36:
            return
    raise AssertionError(f"the rate was kept in none of {TRIES} tries: {counts}")


def test_transactions_that_are_waited_for(target: Target) -> None:
    target.make_topic("transacted", PARTITIONS)
    with TransactionLoad(target.bootstrap, "waited-for", range(PARTITIONS)) as load:
        load.wait_until_committed(0.0)
        load.wait_until_committed(0.0)
    assert not load.failed and not load.aborted
    assert load.times.longest_wait_s(0.0, float("inf")) > 0


def test_offsets_of_many_groups(target: Target, tmp_path: Path) -> None:
    target.make_topic("committed", PARTITIONS)
    client = FrameClient(tmp_path, None)

    def is_accepted() -> bool:
        try:
            return bool(commit(target, client, "committed", PARTITIONS, warm_s=0, seconds=0.1)["answers"])
        except LoadFailed:
            return False

    eventually(is_accepted, ACCEPTED_WAIT_S, "the shard's coordinator, which may have to load it first, takes commits")
    found = commit(target, client, "committed", PARTITIONS, warm_s=0, seconds=3)
    assert found["answers"] > 0 and found["shards"] == 50


def test_members_gather_and_leave(target: Target) -> None:
    target.make_topic("gathering", 10)
    for number in range(2):
        found = rebalance(target, "gathering", 10, 10, number)  # type: ignore[arg-type]
        assert 0 < found["assigned_s"] <= found["settled_s"]
        assert found["heartbeats"] >= 2 * 10


def test_members_stay(target: Target, tmp_path: Path) -> None:
    """More connections than are opened in one go, so that it is waited for them in between."""
    target.make_topic("idle", 5)
    # How many are answered in time is for the benchmark: here others may have the processors at the end.
    found = heartbeats.measure(target, tmp_path, "idle", groups=16, each=5, warm_s=0, seconds=3, kept_min=0.5)
    assert (found["groups"], found["members"]) == (16, 80)
    assert 0 < sum(one["answers"] for one in found["by_node"]) <= 81
