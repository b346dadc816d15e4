"""Produce: batches broken in some five hundred ways, compressed and not, and what is stored of those that are taken."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.conformance.broken_batches import CODECS, ways
from tests.conformance.case import Cases
from tests.conformance.cases.data import produce
from tests.conformance.world import World

CASES: Final = Cases()
PRODUCE: Final = 0
VERSION: Final = 9
MAX_TIMESTAMP: Final = -3
_NOW_MS: Final = int(time.time() * 1000)
_WAYS: Final = {codec: tuple(ways(codec, _NOW_MS)) for codec in range(len(CODECS))}


def topic_of(world: World, codec: int) -> str:
    """One topic for all batches of a codec, each in a partition of its own."""
    name: str = world.shared(
        f"broken {CODECS[codec]}", lambda: world.topic(f"broken-{CODECS[codec]}", partitions=len(_WAYS[codec]))
    )
    return name


def stored(codec: int, partition: int) -> Callable[[World, int, Mapping[str, Any]], Any]:
    def look(world: World, version: int, answer: Mapping[str, Any]) -> Any:
        if answer["responses"][0]["partition_responses"][0]["error_code"]:
            return None
        topic = topic_of(world, codec)
        asked = {"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        fetched = world.call(
            1, 12, max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=[{"topic": topic, "partitions": [asked]}]
        )
        place = {"partition_index": partition, "timestamp": MAX_TIMESTAMP}
        listed = world.call(2, 7, replica_id=-1, topics=[{"name": topic, "partitions": [place]}])
        newest = listed["topics"][0]["partitions"][0]
        records = fetched["responses"][0]["partitions"][0]["records"]
        return {
            "records": records,
            "times": [one - _NOW_MS for one in struct.unpack_from(">qq", records, 27)],
            "newest": [newest["error_code"], newest["timestamp"] - _NOW_MS, newest["offset"]],
        }

    return look


def declare(codec: int, partition: int, name: str, records: bytes) -> None:
    def build(world: World, version: int) -> Any:
        return produce(world, {topic_of(world, codec): {partition: records}})

    CASES.add(
        PRODUCE,
        f"{CODECS[codec]}: {name}",
        since=VERSION,
        until=VERSION,
        after=stored(codec, partition),
    )(build)


for _codec, _found in _WAYS.items():
    for _partition, (_name, _records) in enumerate(_found):
        declare(_codec, _partition, _name, _records)
