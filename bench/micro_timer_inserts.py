"""Microseconds per record produced to a topic with delay, all delayed, beside the same topic without delay.

    python -m bench.micro_timer_inserts [--records N] [--profile]

The broker's partition runtime with a store that is durable at once, as micro_append: from a client's bytes to its callback.
Batches of 16 KiB and 1 MB, of records of 100 B and 1 KiB with one header. `ratio`: records a second with delay to those
without; the client, the network and the real store are missing, which both have. The best of five rounds is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import logging
import pstats
import time
from random import Random
from typing import Final
from uuid import UUID

import structlog

from bench.micro_append import InstantStore, WallClock
from bmq.broker.context import BrokerSettings
from bmq.broker.manager import PartitionManager
from bmq.broker.runtime import PartitionRuntime
from bmq.log.config import LogConfig
from bmq.log.partition_log import AppendResult, LoneAppend, ProducedBatch, TopicPartition
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.record_batch import parsed_header

ROUNDS: Final = 5
DELAY_MS: Final = 3_600_000
CASES: Final = (
    (100, 16_384, Compression.NONE),
    (1024, 16_384, Compression.NONE),
    (100, 1_000_000, Compression.NONE),
    (1024, 1_000_000, Compression.NONE),
    (100, 16_384, Compression.LZ4),
)


def batch_of(record_bytes: int, batch_bytes: int, codec: Compression) -> bytearray:
    now_ms, count = WallClock().now_ms(), max(1, batch_bytes // (record_bytes + 40))
    headers = (("bmq-deliver-after", b"%d" % DELAY_MS),)
    records = [Record(b"key%06d" % number, bytes(record_bytes), headers, now_ms) for number in range(count)]
    return encode_batch(records, compression=codec)


async def partition(config: LogConfig, number: int) -> tuple[PartitionManager, PartitionRuntime]:
    manager = PartitionManager(
        InstantStore(),  # type: ignore[arg-type]
        f"bench-{number}",
        WallClock(),
        Random(1),
        BrokerSettings(),
    )
    place = TopicPartition(UUID(int=number + 1), 0)
    manager.assign(place, 1, "bench", config, 0)
    return manager, await manager.leader_of(place)


async def seconds(log: PartitionRuntime, batch: bytearray, count: int, profile: cProfile.Profile | None) -> float:
    """For so many batches, one after the other's answer."""
    answers = asyncio.Semaphore(0)

    def answered(result: AppendResult) -> None:
        assert result.error_code is ErrorCode.NONE, result
        answers.release()

    copies = [memoryview(bytearray(batch)) for _ in range(count)]
    if profile is not None:
        profile.enable()
    started_s = time.perf_counter()
    for data in copies:
        log.append(ProducedBatch(LoneAppend(answered), log.topic_partition, data, parsed_header(data)))
        await answers.acquire()
    took_s = time.perf_counter() - started_s
    if profile is not None:
        profile.disable()
    return took_s


async def measure(records: int, profile: cProfile.Profile | None) -> None:
    number = 0
    for record_bytes, batch_bytes, codec in CASES:
        batch = batch_of(record_bytes, batch_bytes, codec)
        header = parsed_header(memoryview(batch))
        assert header is not None
        count = max(1, records // header.record_count)
        best: dict[bool, float] = {}
        for _ in range(ROUNDS):
            for is_delayed in (False, True):
                number += 1
                manager, log = await partition(LogConfig(is_delay_enabled=is_delayed), number)
                took_s = await seconds(log, batch, count, profile if is_delayed else None)
                best[is_delayed] = min(best.get(is_delayed, took_s), took_s)
                await manager.close()
        per_us = {key: took_s / (count * header.record_count) * 1e6 for key, took_s in best.items()}
        print(
            f"{record_bytes:5} B records, {header.record_count:5} a batch, {codec.name.lower():6} "
            f"plain {per_us[False]:6.2f} us  delayed {per_us[True]:6.2f} us  ratio {per_us[False] / per_us[True]:.3f}"
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--records", type=int, default=20_000)
    options.add_argument("--profile", action="store_true")
    given = options.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    profile = cProfile.Profile() if given.profile else None
    asyncio.run(measure(given.records, profile))
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
