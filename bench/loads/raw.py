"""What HDFS can do: raw clients that write one file with three replicas, as fast as they get on."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bench.hdfs.client import CHECKSUM_CHUNK_BYTES
from bench.hdfs.contender import JAVA, Contender, contender_command
from bench.hdfs.loads import STREAM_BYTES
from bmq.hdfs.config import Address

ROOT: Final = "/raw"
CLIENTS: Final = ("fanout", JAVA)
ROUNDS: Final = 3


async def rates(namenode: Address, size_bytes: int, directory: Path) -> dict[str, float]:
    """MB/s by client: bmq's own and Hadoop's, the best of ROUNDS files each. Raises ContenderFailed."""
    segment_bytes = size_bytes + CHECKSUM_CHUNK_BYTES
    found = {}
    for name in CLIENTS:
        command = contender_command(name, namenode, ROOT, segment_bytes)
        found[name] = await _best(await Contender.start(name, command, directory / f"raw-{name}.log"), size_bytes)
    return found


async def _best(contender: Contender, size_bytes: int) -> float:
    """The first file warms the client."""
    found: list[float] = []
    path = f"{ROOT}/{contender.name}"
    try:
        for _ in range(ROUNDS):
            answer = await contender.ask("stream", path, STREAM_BYTES, size_bytes)
            found.append(size_bytes / answer["seconds"] / 1e6)
            await contender.ask("delete", path)
    finally:
        await contender.stop()
    return round(max(found), 1)
