"""The loads that one core of a server is put under."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from bench.core.client import Client, Load
from bench.core.frames import PARTITION_FETCH_BYTES, Frames, fetch_frames, produce_frames
from bench.core.plan import Plan
from bench.warm_up import warm_up
from bench.workloads import LoadFailed, settle
from bmq.protocol.compression import Compression
from testing.wire import LATEST_TIMESTAMP, WireClient

PARTITIONS: Final = 6
WARM_UP: Final = "warm-up"
PRODUCED_1K: Final = "produced-1k"
PRODUCED_100B: Final = "produced-100b"
BACKLOG: Final = "backlog"
SMALL: Final = "small"
RATED: Final = "rated"
TOPICS: Final = (WARM_UP, PRODUCED_1K, PRODUCED_100B, BACKLOG, SMALL, RATED)
COMPRESSED: Final = {"produce_lz4": Compression.LZ4, "produce_zstd": Compression.ZSTD}
COMPRESSED_TOPICS: Final = (WARM_UP, *(name.replace("_", "-") for name in COMPRESSED))

# Of the Java producer at its default batch.size of 16 KiB: so many records, header and lengths counted, fit a batch.
BATCH_1K: Final = 15
BATCH_100B: Final = 148
PRODUCERS: Final = 4
IN_FLIGHT: Final = 5  # max.in.flight.requests.per.connection
CONSUMERS: Final = 4
SMALL_CONNECTIONS: Final = 64
RATED_CONNECTIONS: Final = 8
# What a fetch moves on by: the backlog's records of 1 KiB that are surely in one answer.
FETCH_STEP: Final = PARTITION_FETCH_BYTES // 1100
FETCHED_LEAST: Final = (PARTITIONS - 1) * PARTITION_FETCH_BYTES
FILL_S: Final = 1.0
FILLS_MAX: Final = 120


class Target(Protocol):
    @property
    def port(self) -> int: ...
    @property
    def processes(self) -> Mapping[str, int]: ...


def run_all(target: Target, client: Client, plan: Plan, raw: dict[str, Any]) -> None:
    """Every load of plain batches against one fresh server; the figures are put into `raw` as they come."""
    now_ms = int(time.time() * 1000)
    put = _putting(target, client, plan)
    _warm_up(put, plan, raw, now_ms)
    raw["produce_1k"] = put(Load(_all_partitions(PRODUCED_1K, 1024, BATCH_1K, now_ms), PRODUCERS, IN_FLIGHT))
    raw["produce_100b"] = put(Load(_all_partitions(PRODUCED_100B, 100, BATCH_100B, now_ms), PRODUCERS, IN_FLIGHT))
    raw["small_requests"] = put(Load(_one_each(SMALL, 100, 1, now_ms), SMALL_CONNECTIONS, 1))
    offsets = fill(target.port, plan.backlog_bytes, lambda: put(_filling(now_ms), 0, FILL_S))
    raw["fetch"] = put(Load(fetch_frames(BACKLOG, PARTITIONS, offsets), CONSUMERS, 1, 0, FETCHED_LEAST))
    raw["rates"] = [
        {"rate_per_s": rate, **put(Load(_one_each(RATED, 1024, BATCH_1K, now_ms), RATED_CONNECTIONS, IN_FLIGHT, rate))}
        for rate in plan.rates_per_s
    ]


def run_compressed(target: Target, client: Client, plan: Plan, raw: dict[str, Any]) -> None:
    """As run_all, with batches of 100 B records that servers open to check them."""
    now_ms = int(time.time() * 1000)
    put = _putting(target, client, plan)
    _warm_up(put, plan, raw, now_ms)
    for (name, codec), topic in zip(COMPRESSED.items(), COMPRESSED_TOPICS[1:], strict=True):
        frames = produce_frames(topic, [range(PARTITIONS)], 100, BATCH_100B, now_ms, codec)
        raw[name] = put(Load(frames, PRODUCERS, IN_FLIGHT))


def _putting(target: Target, client: Client, plan: Plan) -> Callable[..., dict[str, Any]]:
    def put(load: Load, warm_s: float = plan.warm_s, seconds: float = plan.seconds) -> dict[str, Any]:
        settle()
        found = client.put(target.port, target.processes, load, warm_s=warm_s, seconds=seconds)
        records = found["answers"] * load.frames.records
        return {**found, "records": records, "value_bytes": records * load.frames.record_bytes}

    return put


def _warm_up(put: Callable[..., dict[str, Any]], plan: Plan, raw: dict[str, Any], now_ms: int) -> None:
    warming = Load(_all_partitions(WARM_UP, 1024, BATCH_1K, now_ms), PRODUCERS, IN_FLIGHT)
    raw["warm_up"] = warm_up(lambda: put(warming)["value_bytes"] / plan.seconds, plan.warm_ups_max)


def fill(port: int, backlog_bytes: int, produce: Callable[[], object]) -> range:
    """Produce until every partition of the backlog has so many bytes of values; the offsets to fetch from, so that each
    fetch finds as much as it may take. Raises LoadFailed when that takes too long.
    """
    wanted = backlog_bytes // 1024
    for _ in range(FILLS_MAX):
        if min(_ends(port)) >= wanted:
            return range(0, wanted - 2 * FETCH_STEP, FETCH_STEP)
        produce()
    raise LoadFailed(f"{FILLS_MAX} rounds were not enough for a backlog of {backlog_bytes} bytes in each partition")


def _ends(port: int) -> Iterable[int]:
    with WireClient(port) as wire:
        answers = wire.list_offsets(BACKLOG, range(PARTITIONS), LATEST_TIMESTAMP)
    if any(code for code, _ in answers.values()):
        raise LoadFailed(f"the ends of the backlog are not known: {answers}")
    return [end for _, end in answers.values()]


def _filling(now_ms: int) -> Load:
    return Load(_all_partitions(BACKLOG, 1024, BATCH_1K, now_ms), PRODUCERS, IN_FLIGHT)


def _all_partitions(topic: str, record_bytes: int, batch_records: int, now_ms: int) -> Frames:
    """Requests of a busy producer: each takes a batch to every partition."""
    return produce_frames(topic, [range(PARTITIONS)], record_bytes, batch_records, now_ms)


def _one_each(topic: str, record_bytes: int, batch_records: int, now_ms: int) -> Frames:
    """Requests of a producer that does not wait for more: each takes one batch to one partition, in turn."""
    return produce_frames(topic, [[number] for number in range(PARTITIONS)], record_bytes, batch_records, now_ms)
