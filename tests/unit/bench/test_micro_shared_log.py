"""The benchmark of a shared log goes on knowing what a store has to have, and both of its ways write every batch."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from random import Random

import pytest

from bench.micro_append import InstantStore
from bench.micro_shared_log import (
    INDEX_ENTRY,
    INDEX_HEAD,
    INDEX_MARK,
    OwnFiles,
    SharedFile,
    batch_stream,
    measure,
    open_ways,
)
from bmq.log.store import Buffer

pytestmark = pytest.mark.campaign("unit")

ARRIVED = [(2, b"first"), (0, b"second"), (2, b"third")]


class KeepingWriter:
    """Keeps what each append had."""

    replicas = 1
    path = ""
    file_id = 1
    accepted_bytes = 0
    is_broken = False

    def __init__(self) -> None:
        self.appended: list[bytes] = []

    def append(self, buffers: Sequence[Buffer]) -> asyncio.Future[int]:
        self.appended.append(b"".join(buffers))
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        answer.set_result(0)
        return answer

    async def prove_ownership(self) -> None: ...

    async def mend(self) -> int:
        return 0

    async def close(self) -> int:
        return 0

    def abandon(self) -> None: ...


@pytest.mark.parametrize("rate_per_s", [0.0, 5_000.0])
@pytest.mark.parametrize("name", ["own", "shared"])
async def test_a_run_ends_when_all_is_acknowledged(name: str, rate_per_s: float) -> None:
    way = (await open_ways(InstantStore(), (6,)))[6][name]  # type: ignore[arg-type]
    sample = await measure(way, 6, rate_per_s, 0.02, 1, [os.getpid()])
    assert sample.batches_per_s > 0
    assert sample.batches_per_append >= 1
    assert sample.p50_ms <= sample.p99_ms


async def test_own_files_get_one_append_each() -> None:
    writers = [KeepingWriter() for _ in range(3)]
    counts: list[int] = []
    OwnFiles(writers).append(ARRIVED, lambda count, _: counts.append(count))
    await asyncio.sleep(0)
    assert [writer.appended for writer in writers] == [[b"second"], [], [b"firstthird"]]
    assert sorted(counts) == [1, 2]


async def test_a_shared_file_gets_one_append_that_tells_the_batches_apart() -> None:
    writer = KeepingWriter()
    counts: list[int] = []
    SharedFile(writer).append(ARRIVED, lambda count, _: counts.append(count))
    await asyncio.sleep(0)
    (data,) = writer.appended
    assert INDEX_HEAD.unpack_from(data) == (INDEX_MARK, len(ARRIVED))
    begin = INDEX_HEAD.size + INDEX_ENTRY.size * len(ARRIVED)
    entries = INDEX_ENTRY.iter_unpack(data[INDEX_HEAD.size : begin])
    found = [(partition, data[begin + at : begin + at + length]) for partition, length, at in entries]
    assert found == ARRIVED
    assert counts == [len(ARRIVED)]


def test_the_stream_is_that_of_its_seed_and_reaches_every_partition() -> None:
    def first(seed: int) -> list[tuple[int, Buffer]]:
        stream = batch_stream(6, Random(seed))
        return [next(stream) for _ in range(200)]

    assert {partition for partition, _ in first(1)} == set(range(6))
    assert [partition for partition, _ in first(1)] == [partition for partition, _ in first(1)]
    assert [partition for partition, _ in first(1)] != [partition for partition, _ in first(2)]
