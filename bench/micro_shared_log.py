"""One open file for all partitions of a broker, beside a file for each: what either costs with small batches.

    python -m bench.micro_shared_log [--partitions 6 300 1000] [--rounds 3] [--seconds 3] [--rate 2000] [--pipeline]

bmq's HDFS client, as it is, writes the same stream of record batches to an HDFS of its own (three DataNodes, three replicas):
- `own`: each partition has a file; what a turn of the event loop brings to a partition is one append, as in the broker;
- `shared`: all that a turn brings is one append to one file, behind a header that says which batch is whose.
Both at saturation (a window of batches is on its way; for each that is acknowledged another one comes, for a random partition)
and at a steady rate. Sizes are those that librdkafka makes with its default settings of records of 100 bytes sent to
random partitions of three nodes (BATCH_RECORDS). The broker's own work is in neither: it would be the same for both but for its appends.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import statistics
import tempfile
import time
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from struct import Struct
from typing import Final, Protocol

import uvloop

from bench.hdfs.client import open_store
from bench.hdfs.cluster import hdfs_cluster
from bench.hdfs.figures import percentile
from bench.measure import total_cpu_seconds
from bmq.hdfs.config import WriteMode
from bmq.log.store import Buffer, Durability, SegmentStore, SegmentWriter
from bmq.protocol.batch_records import Record, encode_batch
from bmq.server.scheduling import run_in_batches

RECORD_BYTES: Final = 100
PARTITIONS: Final = (6, 300, 1000)
# By partitions in use: records of the batches, as (share of all batches up to here, records). At 300 as librdkafka 2.16 counts
# them (`batchcnt` of its statistics) while it produces as fast as three nodes take it; at 1,000 with the average that the
# nodes count, 1.7; at 6 between the 11 of 10,000 records a second and the 385 of a producer at full speed.
BATCH_RECORDS: Final[Mapping[int, Sequence[tuple[float, int]]]] = {
    6: ((0.5, 60), (0.75, 90), (0.9, 160), (0.99, 420), (1.0, 900)),
    300: ((0.5, 2), (0.75, 3), (0.9, 5), (0.95, 8), (0.99, 34), (1.0, 60)),
    1000: ((0.6, 1), (0.8, 2), (0.95, 3), (0.99, 6), (1.0, 12)),
}
# Requests of one batch each of a client's three connections, as many of each as make appends of one batch in files of their own.
WINDOW: Final = 3 * 64
POOL: Final = 256  # batches made in advance
SHARED_BYTES: Final = 512 << 20
OWN_BYTES_MIN: Final = 8 << 20
OPENED_AT_ONCE: Final = 16
CREATE_TRIES_MAX: Final = 5
COMPILING_S: Final = 8.0  # of load that is not measured: at first a DataNode's compiler takes most of its time
WARM_UP_S: Final = 1.0
ANSWERS_TIMEOUT_S: Final = 30.0
TICK_S: Final = 0.001
SATURATED: Final = "saturated"

# In front of each shared append: a mark, how many batches; then of each its partition, position behind the index, length.
INDEX_HEAD: Final = Struct(">QI")
INDEX_ENTRY: Final = Struct(">IIQ")
INDEX_MARK: Final = 0x626D7153686C6F67

Arrived = Sequence[tuple[int, Buffer]]
"""Batches of one turn: partition and bytes."""


class TooFewReplicas(Exception):
    """A file that should be measured on three DataNodes got fewer."""


class Way(Protocol):
    """How batches get into files."""

    appends: int
    written_bytes: int

    def append(self, arrived: Arrived, done: Callable[[int, asyncio.Future[int]], object]) -> None:
        """Write what a turn brought; `done` gets how many batches an append had, once all DataNodes have it."""


class OwnFiles:
    """A file for each partition."""

    def __init__(self, writers: Sequence[SegmentWriter]) -> None:
        self._writers = writers
        self.appends = 0
        self.written_bytes = 0

    def append(self, arrived: Arrived, done: Callable[[int, asyncio.Future[int]], object]) -> None:
        of_partition: dict[int, list[Buffer]] = {}
        for number, batch in arrived:
            of_partition.setdefault(number, []).append(batch)
            self.written_bytes += len(batch)
        for number, batches in of_partition.items():
            self.appends += 1
            self._writers[number].append(batches).add_done_callback(partial(done, len(batches)))


class SharedFile:
    """One file for all partitions."""

    def __init__(self, writer: SegmentWriter) -> None:
        self._writer = writer
        self.appends = 0
        self.written_bytes = 0

    def append(self, arrived: Arrived, done: Callable[[int, asyncio.Future[int]], object]) -> None:
        index = [INDEX_HEAD.pack(INDEX_MARK, len(arrived))]
        batches: list[Buffer] = []
        position = 0
        for number, batch in arrived:
            index.append(INDEX_ENTRY.pack(number, len(batch), position))
            batches.append(batch)
            position += len(batch)
        head = b"".join(index)
        self.appends += 1
        self.written_bytes += len(head) + position
        self._writer.append((head, *batches)).add_done_callback(partial(done, len(arrived)))


@dataclass(frozen=True, slots=True)
class Sample:
    """One run. CPU in microseconds per batch, latencies in milliseconds."""

    batches_per_s: float
    mb_per_s: float
    batches_per_append: float
    client_us: float
    datanodes_us: float
    p50_ms: float
    p99_ms: float


class Load:
    """`rate_per_s` 0: as many as are acknowledged, WINDOW on their way. Else so many, whether or not they are acknowledged."""

    def __init__(self, way: Way, stream: Iterator[tuple[int, Buffer]], rate_per_s: float, seconds: float) -> None:
        self._way = way
        self._stream = stream
        self._rate_per_s = rate_per_s
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._is_over = False
        self._is_turn_due = False
        self._began_s = time.perf_counter()
        self._sent = 0
        self._wanted = 0
        self.acknowledged = 0
        self.latencies_us: list[float] = []

    async def run(self) -> float:
        """Seconds until all was acknowledged."""
        self._began_s = time.perf_counter()
        self._loop.call_later(self._seconds, self._stop)
        if self._rate_per_s:
            self._tick()
        else:
            self._want(WINDOW)
        async with asyncio.timeout(self._seconds + ANSWERS_TIMEOUT_S):
            await self._ended
        return time.perf_counter() - self._began_s

    def _tick(self) -> None:
        if self._is_over:
            return
        due = int((time.perf_counter() - self._began_s) * self._rate_per_s) - self._sent
        self._send(due)
        self._loop.call_later(TICK_S, self._tick)

    def _want(self, count: int) -> None:
        self._wanted += count
        if not self._is_turn_due:
            self._is_turn_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_turn_due = False
        wanted, self._wanted = self._wanted, 0
        if not self._is_over:
            self._send(wanted)

    def _send(self, count: int) -> None:
        if count > 0:
            self._sent += count
            self._way.append(list(itertools.islice(self._stream, count)), partial(self._done, time.perf_counter()))

    def _done(self, sent_s: float, count: int, answer: asyncio.Future[int]) -> None:
        if error := answer.exception():
            if not self._ended.done():
                self._ended.set_exception(error)
            return
        self.acknowledged += count
        self.latencies_us += [(time.perf_counter() - sent_s) * 1e6] * count
        if not self._rate_per_s and not self._is_over:
            self._want(count)
        self._end_if_all()

    def _stop(self) -> None:
        self._is_over = True
        self._end_if_all()

    def _end_if_all(self) -> None:
        if self._is_over and self.acknowledged == self._sent and not self._ended.done():
            self._ended.set_result(None)


def batch_stream(partitions: int, random: Random) -> Iterator[tuple[int, Buffer]]:
    """An endless stream of batches for random partitions; `partitions` decides their sizes, too."""
    known = BATCH_RECORDS.get(partitions) or BATCH_RECORDS[min(BATCH_RECORDS, key=lambda one: abs(one - partitions))]
    shares = [share for share, _ in known]
    now_ms = int(time.time() * 1000)
    record = Record(None, bytes(RECORD_BYTES), timestamp_ms=now_ms)
    counts = [known[bisect(shares, random.random())][1] for _ in range(POOL)]
    pool = [bytes(encode_batch([record] * count)) for count in counts]
    while True:
        yield random.randrange(partitions), pool[random.randrange(POOL)]


async def open_file(store: SegmentStore, path: str, segment_bytes: int) -> SegmentWriter:
    """On as many DataNodes as there should be: else it would be an easier load."""
    for _ in range(CREATE_TRIES_MAX):
        writer = await store.create_segment(
            path, holder="bench-writer", durability=Durability.HFLUSH, segment_bytes=segment_bytes
        )
        if writer.replicas == store.replicas_wanted:
            return writer
        await writer.close()
        await store.delete(path)
    raise TooFewReplicas(f"the NameNode gave {path} too few DataNodes, {CREATE_TRIES_MAX} times")


async def open_ways(store: SegmentStore, partitions: Sequence[int]) -> dict[int, dict[str, Way]]:
    """Of each number of partitions. The largest blocks come first: a NameNode counts every block that it has just placed
    with the size of the one that is asked for.
    """
    ways: dict[int, dict[str, Way]] = {}
    for count in partitions:
        await store.make_directory(str(count))
        ways[count] = {"shared": SharedFile(await open_file(store, f"{count}/log", SHARED_BYTES))}
    at_once = asyncio.Semaphore(OPENED_AT_ONCE)

    async def own(count: int, number: int) -> SegmentWriter:
        async with at_once:
            return await open_file(store, f"{count}/{number}.log", max(OWN_BYTES_MIN, SHARED_BYTES // count))

    for count in sorted(partitions):
        ways[count]["own"] = OwnFiles(await asyncio.gather(*(own(count, number) for number in range(count))))
    return ways


async def measure(
    way: Way, partitions: int, rate_per_s: float, seconds: float, seed: int, datanodes: Sequence[int]
) -> Sample:
    """One run of one way. `datanodes`: process ids."""
    load = Load(way, batch_stream(partitions, Random(seed)), rate_per_s, seconds)
    appends, written_bytes = way.appends, way.written_bytes
    client_s, datanodes_s = time.process_time(), total_cpu_seconds(datanodes)
    took_s = await load.run()
    client_s, datanodes_s = time.process_time() - client_s, total_cpu_seconds(datanodes) - datanodes_s
    count = load.acknowledged
    return Sample(
        batches_per_s=count / took_s,
        mb_per_s=(way.written_bytes - written_bytes) / took_s / 1e6,
        batches_per_append=count / (way.appends - appends),
        client_us=client_s / count * 1e6,
        datanodes_us=datanodes_s / count * 1e6,
        p50_ms=percentile(load.latencies_us, 0.5) / 1000,
        p99_ms=percentile(load.latencies_us, 0.99) / 1000,
    )


def summary(samples: Sequence[Sample]) -> str:
    """Least/median/most of each figure."""

    def spread(name: str) -> str:
        values = sorted(getattr(sample, name) for sample in samples)
        return "/".join(f"{value:.4g}" for value in (values[0], statistics.median(values), values[-1]))

    return "  ".join(f"{name} {spread(name)}" for name in Sample.__slots__)


async def run(
    ways: Mapping[int, Mapping[str, Way]], rounds: int, seconds: float, rate_per_s: float, datanodes: Sequence[int]
) -> None:
    """Rounds in which the ways take turns, the first one of a round being the last one of the round before."""
    most = max(ways)
    await measure(ways[most]["own"], most, 0, COMPILING_S, 0, datanodes)
    for partitions, of_partitions in ways.items():
        for way in of_partitions.values():
            await measure(way, partitions, 0, WARM_UP_S, 0, datanodes)
        for rate in (0.0, rate_per_s):
            samples: dict[str, list[Sample]] = {name: [] for name in of_partitions}
            for number in range(rounds):
                for name in sorted(of_partitions, reverse=number % 2 == 1):
                    os.sync()  # dirty pages of the run before are not this one's to write
                    sample = await measure(of_partitions[name], partitions, rate, seconds, number, datanodes)
                    samples[name].append(sample)
            for name, found in samples.items():
                load = f"{rate:.0f}/s" if rate else SATURATED
                print(f"{partitions:5d} partitions {load:10s} {name:7s} {summary(found)}", flush=True)


async def main_on(directory: Path, options: argparse.Namespace) -> None:
    mode = WriteMode.PIPELINE if options.pipeline else WriteMode.FANOUT
    async with hdfs_cluster(directory, is_jvm_default=False) as cluster:
        pids = [pid for daemon in cluster.daemons if daemon.name.startswith("dn") and (pid := daemon.pid)]
        store = await open_store(cluster.namenodes[0], "/shared-log", Random(1), mode)
        try:
            ways = await open_ways(store, options.partitions)
            await run(ways, options.rounds, options.seconds, options.rate, pids)
        finally:
            await store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, nargs="+", default=PARTITIONS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rate", type=float, default=2000.0, help="batches a second of the steady load")
    parser.add_argument(
        "--pipeline", action="store_true", help="one connection for each file, not one to each DataNode"
    )
    options = parser.parse_args()
    run_in_batches()
    with tempfile.TemporaryDirectory() as directory:
        uvloop.run(main_on(Path(directory), options))


if __name__ == "__main__":
    main()
