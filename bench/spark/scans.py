"""The contenders' scans of a topic, and what is measured meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.cluster.admin import reassign
from bench.cluster.moves import MOVE_WAIT_S, next_broker
from bench.cluster.sides import BmqSide, wait_for_owner
from bench.cluster.stage import Stage
from bench.spark.criteria import CONNECTOR, CONNECTOR_ON_KAFKA, FULL, LAST_TENTH, NARROW, SOURCE
from bench.spark.memory import MemoryWatch
from bench.spark.scanner import ScanFailed, Scanner
from bench.spark.topics import Topic, last_tenth_ms, offsets_of
from bench.spark.traffic import traffic
from bmq.spark.source.options import read_options
from bmq.spark.source.plan import FilePiece, RangeToRead
from bmq.spark.source.session import Session

SUMS: Final = ("count(*)", "sum(length(value))")
NARROW_SUMS: Final = ("count(*)", "sum(offset)")
NARROW_COLUMNS: Final = {"columns": "offset,timestamp"}


class WrongScan(Exception):
    """A scan read something other than the topic's content."""


@dataclass(frozen=True, slots=True)
class Grounds:
    """Both clusters, and each contender's Spark."""

    stage: Stage
    bmq: BmqSide
    scanners: Mapping[str, Scanner]


@dataclass(frozen=True, slots=True)
class Known:
    """Facts about a topic: where its partitions end, and the time after which about a tenth of its records come."""

    ends: tuple[int, ...]
    last_tenth_ms: int


def known_of(bootstrap: str, topic: Topic) -> Known:
    """Raises FillFailed."""
    ends = tuple(end for _, end in offsets_of(bootstrap, topic).values())
    return Known(ends, last_tenth_ms(bootstrap, topic))


def scan(grounds: Grounds, contender: str, topic: Topic, options: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Scan the topic, or what the options select: `records`, `value_bytes`, `seconds`. Raises WrongScan, ScanFailed."""
    found = grounds.scanners[contender].scan(topic.name, SUMS, options)
    records, value_bytes = (int(value or 0) for value in found.pop("row"))
    if value_bytes != records * topic.record_bytes or (options is None and records != topic.records):
        raise WrongScan(f"{contender} read {records} records of {value_bytes} bytes of {topic}")
    return {"records": records, "value_bytes": value_bytes, **found}


def scan_narrow(grounds: Grounds, topic: Topic, ends: Sequence[int]) -> dict[str, Any]:
    """Scan only offsets and timestamps with the source. `ends`: of all partitions. Raises WrongScan, ScanFailed."""
    found = grounds.scanners[SOURCE].scan(topic.name, NARROW_SUMS, NARROW_COLUMNS)
    records, offsets = (int(value or 0) for value in found.pop("row"))
    expected = sum(end * (end - 1) // 2 for end in ends)
    if records != topic.records or offsets != expected:
        raise WrongScan(
            f"the source read {records} records of {topic}, and the sum of offsets {offsets}, not {expected}"
        )
    return {"records": records, **found}


def all_scans(grounds: Grounds, topic: Topic, known: Known, contender: str) -> dict[str, Any]:
    """One round's scans of a contender. For the source also the bytes that servers sent for it."""
    if contender != SOURCE:
        return {FULL: scan(grounds, contender, topic)}
    found = {}
    for name, options in ((FULL, None), (LAST_TENTH, {"startingTimestamp": str(known.last_tenth_ms)})):
        before = traffic(grounds.bmq, grounds.stage.hdfs)
        found[name] = scan(grounds, contender, topic, options)
        found[name] |= traffic(grounds.bmq, grounds.stage.hdfs).since(before)
    return {**found, NARROW: scan_narrow(grounds, topic, known.ends)}


def executor_memory(grounds: Grounds, topic: Topic) -> dict[str, Any]:
    """Memory during one more scan of the source, which is not timed."""
    with MemoryWatch(grounds.scanners[SOURCE].pid) as watch:
        found = scan(grounds, SOURCE, topic)
    if not watch.most["looks"] or not watch.most["python_processes"]:
        raise ScanFailed(f"no Python process of Spark was seen in {watch.most['looks']} looks")
    return {"topic": topic.name, **watch.most, "jvm_heap_mib": found["heap_mib"]}


# -- Closed segments ---------------------------------------------------------------------------------------------------


def planned(bootstrap: str, topic: Topic) -> list[RangeToRead]:
    """What the source would read of the topic now."""

    async def plan() -> list[RangeToRead]:
        options = read_options({"kafka.bootstrap.servers": bootstrap, "subscribe": topic.name}, is_stream=False)
        async with Session.opened(options) as session:
            return (await session.batch())[0]

    return asyncio.run(plan())


def share_of_files(ranges: Sequence[RangeToRead]) -> float:
    """The share of offsets that are read from closed segments."""
    pieces = [piece for one in ranges for piece in one.pieces]
    total = sum(piece.end_offset - piece.first_offset for piece in pieces)
    in_files = sum(piece.end_offset - piece.first_offset for piece in pieces if isinstance(piece, FilePiece))
    return round(in_files / total, 4)


def close_segments(side: BmqSide, topic: Topic) -> None:
    """Move each partition to the next broker: its open segment is closed, and not in the new owner's memory."""
    for partition, owner in side.owners(topic.name).items():
        target = next_broker(side.broker_ids, owner)
        reassign(side.live_addresses, topic.name, partition, [target])
        wait_for_owner(side, topic.name, partition, target, MOVE_WAIT_S)


def closed_scan(grounds: Grounds, topic: Topic) -> dict[str, Any]:
    """A scan by the source, with the bytes sent for it: `all`, and those from `brokers`.

    Raises WrongScan: not all segments are closed.
    """
    share = share_of_files(planned(grounds.bmq.bootstrap, topic))
    if share < 1:
        raise WrongScan(f"only {share:.2%} of {topic.name} are in closed segments")
    before = traffic(grounds.bmq, grounds.stage.hdfs)
    found = scan(grounds, SOURCE, topic)
    sent = traffic(grounds.bmq, grounds.stage.hdfs).since(before)
    return {
        SOURCE: {FULL: {**found, **sent}},
        "brokers": {"bytes": sent["node_bytes"]},
        "all": {"bytes": sum(sent.values())},
    }


CONTENDERS: Final = (SOURCE, CONNECTOR, CONNECTOR_ON_KAFKA)
