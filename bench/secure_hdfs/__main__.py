"""bmq's HDFS client with Kerberos, in each protection mode: beside itself on an open HDFS, and beside Hadoop's own client.

Each pair is every load on all clients, right after each other and in changing order; the criterion is the median of the
pairs' ratios. Both HDFS have one NameNode and three DataNodes. Writes bench/results/secure_hdfs.json (every sample and the
criteria) and prints a table. Exit code 0 says that it ran; whether a criterion holds is in the file and in the table.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import uvloop

from bench.criteria import BMQ
from bench.findings import Findings, say
from bench.hdfs import loads, takeovers
from bench.hdfs.cluster import bench_cluster
from bench.hdfs.commands import prepare_process
from bench.hdfs.contender import JAVA as JAVA_CLIENT
from bench.hdfs.contender import Contender, ContenderFailed, contender_command
from bench.measure import hadoop_versions
from bench.runner import Bench, main
from bench.secure_hdfs import criteria, tuning
from bench.secure_hdfs.cluster import Site, secure_site
from bench.secure_hdfs.criteria import (
    APPEND,
    BULK,
    JAVA,
    JAVA_OPEN,
    OPEN,
    PRIVACY,
    PROTECTIONS,
    READ,
    READ_ON,
    SECURE,
    STREAM,
    TAKEOVER,
)
from bench.secure_hdfs.plan import Plan, plan_of
from bench.time_limit import seconds_since
from bmq.hdfs.security import Protection
from testing.processes import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

DATA: Final = REPOSITORY / ".cache" / "bench-secure-hdfs"
SEED: Final = 1
BMQ_CLIENT: Final = "fanout"

Work = Callable[[], Awaitable[None]]


class Measuring:
    """Parts of one run on a secure HDFS, beside an open one."""

    def __init__(self, plan: Plan, findings: Findings, secure: Site, opened: Site | None) -> None:
        self._plan = plan
        self._findings = findings
        self._secure = secure
        self._open = opened

    def parts(self, protection: str) -> Mapping[str, Work]:
        """What is measured under this protection."""
        found: dict[str, Work] = {protection: lambda: self._appends(protection)}
        if protection == PRIVACY:
            found |= {BULK: self._bulk, TAKEOVER: self._takeovers}
        return {part: work for part, work in found.items() if part in self._plan.parts}

    async def _appends(self, protection: str) -> None:
        assert self._open is not None
        sites = {
            OPEN: (BMQ_CLIENT, self._open),
            SECURE: (BMQ_CLIENT, self._secure),
            JAVA: (JAVA_CLIENT, self._secure),
            JAVA_OPEN: (JAVA_CLIENT, self._open),
        }
        async with self._contenders(sites) as contenders:
            await self._pairs(protection, (APPEND,), contenders, self._plan.pairs, self._plan.warm_up_rounds)

    async def _bulk(self) -> None:
        plan = self._plan
        sites = {SECURE: (BMQ_CLIENT, self._secure), JAVA: (JAVA_CLIENT, self._secure)}
        async with self._contenders(sites) as contenders:
            await loads.make_read_file(contenders[SECURE], plan.sizes)
            try:
                await self._pairs(BULK, (STREAM, READ, READ_ON), contenders, plan.bulk_pairs, plan.bulk_warm_up_rounds)
            finally:
                await contenders[SECURE].ask("delete", loads.READ_FILE)

    async def _takeovers(self) -> None:
        with self._secure.used_here():
            found = await takeovers.Taker(self._secure.cluster, DATA, SEED).measure(self._plan.takeovers)
        samples = {"wanted": self._plan.takeovers, **takeovers.summary(found), "rounds": [asdict(one) for one in found]}
        self._findings.samples(TAKEOVER, BMQ).update(samples)

    @asynccontextmanager
    async def _contenders(self, sites: Mapping[str, tuple[str, Site]]) -> AsyncIterator[dict[str, Contender]]:
        """By side: a client of its kind at its site."""
        started: dict[str, Contender] = {}
        async with AsyncExitStack() as stack:
            for side, (client, site) in sites.items():
                command = contender_command(
                    client,
                    site.namenode,
                    loads.DIRECTORY,
                    self._plan.sizes.segment_bytes,
                    site.jvm_options,
                    configuration=site.environment.get("HADOOP_CONF_DIR", ""),
                )
                started[side] = await Contender.start(side, command, DATA / f"{side}.log", site.environment)
                stack.push_async_callback(started[side].stop)
            yield started

    async def _pairs(
        self, part: str, names: Sequence[str], contenders: Mapping[str, Contender], wanted: int, warm_up_rounds: int
    ) -> None:
        """Every load by all contenders, right after each other, `wanted` times."""
        pairs = self._findings.pairs(part, wanted)
        for number in range(-warm_up_rounds, wanted):
            say(f"  pair {number + 1} of {wanted}" if number >= 0 else "  warm-up")
            pair: dict[str, Any] = {}
            for load in names:
                # Who comes first changes: neither profits from a machine that slows down or speeds up.
                for side in tuple(contenders)[:: 1 if number % 2 == 0 else -1]:
                    try:
                        found = await loads.run(load, contenders[side], self._plan.sizes)
                    except ContenderFailed as error:
                        found = {"failure": str(error)}
                        self._findings.failed(f"{part}/{load}", f"pair {number + 1}: {side}: {error}")
                    pair.setdefault(side, {})[load] = found
            if number >= 0:
                pairs.append(pair)


async def run(plan: Plan, findings: Findings) -> dict[str, float]:
    """One secure HDFS after the other, beside one open HDFS where something is compared with it."""
    took: dict[str, float] = {}
    async with AsyncExitStack() as stack:
        opened: Site | None = None
        if any(part in PROTECTIONS for part in plan.parts):
            say("an open HDFS starts")
            opened = Site(await stack.enter_async_context(bench_cluster(DATA / "open")))
        for protection in PROTECTIONS:
            wanted = [
                part
                for part in plan.parts
                if part == protection or (protection == PRIVACY and part in (BULK, TAKEOVER))
            ]
            if not wanted:
                continue
            say(f"an HDFS with {protection} starts")
            try:
                async with secure_site(DATA / protection, Protection(protection)) as secure:
                    measuring = Measuring(plan, findings, secure, opened)
                    for part, work in measuring.parts(protection).items():
                        took[part] = await _part(part, work, plan.limit_s, findings)
            except Exception as error:  # HDFS did not start, or did not end
                for part in wanted:
                    findings.failed(part, f"{type(error).__name__}: {error}")
            shutil.rmtree(DATA / protection, ignore_errors=True)
    return took


async def _part(part: str, work: Work, limit_s: float, findings: Findings) -> float:
    """The seconds that it took. An error is noted."""
    say(part)
    began = time.monotonic()
    try:
        async with asyncio.timeout(limit_s):
            await work()
    except Exception as error:
        findings.failed(part, f"{type(error).__name__}: {error}")
    return seconds_since(began)


def measure(plan: Plan, findings: Findings) -> dict[str, float]:
    prepare_process()
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    try:
        return uvloop.run(run(plan, findings))
    except Exception as error:
        for part in plan.parts:
            findings.failed(part, f"{type(error).__name__}: {error}")
        return {}
    finally:
        shutil.rmtree(DATA / "open", ignore_errors=True)


BENCH: Final = Bench(
    name="secure_hdfs",
    doc=__doc__,
    parts=criteria.PARTS,
    names=criteria.PART_OF,
    plan_of=plan_of,
    measure=measure,
    evaluate=criteria.judge,
    definitions={},
    settings=tuning.SETTINGS,
    versions=hadoop_versions,
    data=DATA,
    sides=(BMQ,),
)

if __name__ == "__main__":
    main(BENCH)
