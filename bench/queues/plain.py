"""What has nothing to do with a new part of bmq, beside the same before there was that part: two nodes on one core, of which
one at a time is under load. Loads of seconds alternate, so that both see the same machine.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from bench.cluster.admin import create_topic, create_topics_request, wait_for_leaders
from bench.core import loads as core
from bench.core.client import Client, Load, pinned_to
from bench.core.contenders import ServerOfTree
from bench.core.frames import Frames, fetch_frames, produce_frames
from bench.findings import say
from bench.warm_up import warm_up
from bench.workloads import settle

PRODUCED: Final = "produced"
RECORD_BYTES: Final = 1_024
PRODUCE: Final = "produce"
FETCH: Final = "fetch"
SMALL: Final = "small"
LOADS: Final = (PRODUCE, FETCH)
"""Of requests that are as large as busy clients make them."""
_SMALL_CONNECTIONS: Final = 16
_SMALL_RECORD_BYTES: Final = 100


class PlainPlan(Protocol):
    """`plain_s`: of each load, behind `plain_warm_s` of its own."""

    @property
    def plain_pairs(self) -> int: ...
    @property
    def plain_warm_s(self) -> float: ...
    @property
    def plain_s(self) -> float: ...
    @property
    def plain_backlog_bytes(self) -> int: ...
    @property
    def warm_ups_max(self) -> int: ...


@dataclass(slots=True)
class _Side:
    """One node. `backlog`: the offsets of its fetches."""

    server: ServerOfTree
    client: Client
    plan: PlainPlan
    backlog: range = range(0)

    def put(self, load: Load, warm_s: float, seconds: float) -> dict[str, Any]:
        """Raises LoadFailed."""
        settle()
        processes = {self.server.name: self.server.pid}
        found = self.client.put(self.server.port, processes, load, warm_s=warm_s, seconds=seconds)
        return {**found, "value_bytes": found["answers"] * load.frames.records * load.frames.record_bytes}

    def produce(self, topic: str = PRODUCED) -> dict[str, Any]:
        load = Load(_frames(topic), core.PRODUCERS, core.IN_FLIGHT)
        return self.put(load, self.plan.plain_warm_s, self.plan.plain_s)

    def fetch(self) -> dict[str, Any]:
        frames = fetch_frames(core.BACKLOG, core.PARTITIONS, self.backlog)
        load = Load(frames, core.CONSUMERS, 1, 0, core.FETCHED_LEAST)
        return self.put(load, self.plan.plain_warm_s, self.plan.plain_s)

    def small(self) -> dict[str, Any]:
        """Produces of one record, one at a time by each connection."""
        now_ms = int(time.time() * 1000)
        each = [[number] for number in range(core.PARTITIONS)]
        frames = produce_frames(PRODUCED, each, _SMALL_RECORD_BYTES, 1, now_ms)
        return self.put(Load(frames, _SMALL_CONNECTIONS, 1), self.plan.plain_warm_s, self.plan.plain_s)

    def load(self, name: str) -> dict[str, Any]:
        loads = {PRODUCE: self.produce, FETCH: self.fetch, SMALL: self.small}
        return loads[name]()

    def prepare(self) -> dict[str, Any]:
        """Topics, a warm server and a backlog; how it was warmed. Raises LoadFailed, AdminFailed."""
        addresses = [self.server.bootstrap]
        for topic in (PRODUCED, core.BACKLOG):
            create_topic(addresses, create_topics_request(topic, core.PARTITIONS, 1))
            wait_for_leaders(addresses, topic, core.PARTITIONS)
        warmed = warm_up(lambda: float(self.produce()["value_bytes"]), self.plan.warm_ups_max)
        filling = Load(_frames(core.BACKLOG), core.PRODUCERS, core.IN_FLIGHT)
        self.backlog = core.fill(self.server.port, self.plan.plain_backlog_bytes, lambda: self.put(filling, 0, 0.5))
        self.fetch()
        return warmed


def measure(
    trees: Mapping[str, Path],
    directory: Path,
    client: Client,
    server_core: int,
    plan: PlainPlan,
    pairs: list[dict[str, Any]],
    loads: Sequence[str] = LOADS,
) -> None:
    """`trees`: the sources of both sides, by name. `pairs` is given each pair as it comes. Raises LoadFailed, AdminFailed."""
    with ExitStack() as running:
        sides = {}
        for name, tree in trees.items():
            sides[name] = _Side(running.enter_context(_server(directory / name, tree, server_core)), client, plan)
        warmed = {name: side.prepare() for name, side in sides.items()}
        for number in range(plan.plain_pairs):
            pair: dict[str, Any] = {"order": list(sides)[:: 1 if number % 2 == 0 else -1]}
            found: dict[str, dict[str, Any]] = {name: {"warm_up": warmed[name]} for name in sides}
            for load in loads:
                for name in pair["order"]:
                    found[name][load] = sides[name].load(load)
            pairs.append({**pair, **found})
            say(f"  pair {number + 1} of {plan.plain_pairs}")


@contextmanager
def _server(directory: Path, tree: Path, server_core: int) -> Iterator[ServerOfTree]:
    """Gone afterwards, with its directory."""
    shutil.rmtree(directory, ignore_errors=True)
    server = ServerOfTree(directory, tree)
    try:
        with pinned_to([server_core]):
            server.start()
        yield server
    finally:
        server.close()
        shutil.rmtree(directory, ignore_errors=True)


def _frames(topic: str) -> Frames:
    """Requests of a busy producer: each takes a batch to every partition."""
    now_ms = int(time.time() * 1000)
    return produce_frames(topic, [range(core.PARTITIONS)], RECORD_BYTES, core.BATCH_1K, now_ms)
