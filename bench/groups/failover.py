"""The node of a transaction coordinator is killed: how long a producer waits for its transaction.

It writes to all partitions, those of the killed node too. A second producer of the same coordinator writes to other nodes'
partitions alone, so that what it waits for is the coordinator.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Self

from confluent_kafka import KafkaError as ClientError
from confluent_kafka import KafkaException, Message, Producer

from bench.cluster.admin import TRANSACTION_KEY, AdminFailed, coordinator_of, leaders
from bench.cluster.faults import make_topic
from bench.cluster.many import insist
from bench.cluster.sides import Side
from bench.cluster.steady import LoadStuck
from testing.processes import eventually

TOPIC: Final = "transacted"
PARTITIONS: Final = 12
RECORDS: Final = 10
"""Of each transaction."""
RECORD_BYTES: Final = 100
INTERVAL_S: Final = 0.05
"""Between the beginnings of two transactions."""
CALM_S: Final = 2.0
WATCH_S: Final = 2.0
RECOVERY_WAIT_S: Final = 60.0
CALL_WAIT_S: Final = 60.0
JOIN_WAIT_S: Final = 70.0
IDS_TRIED_MAX: Final = 1_000
TRIES_MAX: Final = 3
"""For each kill."""


class TransactionTimes:
    """When transactions began and were committed. Seconds on one clock, none of them read here; one thread writes."""

    def __init__(self) -> None:
        self._done: list[tuple[float, float]] = []
        self._begun: float | None = None

    def begin(self, at: float) -> None:
        self._begun = at

    def commit(self, at: float) -> None:
        assert self._begun is not None
        self._done.append((self._begun, at))
        self._begun = None

    def has_committed_since(self, since: float) -> bool:
        """Whether one that began later was committed."""
        return bool(self._done) and self._done[-1][0] > since

    def longest_wait_s(self, begin: float, end: float) -> float:
        """The longest that a transaction took, of those that were under way in that time; one that still is, until `end`."""
        waits = [ended - began for began, ended in self._done if ended > begin and began < end]
        begun = self._begun
        return max([*waits, *([end - begun] if begun is not None else [])], default=0.0)


class TransactionLoad:
    """Transactions at a steady rate, one behind the other, inside its `with` block. One that has to be aborted is done
    again, and waits all that time. `aborted`: how often that was so. `failed`: why the producer ended, if it did.
    """

    def __init__(self, bootstrap: str, transactional_id: str, partitions: Sequence[int]) -> None:
        self.times = TransactionTimes()
        self.aborted = 0
        self.failed = ""
        self._partitions = itertools.cycle(partitions)
        self._finish = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "linger.ms": 0,
                "error_cb": lambda error: None,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, name=transactional_id, daemon=True)

    def __enter__(self) -> Self:
        self._producer.init_transactions(CALL_WAIT_S)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._finish.set()
        self._thread.join(JOIN_WAIT_S)

    def wait_until_committed(self, since: float) -> float:
        """Return once a transaction was committed that began after `since`; the seconds it took. Raises LoadStuck."""

        def is_committed() -> bool:
            if self.failed:
                raise LoadStuck(self.failed)
            return self.times.has_committed_since(since)

        try:
            eventually(is_committed, RECOVERY_WAIT_S, "a committed transaction", interval_s=0.01)
        except AssertionError:
            raise LoadStuck(f"no transaction was committed within {RECOVERY_WAIT_S:g} s") from None
        return time.monotonic() - since

    # -- The thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        value = bytes(RECORD_BYTES)
        try:
            while not self._finish.is_set():
                began = time.monotonic()
                self.times.begin(began)
                while not self._transact(value):
                    self.aborted += 1
                self.times.commit(time.monotonic())
                self._finish.wait(max(0.0, began + INTERVAL_S - time.monotonic()))
        except KafkaException as error:
            self.failed = f"the producer ended: {error}"

    def _transact(self, value: bytes) -> bool:
        """Whether it was committed; else it was aborted. Raises KafkaException when nothing more can be done."""
        self._producer.begin_transaction()
        try:
            for _ in range(RECORDS):
                self._producer.produce(TOPIC, value, partition=next(self._partitions), on_delivery=_ignore)
            _until_done(self._producer.commit_transaction)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            _until_done(self._producer.abort_transaction)
            return False
        return True


def _ignore(error: ClientError | None, message: Message) -> None:
    """A record that is not delivered makes the commit fail."""


def _until_done(end: Callable[[float], None]) -> None:
    """Raises KafkaException for what is not worth another try."""
    while True:
        try:
            end(CALL_WAIT_S)
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def measure(side: Side, kills: int, done: Callable[[dict[str, Any]], None]) -> None:
    """So many times kill -9 of a coordinator's node, each started again before the next; `done` is given each.

    `wait_s`: the longest of the producer to all partitions, `elsewhere_wait_s`: of the other. Raises LoadStuck, AdminFailed.
    """
    make_topic(side, PARTITIONS, topic=TOPIC)
    tries = iter(range(kills * TRIES_MAX))
    for _ in range(kills):
        for number in tries:
            side.wait_whole()
            found = _kill(side, number)
            if found is not None:
                done(found)
                break
        else:
            raise AdminFailed(f"transactional ids did not stay at their node in {kills * TRIES_MAX} tries")


def _kill(side: Side, number: int) -> dict[str, Any] | None:
    """None: the ids have moved to another node meanwhile, and nothing was done."""
    victim, transactional_id, elsewhere_id = _choose(side, number)
    others = _partitions_without(side, victim)
    with (
        TransactionLoad(side.bootstrap, transactional_id, range(PARTITIONS)) as load,
        TransactionLoad(side.bootstrap, elsewhere_id, others) as elsewhere,
    ):
        for one in (load, elsewhere):
            one.wait_until_committed(time.monotonic())
        time.sleep(CALM_S)
        places = [coordinator_of(side.addresses, name, TRANSACTION_KEY)[0] for name in (transactional_id, elsewhere_id)]
        if places != [victim, victim]:
            return None
        began = time.monotonic()
        calm_s = load.times.longest_wait_s(began - CALM_S, began)
        side.nodes[victim].kill()
        back_s = load.wait_until_committed(began)
        elsewhere_back_s = elsewhere.wait_until_committed(began)
        time.sleep(WATCH_S)
        ended = time.monotonic()
        found = {
            "victim": victim,
            "calm_wait_s": round(calm_s, 4),
            "wait_s": round(load.times.longest_wait_s(began, ended), 4),
            "back_s": round(back_s, 4),
            "aborted": load.aborted,
            "elsewhere_partitions": len(others),
            "elsewhere_wait_s": round(elsewhere.times.longest_wait_s(began, ended), 4),
            "elsewhere_back_s": round(elsewhere_back_s, 4),
            "elsewhere_aborted": elsewhere.aborted,
        }
    side.nodes[victim].start()
    return found


def _choose(side: Side, number: int) -> tuple[int, str, str]:
    """A node, and two transactional ids that it coordinates. It is not the active controller: a new controller is measured
    elsewhere. Raises AdminFailed.
    """
    controller = side.active_controller()
    by_node: dict[int, list[str]] = {}
    for name in (f"failover-{number}-{place}" for place in range(IDS_TRIED_MAX)):
        insist(lambda name=name: coordinator_of(side.live_addresses, name, TRANSACTION_KEY))  # type: ignore[misc]
        node, _ = coordinator_of(side.live_addresses, name, TRANSACTION_KEY)
        by_node.setdefault(node, []).append(name)
        if node != controller and len(by_node[node]) == 2:
            first, second = by_node[node]
            return node, first, second
    raise AdminFailed(f"no node but the controller {controller} has two of {IDS_TRIED_MAX} transactional ids")


def _partitions_without(side: Side, node_id: int) -> list[int]:
    """Partitions that this node neither owns nor is what clients are sent to for. Raises AdminFailed."""
    owners, named = side.owners(TOPIC), leaders(side.live_addresses, TOPIC)
    found = [partition for partition in range(PARTITIONS) if node_id not in (owners[partition], named[partition])]
    if not found:
        raise AdminFailed(f"node {node_id} has a hand in every partition of {TOPIC}")
    return found
