"""How long it takes to close a file that another owner still writes, left idle, or died with; and what is in it then.

Timed from the first RPC of `take_over` to the verified closed length, in a process of its own. Afterwards every byte of
the file is compared with what its owner sent, and its length with what was acknowledged to that owner.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from bench.hdfs.client import open_store
from bench.hdfs.cluster import BenchCluster
from bench.hdfs.contender import Contender
from bench.hdfs.figures import latency_summary
from bench.hdfs.old_owner import acknowledged_bytes, make_counts
from bench.hdfs.pattern import problem
from bmq.hdfs.store import HdfsStore

KINDS: Final = ("busy", "idle", "dead")
BUSY_BYTES: Final = 512 * 1024  # acknowledged to a busy owner before somebody takes its file
BUSY_TIMEOUT_S: Final = 20.0
POLL_S: Final = 0.002
FILES_PER_OWNER: Final = 5  # of each kind
DEAD_NODE_FILES: Final = 8
HUNG_NODE_FILES: Final = 3


@dataclass(frozen=True, slots=True)
class Takeover:
    """One of them. `ended`: the error by which a living old owner learnt of it."""

    kind: str
    ms: float
    length_bytes: int
    acknowledged_bytes: int
    ended: str
    problem: str | None


class Taker:
    """Opens files in other processes and takes them over in this one."""

    def __init__(self, cluster: BenchCluster, directory: Path, seed: int) -> None:
        self._cluster = cluster
        self._directory = directory
        self._root = "/takeover"
        self._random = Random(seed)
        self._numbers = itertools.count()
        self._owners = itertools.count()

    async def measure(self, count: int) -> list[Takeover]:
        """`count` takeovers, busy, idle and dead owners in turn, by one client that lives on."""
        done: list[Takeover] = []
        async with self._store() as store:
            while len(done) < count:
                for kind in KINDS:
                    async with self._owner() as owner:
                        left = min(FILES_PER_OWNER, count - len(done))
                        done += [found async for found in self._take(owner, kind, left, lambda: _same(store))]
        return done

    async def measure_dead_datanode(self, rounds: int) -> list[Takeover]:
        """A DataNode is killed after the files were written; each file is taken by a client that does not know yet."""
        return [
            found
            for number in range(rounds)
            for found in await self._hurt(
                number, DEAD_NODE_FILES, self._cluster.kill_datanode, self._cluster.restart_datanode
            )
        ]

    async def measure_hung_datanode(self, rounds: int) -> list[Takeover]:
        """A DataNode is stopped by SIGSTOP: its connections stay and nothing comes back."""
        return [
            found
            for number in range(rounds)
            for found in await self._hurt(
                number, HUNG_NODE_FILES, self._cluster.pause_datanode, self._cluster.resume_datanode
            )
        ]

    async def _hurt(
        self,
        number: int,
        files: int,
        hurt: Callable[[int], Awaitable[None]],
        heal: Callable[[int], Awaitable[None]],
    ) -> list[Takeover]:
        """A dead owner and a DataNode in trouble: what is left of a machine that ran both."""
        node = number % self._cluster.datanode_count
        async with self._owner() as owner:
            try:
                return [found async for found in self._take(owner, "dead", files, self._store, lambda: hurt(node))]
            finally:
                await heal(node)
                await self._cluster.wait_until_live()

    async def _take(
        self,
        owner: _Owner,
        kind: str,
        files: int,
        store_for: Callable[[], Any],
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> AsyncIterator[Takeover]:
        """Open `files` files, make their owner what `kind` says, and take them one by one. Dead owners die together."""
        numbers = [next(self._numbers) for _ in range(files)]
        for number in numbers:
            await owner.process.ask("open", f"file-{number}", number)
        if kind == "dead":
            for number in numbers:
                await owner.be_busy(number)
            await owner.process.kill()
        if before is not None:
            await before()
        for number in numbers:
            if kind == "busy":
                await owner.be_busy(number)
            async with store_for() as store:
                began_s = time.perf_counter()
                length_bytes = await store.take_over(f"file-{number}", previous_holder=owner.holder)
                ms = (time.perf_counter() - began_s) * 1000
                ended = "" if kind == "dead" else (await owner.process.ask("ended", number))["ended"]
                yield await self._judge(store, owner, kind, number, ms, length_bytes, ended)

    async def _judge(
        self, store: HdfsStore, owner: _Owner, kind: str, number: int, ms: float, length_bytes: int, ended: str
    ) -> Takeover:
        """Look at the file only now, and at the count only after its owner was stopped."""
        path = f"file-{number}"
        acknowledged = acknowledged_bytes(owner.counts_file, number)
        status = await store.status(path)
        wrong: str | None
        if status is None or status.is_open or status.length_bytes != length_bytes:
            wrong = f"take_over said {length_bytes} bytes, and then it was {status}"
        else:
            data = await store.read(path, file_id=status.file_id, position=0, length_bytes=length_bytes)
            wrong = problem(number, data, acknowledged)
        await store.delete(path)
        return Takeover(kind, ms, length_bytes, acknowledged, ended, wrong)

    @asynccontextmanager
    async def _store(self) -> AsyncIterator[HdfsStore]:
        store = await open_store(self._cluster.namenode, self._root, Random(self._random.getrandbits(64)))
        try:
            yield store
        finally:
            await store.close()

    @asynccontextmanager
    async def _owner(self) -> AsyncIterator[_Owner]:
        name = f"old-owner-{next(self._owners)}"
        counts_file = self._directory / f"{name}.counts"
        make_counts(counts_file)
        command = [
            *(sys.executable, "-m", "bench.hdfs.old_owner", str(self._cluster.namenode), self._root, name),
            *(str(counts_file), str(self._random.getrandbits(32))),
        ]
        process = await Contender.start(name, command, self._directory / f"{name}.log")
        try:
            yield _Owner(process, name, counts_file)
        finally:
            await process.kill()


@asynccontextmanager
async def _same(store: HdfsStore) -> AsyncIterator[HdfsStore]:
    yield store


@dataclass(frozen=True, slots=True)
class _Owner:
    process: Contender
    holder: str
    counts_file: Path

    async def be_busy(self, number: int) -> None:
        """Returns when it has been busy for a while."""
        await self.process.ask("busy", number)
        async with asyncio.timeout(BUSY_TIMEOUT_S):
            # The count is another process's: nothing here could be told of it.
            while acknowledged_bytes(self.counts_file, number) < BUSY_BYTES:  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)


def summary(takeovers: Sequence[Takeover]) -> dict[str, Any]:
    """Latencies over all and by kind, and whatever was wrong."""
    kinds = sorted({one.kind for one in takeovers})
    return {
        "all": latency_summary([one.ms * 1000 for one in takeovers]),
        **{kind: latency_summary([one.ms * 1000 for one in takeovers if one.kind == kind]) for kind in kinds},
        "lost_or_doubled": sum(one.problem is not None for one in takeovers),
        "problems": [asdict(one) for one in takeovers if one.problem is not None],
        "acknowledged_mb": sum(one.acknowledged_bytes for one in takeovers) / 1e6,
    }
