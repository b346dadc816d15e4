"""bmq's HDFS client beside Hadoop's DFSOutputStream and hdfs-native, and takeovers, on one NameNode and three DataNodes.

    python -m bench.hdfs [--quick] [--pairs N] [--only PART] [--results FILE] [--namenode HOST:PORT]

Each pair is one load on both clients, right after each other and in changing order; the criterion is the median of the
pairs' ratios. Writes bench/results/hdfs.json (every sample and the criteria) and prints a table. Exit code 0 says that it
ran; whether a criterion holds is in the file and in the table. With --namenode an HDFS that is there is used, and the
parts that stop DataNodes are left out.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any, Final

import uvloop

from bench.hdfs import criteria, loads, rolling, takeovers
from bench.hdfs.client import CHECKSUM_CHUNK_BYTES, address_of, open_store
from bench.hdfs.cluster import BenchCluster, bench_cluster
from bench.hdfs.commands import prepare_process
from bench.hdfs.contender import Contender, ContenderFailed
from bench.measure import machine_facts, versions
from bench.table import absolute_lines, spread_cells, verdict_text
from bmq.hdfs.config import Address
from tests.support.java import class_path, java_executable
from tests.support.processes import JARS, REPOSITORY

PAIRS: Final = 9
WARM_UP_ROUNDS: Final = 2  # of every load on every client, so that a JVM has compiled what runs often
QUICK_PAIRS: Final = 3
DATA: Final = REPOSITORY / ".cache" / "bench-hdfs"
RESULTS: Final = REPOSITORY / "bench" / "results" / "hdfs.json"
PARTS: Final = (*loads.CONTENDERS_OF, "takeover", "takeover_dead_datanode", "takeover_hung_datanode", "roll")
HURTING: Final = ("takeover_dead_datanode", "takeover_hung_datanode")
# Hadoop's client under the options a server would give it.
JVM_OPTIONS: Final = ("-Xmx512M", "-server", "-XX:+UseG1GC", "-Djava.awt.headless=true")
SEED: Final = 1


def say(text: str) -> None:
    print(f"[{datetime.now(UTC):%H:%M:%S}] {text}", flush=True)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run, and how much of it."""

    parts: tuple[str, ...]
    pairs: int
    sizes: loads.Sizes
    takeovers: int
    dead_datanode_rounds: int
    hung_datanode_rounds: int
    rolls: int

    @property
    def loads(self) -> tuple[str, ...]:
        return tuple(part for part in self.parts if part in loads.CONTENDERS_OF)


def plan_of(parts: tuple[str, ...], pairs: int | None, quick: bool) -> Plan:
    if quick:
        return Plan(parts, pairs or QUICK_PAIRS, loads.QUICK, 15, 1, 1, 6)
    return Plan(parts, pairs or PAIRS, loads.FULL, 200, 3, 5, 40)


@dataclass(slots=True)
class Measured:
    """Everything that was found. `failures`: what was not, by part, each with its reasons."""

    pairs: list[dict[str, Any]] = field(default_factory=list)
    alone: dict[str, Any] = field(default_factory=dict)
    failures: dict[str, list[str]] = field(default_factory=dict)

    def failed(self, part: str, reason: str) -> None:
        self.failures.setdefault(part, []).append(reason)
        say(f"FAILED {part}: {reason}")


async def start_contender(name: str, namenode: Address, sizes: loads.Sizes) -> Contender:
    if name == "java":
        command = [
            *(java_executable(), *JVM_OPTIONS, "-cp", class_path("hadoop")),
            str(Path(__file__).with_name("Contender.java")),
            *(str(namenode), str(CHECKSUM_CHUNK_BYTES), str(sizes.segment_bytes)),
        ]
    else:
        command = [sys.executable, "-m", "bench.hdfs.worker", name, str(namenode)]
        command += [loads.DIRECTORY, str(sizes.segment_bytes)]
    return await Contender.start(name, command, DATA / f"{name}.log")


async def measure_pairs(cluster: BenchCluster, plan: Plan, measured: Measured) -> None:
    """Every load, by all who take part in it right after each other, `plan.pairs` times."""
    names = sorted({name for load in plan.loads for name in loads.CONTENDERS_OF[load]})
    async with AsyncExitStack() as stack:
        contenders: dict[str, Contender] = {}
        for name in names:
            contenders[name] = await start_contender(name, cluster.namenode, plan.sizes)
            stack.push_async_callback(contenders[name].stop)
        if any(load in loads.READ_SIZES for load in plan.loads):
            await loads.make_read_file(contenders["fanout"], plan.sizes)
            stack.push_async_callback(contenders["fanout"].ask, "delete", loads.READ_FILE)
        for number in range(-WARM_UP_ROUNDS, plan.pairs):
            say(f"pair {number + 1} of {plan.pairs}" if number >= 0 else "warm-up")
            pair: dict[str, Any] = {}
            for load in plan.loads:
                # Who comes first changes: neither profits from a machine that slows down or speeds up.
                order = loads.CONTENDERS_OF[load][:: 1 if number % 2 == 0 else -1]
                for name in order:
                    try:
                        pair.setdefault(name, {})[load] = await loads.run(load, contenders[name], plan.sizes)
                    except ContenderFailed as error:
                        measured.failed(load, str(error))
            if number >= 0:
                measured.pairs.append(pair)


