"""What HDFS can do: raw clients that write one file with three replicas, as fast as they get on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from bench.hdfs.client import CHECKSUM_CHUNK_BYTES
from bench.hdfs.contender import Contender
from bench.hdfs.loads import STREAM_BYTES
from bmq.hdfs.config import Address
from tests.support.java import class_path, java_executable

ROOT: Final = "/raw"
JVM_OPTIONS: Final = ("-Xmx512M", "-server", "-XX:+UseG1GC", "-Djava.awt.headless=true")
CONTENDER: Final = Path(__file__).parents[1] / "hdfs" / "Contender.java"
ROUNDS: Final = 3


async def rates(namenode: Address, size_bytes: int, directory: Path) -> dict[str, float]:
    """MB/s by client: bmq's own and Hadoop's, the best of ROUNDS files each. Raises ContenderFailed."""
    segment_bytes = size_bytes + CHECKSUM_CHUNK_BYTES
    commands = {
        "fanout": [sys.executable, "-m", "bench.hdfs.worker", "fanout", str(namenode), ROOT, str(segment_bytes)],
        "java": [
            *(java_executable(), *JVM_OPTIONS, "-cp", class_path("hadoop"), str(CONTENDER)),
            *(str(namenode), str(CHECKSUM_CHUNK_BYTES), str(segment_bytes)),
        ],
    }
    return {
        name: await _best(await Contender.start(name, command, directory / f"raw-{name}.log"), size_bytes)
        for name, command in commands.items()
    }


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
