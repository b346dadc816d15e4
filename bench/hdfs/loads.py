"""The loads that clients are put under in alternation, each on a new file and behind a warm-up of its own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final

from bench.hdfs.client import CHECKSUM_CHUNK_BYTES
from bench.hdfs.contender import Contender
from bench.hdfs.figures import latency_summary
from bmq.proxy.fetch_settings import FetchSettings

APPEND_BYTES: Final = 16 * 1024
WINDOW: Final = 64
STREAM_BYTES: Final = 128 * 1024
DIRECTORY: Final = "/bench"
READ_FILE: Final = f"{DIRECTORY}/read"
READ_SIZES: Final = {"read_8m": 8 * 1024 * 1024, "read_1m": 1024 * 1024, "read_64k": 64 * 1024}
READ_ON: Final = "read_on"
"""As a server reads for a consumer that catches up: pieces of fetch.read_chunk_bytes, with read_ahead_chunks_max on their way."""
READ_ON_BYTES: Final = FetchSettings().read_chunk_bytes
READ_ON_AHEAD: Final = FetchSettings().read_ahead_chunks_max

WRITERS: Final = ("fanout", "java", "pipeline")
READERS: Final = ("fanout", "native")
# Which loads a criterion or a ratio beside it asks of whom.
CONTENDERS_OF: Final = {
    "append_16k": WRITERS,
    "append_16k_hsync": ("fanout", "java"),
    "outstanding_64": ("fanout", "java"),
    "stream": WRITERS,
    **dict.fromkeys(READ_SIZES, READERS),
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of each load: appends, and bytes of a stream and of the file that is read."""

    warm_up_appends: int
    appends: int
    synced_appends: int
    outstanding_appends: int
    stream_bytes: int
    read_bytes: int
    # Of the reads that are timed one by one, fewer: they are slow for their bytes.
    small_read_bytes: int

    @property
    def segment_bytes(self) -> int:
        """One block for the largest of all loads, the same for every client."""
        outstanding = (self.outstanding_appends + self.warm_up_appends) * APPEND_BYTES
        return max(self.stream_bytes, self.read_bytes, outstanding) + CHECKSUM_CHUNK_BYTES


FULL: Final = Sizes(200, 2_000, 500, 10_000, 256 << 20, 256 << 20, 32 << 20)
QUICK: Final = Sizes(100, 400, 100, 2_000, 128 << 20, 64 << 20, 8 << 20)
SMOKE: Final = Sizes(8, 50, 10, 200, 8 << 20, 16 << 20, 1 << 20)


async def run(load: str, contender: Contender, sizes: Sizes) -> dict[str, Any]:
    """One load on one client; the raw figures. Raises ContenderFailed."""
    os.sync()  # dirty pages of the load before are not this one's to write
    if load == READ_ON:
        return await _read(contender, READ_ON_BYTES, sizes, sizes.read_bytes, READ_ON_AHEAD)
    if load in READ_SIZES:
        size = READ_SIZES[load]
        return await _read(contender, size, sizes, sizes.small_read_bytes if size < 1 << 20 else sizes.read_bytes)
    path = f"{DIRECTORY}/{contender.name}-{load}"
    try:
        if load == "append_16k":
            return await _append(contender, path, sizes.warm_up_appends, sizes.appends, "hflush")
        if load == "append_16k_hsync":
            return await _append(contender, path, sizes.warm_up_appends // 4, sizes.synced_appends, "hsync")
        if load == "outstanding_64":
            return await _outstanding(contender, path, sizes)
        return await _stream(contender, path, sizes.stream_bytes)
    finally:
        await contender.ask("delete", path)


async def make_read_file(contender: Contender, sizes: Sizes) -> None:
    """The closed file that is read: one block."""
    await contender.ask("stream", READ_FILE, STREAM_BYTES, sizes.read_bytes)


async def _append(contender: Contender, path: str, warm_up: int, count: int, durability: str) -> dict[str, Any]:
    raw = await contender.ask("append", path, APPEND_BYTES, warm_up, count, durability)
    return {**latency_summary(raw["latencies_us"]), "cpu_us_per_ack": raw["cpu_s"] / count * 1e6}


async def _outstanding(contender: Contender, path: str, sizes: Sizes) -> dict[str, Any]:
    count = sizes.outstanding_appends
    raw = await contender.ask("outstanding", path, APPEND_BYTES, sizes.warm_up_appends, count, WINDOW)
    return {"acks_per_s": count / raw["seconds"], "cpu_us_per_ack": raw["cpu_s"] / count * 1e6}


async def _stream(contender: Contender, path: str, total: int) -> dict[str, Any]:
    """Rate and processor time of the client until everything was acknowledged; opening and closing are left out."""
    raw = await contender.ask("stream", path, STREAM_BYTES, total)
    return {"mb_per_s": total / raw["seconds"] / 1e6, "cpu_s_per_gb": raw["cpu_s"] / (total / 1e9)}


async def _read(contender: Contender, size: int, sizes: Sizes, total: int, ahead: int = 0) -> dict[str, Any]:
    length = sizes.read_bytes + CHECKSUM_CHUNK_BYTES
    raw = await contender.ask("read", READ_FILE, length, size, min(total, length), *([ahead] if ahead else []))
    read_bytes = raw["bytes"]
    return {
        **latency_summary(raw["latencies_us"]),
        "mb_per_s": read_bytes / raw["seconds"] / 1e6,
        "cpu_s_per_gb": raw["cpu_s"] / (read_bytes / 1e9),
    }
