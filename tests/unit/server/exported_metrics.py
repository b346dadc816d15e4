"""All metrics that servers export, for tests of their names and of what is made with them."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from bmq.admin.logged_errors import LoggedErrors
from bmq.broker.append_budget import AppendBudget
from bmq.broker.tail_cache import TailCache
from bmq.controller.metrics import ActiveControllerMetrics
from bmq.hdfs.bad_nodes import BadNodes
from bmq.hdfs.metrics import HdfsCollector
from bmq.hdfs.read_counts import ReadCounts
from bmq.routing.metrics import RouterCollector, RouterCounts
from bmq.server.build_info import BuildInfo
from bmq.server.settings import load_settings
from bmq.server.standalone import StandaloneServer
from bmq.server.trace_stats import TraceStats
from tests.fakes.store import FakeStore
from tests.simulation.clock import SimulatedClock
from tests.simulation.loop import VirtualTimeLoop
from tests.simulation.network import Network

_SUFFIXES: Final = {"counter": "_total", "info": "_info"}


def exported_families() -> list[Metric]:
    """What a standalone server exports, and what only nodes do."""
    loop = VirtualTimeLoop(time_limit_s=600.0)
    Network(loop, Random(1))
    registry = CollectorRegistry()

    async def exported() -> list[Metric]:
        settings = load_settings({"listen": "server:9092"}, None).settings
        server = StandaloneServer(settings, FakeStore().client("server"), SimulatedClock(loop), Random(1))
        await server.start()
        server.register_metrics(registry)
        registry.register(HdfsCollector(ReadCounts(), BadNodes(1.0), []))
        registry.register(RouterCollector(RouterCounts(), TailCache(1), AppendBudget(1), lambda: {"ready": 1}))
        registry.register(ActiveControllerMetrics(lambda: None))
        registry.register(LoggedErrors(lambda: 0))
        registry.register(BuildInfo())
        registry.register(TraceStats())
        found = list(registry.collect())
        await server.stop()
        return found

    try:
        return loop.run_until_complete(exported())
    finally:
        loop.discard()


def exported_names(families: Iterable[Metric]) -> set[str]:
    """The names as Prometheus stores them, those of a histogram's series too."""
    found: set[str] = set()
    for family in families:
        found.add(family.name + _SUFFIXES.get(family.type, ""))
        if family.type == "histogram":
            found |= {f"{family.name}_{part}" for part in ("bucket", "sum", "count")}
    return found
