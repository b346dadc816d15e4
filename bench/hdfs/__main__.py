"""bmq's HDFS client beside Hadoop's DFSOutputStream and hdfs-native, and takeovers, on one NameNode and three DataNodes.

Each pair is every load on all clients, right after each other and in changing order; the criterion is the median of the
pairs' ratios. Writes bench/results/hdfs.json (every sample and the criteria) and prints a table. Exit code 0 says that it
ran; whether a criterion holds is in the file and in the table.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from importlib.metadata import version
from random import Random
from typing import Any, Final

import uvloop

from bench.criteria import BMQ
from bench.findings import Findings, say
from bench.hdfs import criteria, loads, rolling, takeovers, tuning
from bench.hdfs.client import open_store
from bench.hdfs.cluster import BenchCluster, bench_cluster
from bench.hdfs.commands import prepare_process
from bench.hdfs.contender import JVM_OPTIONS, Contender, ContenderFailed, contender_command
from bench.hdfs.plan import Plan, plan_of
from bench.measure import hadoop_versions
from bench.runner import Bench, main
from bench.time_limit import seconds_since
from bmq.hdfs.config import Address
from testing.processes import REPOSITORY

DATA: Final = REPOSITORY / ".cache" / "bench-hdfs"
SEED: Final = 1


# -- Loads ---------------------------------------------------------------------------------------------------------------


async def start_contender(name: str, namenode: Address, sizes: loads.Sizes, jvm_options: Sequence[str]) -> Contender:
    command = contender_command(name, namenode, loads.DIRECTORY, sizes.segment_bytes, jvm_options)
    return await Contender.start(name, command, DATA / f"{name}.log")


async def measure_pairs(
    part: str, cluster: BenchCluster, plan: Plan, wanted: int, jvm_options: Sequence[str], findings: Findings
) -> None:
    """Every load, by all who take part in it right after each other, `wanted` times."""
    names = sorted({name for taking_part in loads.CONTENDERS_OF.values() for name in taking_part})
    pairs = findings.pairs(part, wanted)
    async with AsyncExitStack() as stack:
        contenders: dict[str, Contender] = {}
        for name in names:
            contenders[name] = await start_contender(name, cluster.namenode, plan.sizes, jvm_options)
            stack.push_async_callback(contenders[name].stop)
        await loads.make_read_file(contenders["fanout"], plan.sizes)
        stack.push_async_callback(contenders["fanout"].ask, "delete", loads.READ_FILE)
        for number in range(-plan.warm_up_rounds, wanted):
            say(f"  pair {number + 1} of {wanted}" if number >= 0 else "  warm-up")
            pair: dict[str, Any] = {}
            for load, taking_part in loads.CONTENDERS_OF.items():
                # Who comes first changes: neither profits from a machine that slows down or speeds up.
                for name in taking_part[:: 1 if number % 2 == 0 else -1]:
                    try:
                        found = await loads.run(load, contenders[name], plan.sizes)
                    except ContenderFailed as error:
                        found = {"failure": str(error)}
                        findings.failed(f"{part}/{load}", f"pair {number + 1}: {name}: {error}")
                    pair.setdefault(name, {})[load] = found
            if number >= 0:
                pairs.append(pair)


# -- bmq alone -----------------------------------------------------------------------------------------------------------


def noted(part: str, wanted: int, found: list[takeovers.Takeover], findings: Findings) -> None:
    samples = {"wanted": wanted, **takeovers.summary(found), "rounds": [asdict(one) for one in found]}
    findings.samples(part, BMQ).update(samples)


async def measure_rolls(cluster: BenchCluster, rolls: int) -> dict[str, Any]:
    root = f"/rolls-{time.time_ns()}"  # a log of its own: an earlier run's would be taken over
    store = await open_store(cluster.namenode, root, Random(SEED))
    try:
        return await rolling.measure(store, rolls)
    finally:
        await store.close()


# -- The run -------------------------------------------------------------------------------------------------------------


async def run(plan: Plan, findings: Findings) -> dict[str, float]:
    """Parts on one cluster, then those on a cluster of JVMs as they come."""
    took: dict[str, float] = {}
    if any(part != criteria.JVM_DEFAULTS for part in plan.parts):
        say("HDFS starts")
        async with bench_cluster(DATA / "cluster") as cluster:
            await _parts(_on_one_cluster(cluster, plan, findings), plan, findings, took)
    shutil.rmtree(DATA / "cluster", ignore_errors=True)
    if criteria.JVM_DEFAULTS in plan.parts:
        say("HDFS starts with the defaults of all JVMs")
        async with bench_cluster(DATA / "cluster", is_jvm_default=True) as cluster:

            async def pairs() -> None:
                await measure_pairs(criteria.JVM_DEFAULTS, cluster, plan, plan.default_pairs, (), findings)

            await _parts({criteria.JVM_DEFAULTS: pairs}, plan, findings, took)
    return took


def _on_one_cluster(cluster: BenchCluster, plan: Plan, findings: Findings) -> dict[str, Callable[[], Awaitable[None]]]:
    taker = takeovers.Taker(cluster, DATA, SEED)
    whole, dead, hung = criteria.TAKEOVERS

    async def pairs() -> None:
        await measure_pairs(criteria.LOADS, cluster, plan, plan.pairs, JVM_OPTIONS, findings)

    async def roll() -> None:
        findings.samples(criteria.ROLL, BMQ).update(await measure_rolls(cluster, plan.rolls))

    async def takeover() -> None:
        noted(whole, plan.takeovers, await taker.measure(plan.takeovers), findings)

    async def dead_datanode() -> None:
        wanted = plan.dead_datanode_rounds * takeovers.DEAD_NODE_FILES
        noted(dead, wanted, await taker.measure_dead_datanode(plan.dead_datanode_rounds), findings)

    async def hung_datanode() -> None:
        wanted = plan.hung_datanode_rounds * takeovers.HUNG_NODE_FILES
        noted(hung, wanted, await taker.measure_hung_datanode(plan.hung_datanode_rounds), findings)

    # Rolls before DataNodes are hurt.
    return {
        criteria.LOADS: pairs,
        criteria.ROLL: roll,
        whole: takeover,
        dead: dead_datanode,
        hung: hung_datanode,
    }


async def _parts(
    runs: dict[str, Callable[[], Awaitable[None]]], plan: Plan, findings: Findings, took: dict[str, float]
) -> None:
    for part, work in runs.items():
        if part not in plan.parts:
            continue
        say(part)
        began = time.monotonic()
        try:
            async with asyncio.timeout(plan.limit_s):
                await work()
        except Exception as error:
            findings.failed(part, f"{type(error).__name__}: {error}")
        took[part] = seconds_since(began)


def measure(plan: Plan, findings: Findings) -> dict[str, float]:
    prepare_process()
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    try:
        return uvloop.run(run(plan, findings))
    except Exception as error:  # HDFS did not start, or did not end
        for part in plan.parts:
            findings.failed(part, f"{type(error).__name__}: {error}")
        return {}


def hdfs_versions() -> dict[str, str]:
    """Versions of everything that takes part."""
    return {**hadoop_versions(), "hdfs-native": version("hdfs-native")}


BENCH: Final = Bench(
    name="hdfs",
    doc=__doc__,
    parts=criteria.PARTS,
    names=criteria.PART_OF,
    plan_of=plan_of,
    measure=measure,
    evaluate=criteria.judge,
    definitions=criteria.DEFINITIONS,
    settings=tuning.SETTINGS,
    versions=hdfs_versions,
    data=DATA,
    sides=(BMQ,),
)

if __name__ == "__main__":
    main(BENCH)
