"""What a start of a partition costs whose owner was killed: processor time by process, calls, and how long one takes.

    python -m bench.micro_starts [--partitions N] [--rounds N] [--at-once N ...]

One process owns all partitions on an HDFS of its own (three DataNodes, three replicas), each with a batch in an open segment.
In each round it is as if it had died: another owner takes all of them over. Printed are the milliseconds of processor time
for each start until all are served, and of what follows in the background until SETTLE_S later (checkpoints), and the calls
that the NameNode and the DataNodes count. Rounds alternate between the numbers of starts at once; the first round of all is
not printed, as the JVMs compile then.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final
from uuid import UUID

import structlog
import uvloop

from bench.hdfs.client import open_store
from bench.hdfs.cluster import hdfs_cluster
from bench.measure import cpu_seconds
from bench.micro_append import WallClock
from bmq.broker.context import BrokerSettings
from bmq.broker.manager import PartitionManager
from bmq.dev.hdfs import HdfsCluster
from bmq.dev.http_get import http_get
from bmq.dev.namenode_status import jmx_bean
from bmq.log.config import LogConfig
from bmq.log.partition_log import AppendResult, LoneAppend, ProducedBatch, TopicPartition
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.record_batch import parsed_header
from bmq.server.scheduling import run_in_batches

SETTLE_S: Final = 5.0
NAMENODE_CALLS: Final = "Hadoop:service=NameNode,name=RpcDetailedActivityForPort{port}"
DATANODE_CALLS: Final = "Hadoop:service=DataNode,name=DataNodeActivity-*"
DATANODE_COUNTED: Final = ("WriteBlockOpNumOps", "ReadBlockOpNumOps", "FsyncCount")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--at-once", type=int, nargs="*", default=[8])
    chosen = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    run_in_batches()
    with tempfile.TemporaryDirectory(prefix="bmq-starts-") as directory:
        uvloop.run(_run(Path(directory), chosen.partitions, chosen.rounds, chosen.at_once))


async def _run(directory: Path, partitions: int, rounds: int, at_once: Sequence[int]) -> None:
    keys = [TopicPartition(UUID(int=1), number) for number in range(partitions)]
    async with hdfs_cluster(directory / "hdfs", is_jvm_default=False) as hdfs:
        former = await _owner(hdfs, 1, 8)
        await _start(former, keys, 1)
        for number in range(1, 1 + rounds * len(at_once) + 1):
            starts_max = at_once[number % len(at_once)]
            await asyncio.gather(*(_append(former, key) for key in keys))
            await former.context.store.close()  # its files stay open
            heir = await _owner(hdfs, number + 1, starts_max)
            before, calls, began_s = _cpu_s(hdfs), await _calls(hdfs), time.monotonic()
            await _start(heir, keys, number + 1)
            took_s = time.monotonic() - began_s
            served, served_calls = _cpu_s(hdfs), await _calls(hdfs)
            await asyncio.sleep(SETTLE_S)
            settled = _cpu_s(hdfs)
            if number > 1:
                print(
                    f"{starts_max} at once: {partitions} starts in {took_s:.1f} s; ms of CPU for each"
                    f" {_each(before, served, partitions)}, afterwards {_each(served, settled, partitions)};"
                    f" load {os.getloadavg()[0]:.1f}"
                )
                print(f"   calls for each: {_calls_each(calls, served_calls, partitions)}", flush=True)
            former = heir


async def _owner(hdfs: HdfsCluster, number: int, starts_max: int) -> PartitionManager:
    store = await open_store(hdfs.plan.namenodes[0].rpc, "/starts", Random(number))
    settings = BrokerSettings(starts_max=starts_max, start_wait_max_s=120.0, idle_starts_max=0)
    return PartitionManager(store, f"owner-{number}", WallClock(), Random(number), settings)


async def _start(manager: PartitionManager, keys: Sequence[TopicPartition], leader_epoch: int) -> None:
    for key in keys:
        manager.assign(key, leader_epoch, "starts", LogConfig())
    await asyncio.gather(*(manager.leader_of(key) for key in keys))


async def _append(manager: PartitionManager, key: TopicPartition) -> None:
    log = await manager.leader_of(key)
    done: asyncio.Future[AppendResult] = asyncio.get_running_loop().create_future()
    records = memoryview(encode_batch([Record(b"", bytes(100), timestamp_ms=time.time_ns() // 10**6)]))
    log.append(ProducedBatch(LoneAppend(done.set_result), key, records, parsed_header(records)))
    result = await done
    assert result.error_code is ErrorCode.NONE, result


def _cpu_s(hdfs: HdfsCluster) -> dict[str, float]:
    return {
        "node": cpu_seconds(os.getpid()),
        "NameNode": cpu_seconds(_pid(hdfs, "nn0")),
        "DataNodes": sum(cpu_seconds(_pid(hdfs, node.name)) for node in hdfs.plan.datanodes),
    }


def _pid(hdfs: HdfsCluster, name: str) -> int:
    pid = next(daemon.pid for daemon in hdfs.daemons if daemon.name == name)
    assert pid is not None, f"{name} does not run"
    return pid


async def _calls(hdfs: HdfsCluster) -> Counter[str]:
    """What the NameNode counts of each call, and the DataNodes together of each operation."""

    namenode = hdfs.plan.namenodes[0]
    found: Counter[str] = Counter()
    bean = await jmx_bean(namenode.http, NAMENODE_CALLS.format(port=namenode.rpc.port))
    for name, value in bean.items():
        if name.endswith("NumOps") and name[0].isupper():
            found[name.removesuffix("NumOps")] += int(value)
    for node in hdfs.plan.datanodes:
        for one in json.loads(await http_get(node.http, f"/jmx?qry={DATANODE_CALLS}"))["beans"]:
            for name in DATANODE_COUNTED:
                found[name] += int(one.get(name, 0))
    return found


def _each(before: Mapping[str, float], after: Mapping[str, float], count: int) -> dict[str, float]:
    spent = {name: round((after[name] - before[name]) / count * 1000, 1) for name in before}
    return {**spent, "all": round(sum(spent.values()), 1)}


def _calls_each(before: Counter[str], after: Counter[str], count: int) -> dict[str, float]:
    return {name: round(number / count, 2) for name, number in sorted((after - before).items()) if number >= count / 2}


if __name__ == "__main__":
    main()