async def measure_alone(cluster: BenchCluster, plan: Plan, measured: Measured) -> None:
    """Takeovers and rolls. What fails is named under "failures", the rest is there."""
    taker = takeovers.Taker(cluster, DATA, SEED)
    parts: dict[str, Callable[[], Awaitable[list[takeovers.Takeover]]]] = {
        "takeover": lambda: taker.measure(plan.takeovers),
        "takeover_dead_datanode": lambda: taker.measure_dead_datanode(plan.dead_datanode_rounds),
        "takeover_hung_datanode": lambda: taker.measure_hung_datanode(plan.hung_datanode_rounds),
    }
    if "roll" in plan.parts:
        say("roll")
        try:
            measured.alone["roll"] = await measure_rolls(cluster, plan.rolls)
        except Exception as error:
            measured.failed("roll", f"{type(error).__name__}: {error}")
    done: list[takeovers.Takeover] = []
    for part, run in parts.items():
        if part not in plan.parts:
            continue
        if part in HURTING and not cluster.can_be_hurt:
            measured.failed(part, "the DataNodes of a cluster that is not our own are not stopped")
            continue
        say(part)
        try:
            found = await run()
        except Exception as error:
            measured.failed(part, f"{type(error).__name__}: {error}")
            continue
        measured.alone[part] = takeovers.summary(found)
        measured.alone[part]["takeovers"] = [asdict(one) for one in found]
        done += found
    failed = [reason for part in parts for reason in measured.failures.get(part, ())]
    if failed:
        measured.failures["takeover_contents"] = failed
    elif done:
        contents = takeovers.summary(done)
        measured.alone["takeover_contents"] = {name: contents[name] for name in ("lost_or_doubled", "problems")}


async def measure_rolls(cluster: BenchCluster, rolls: int) -> dict[str, Any]:
    root = f"/rolls-{time.time_ns()}"  # a log of its own: an earlier run's would be taken over
    store = await open_store(cluster.namenode, root, Random(SEED))
    try:
        return await rolling.measure(store, rolls)
    finally:
        await store.close()


def table(result: dict[str, Any]) -> str:
    """The figures for people: medians of both sides, ratios with their spread, and what holds."""
    pairs = result["pairs"]
    verdicts = {criterion["id"]: criterion for criterion in result["criteria"]}
    lines = [f"{'':46}{'bmq':>10}{'rival':>10}  {'':7}{'ratio min':>10}{'median':>8}{'max':>8}  bound"]
    for ratio in (*criteria.RATIOS, *criteria.MORE_RATIOS):
        values = criteria.pair_ratios(ratio, pairs)
        cells = [f"{ratio.what} [{ratio.unit}]".ljust(46)]
        for side in (ratio.ours, ratio.theirs):
            figures = criteria.figures_of(ratio, pairs, side)
            cells.append(f"{statistics.median(figures):10.4g}" if figures else f"{'-':>10}")
        cells.append(f"  {ratio.theirs[0]:7}")
        cells.append(spread_cells(values, (10, 8, 8)))
        if ratio.id in verdicts:
            cells.append(verdict_text(verdicts[ratio.id]))
        lines.append("".join(cells))
    return "\n".join((*lines, "", *absolute_lines(criteria.ABSOLUTES, verdicts, 46, 10)))


async def run(plan: Plan, namenode: Address | None, results: Path, quick: bool) -> None:
    began = time.monotonic()
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    result: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": quick,
        "machine": machine_facts(DATA),
        "versions": hdfs_versions(),
        "plan": asdict(plan),
    }
    measured = Measured()
    say("HDFS starts")
    async with bench_cluster(DATA / "cluster", namenode) as cluster:
        if plan.loads:
            try:
                await measure_pairs(cluster, plan, measured)
            except Exception as error:
                for load in plan.loads:
                    measured.failed(load, f"{type(error).__name__}: {error}")
        await measure_alone(cluster, plan, measured)
    shutil.rmtree(DATA / "cluster", ignore_errors=True)
    result.update(asdict(measured))
    result["duration_s"] = round(time.monotonic() - began, 1)
    result["ratios"] = criteria.ratio_spreads(measured.pairs)
    result["criteria"] = criteria.evaluate(measured.pairs, measured.alone, measured.failures)
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps(result, indent=1) + "\n")
    print(table(result))
    print(f"\n{results} written after {result['duration_s']:.0f} s")


def hdfs_versions() -> dict[str, str]:
    """Versions of everything that takes part."""
    hadoop = next(iter((JARS / "hadoop").glob("hadoop-hdfs-client-*.jar"))).stem.removeprefix("hadoop-hdfs-client-")
    taking_part = ("bmq", "python", "java")
    known = {name: value for name, value in versions().items() if name in taking_part}
    return {**known, "hadoop": hadoop, "hdfs-native": version("hdfs-native")}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pairs", type=int)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--only", choices=PARTS, action="append", help="this part alone; may be given several times")
    options.add_argument("--results", type=Path, default=RESULTS)
    options.add_argument("--namenode", type=address_of, metavar="HOST:PORT", help="use this HDFS, and do not hurt it")
    given = options.parse_args()
    prepare_process()
    plan = plan_of(tuple(given.only or PARTS), given.pairs, given.quick)
    uvloop.run(run(plan, given.namenode, given.results, given.quick))
    sys.exit(0)


if __name__ == "__main__":
    main()
