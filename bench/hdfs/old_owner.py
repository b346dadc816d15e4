"""An owner that will lose its files: writes numbered contents and keeps count of what was acknowledged to it.

    python -m bench.hdfs.old_owner NAMENODE:PORT ROOT HOLDER COUNTS_FILE SEED

    open PATH NUMBER    create the file, write a little, wait for it; it is idle then
    busy NUMBER         go on writing to it for as long as it is let
    ended NUMBER        wait until appends to the file fail (an idle one tries one now); how it ended

The count of acknowledged bytes of file NUMBER is the NUMBERth 64-bit word of COUNTS_FILE, mapped into memory: it is
there still, and exact, when this process was killed.
"""

from __future__ import annotations

import argparse
import asyncio
import mmap
import random
from collections import deque
from pathlib import Path
from typing import Any, Final

import uvloop

from bench.hdfs.client import address_of, open_store
from bench.hdfs.commands import serve
from bench.hdfs.pattern import content
from bmq.hdfs.store import HdfsStore
from bmq.log.store import Appended, Durability, SegmentWriter, StoreError

FILES_MAX: Final = 4096
WORD_BYTES: Final = 8
SEGMENT_BYTES: Final = 64 * 1024 * 1024
APPEND_BYTES_MAX: Final = 32 * 1024
FIRST_APPENDS: Final = 10
WINDOW: Final = 8
PAUSE_S: Final = 0.0005  # between the appends of a busy writer: steady load, and not the most a machine can do
ENDED_TIMEOUT_S: Final = 30.0


def make_counts(path: Path) -> None:
    """An empty counts file."""
    path.write_bytes(bytes(FILES_MAX * WORD_BYTES))


def acknowledged_bytes(path: Path, number: int) -> int:
    """What file `number` was acknowledged, as its owner saw it last."""
    with path.open("rb") as counts:
        counts.seek(number * WORD_BYTES)
        return int.from_bytes(counts.read(WORD_BYTES), "little")


class OwnedFile:
    """One file and its writer."""

    def __init__(self, writer: SegmentWriter, number: int, counts: mmap.mmap, rng: random.Random) -> None:
        self._writer = writer
        self._number = number
        self._counts = counts
        self._random = rng
        self._task: asyncio.Task[str] | None = None

    def append(self) -> Appended:
        data = content(self._number, self._writer.accepted_bytes, self._random.randint(1, APPEND_BYTES_MAX))
        future = self._writer.append((data,))
        future.add_done_callback(self._acknowledged)
        return future

    def _acknowledged(self, future: asyncio.Future[int]) -> None:
        if future.exception() is None:
            begin = self._number * WORD_BYTES
            self._counts[begin : begin + WORD_BYTES] = future.result().to_bytes(WORD_BYTES, "little")

    def be_busy(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._write_on())

    async def _write_on(self) -> str:
        under_way: deque[asyncio.Future[int]] = deque()
        try:
            while self._writer.accepted_bytes < SEGMENT_BYTES - APPEND_BYTES_MAX:
                under_way.append(self.append())  # type: ignore[arg-type]
                if len(under_way) >= WINDOW:
                    await under_way.popleft()
                await asyncio.sleep(PAUSE_S)
        except StoreError as error:
            return type(error).__name__
        # The block is full before anybody took it: from here on it is idle.
        return await self._try_until_refused()

    async def _try_until_refused(self) -> str:
        while True:
            try:
                await self._writer.prove_ownership()
            except StoreError as error:
                return type(error).__name__
            await asyncio.sleep(PAUSE_S)

    async def ended(self) -> str:
        """The class of the error that stopped it."""
        if self._task is None:
            try:
                await self.append()
            except StoreError as error:
                return type(error).__name__
            raise AssertionError(f"file {self._number} was taken over and its old owner was acknowledged an append")
        async with asyncio.timeout(ENDED_TIMEOUT_S):
            return await self._task

    def abandon(self) -> None:
        self._writer.abandon()


class OldOwner:
    def __init__(self, store: HdfsStore, holder: str, counts: mmap.mmap, rng: random.Random) -> None:
        self._store = store
        self._holder = holder
        self._counts = counts
        self._random = rng
        self._files: dict[int, OwnedFile] = {}

    async def open(self, path: str, number: str) -> dict[str, Any]:
        writer = await self._store.create_segment(
            path, holder=self._holder, durability=Durability.HFLUSH, segment_bytes=SEGMENT_BYTES
        )
        file = OwnedFile(writer, int(number), self._counts, self._random)
        self._files[int(number)] = file
        await asyncio.gather(*(file.append() for _ in range(FIRST_APPENDS)))
        return {}

    async def busy(self, number: str) -> dict[str, Any]:
        self._files[int(number)].be_busy()
        return {}

    async def ended(self, number: str) -> dict[str, Any]:
        file = self._files.pop(int(number))
        try:
            return {"ended": await file.ended()}
        finally:
            file.abandon()


async def run(namenode: str, root: str, holder: str, counts_file: Path, seed: int) -> None:
    rng = random.Random(seed)
    store = await open_store(address_of(namenode), root, rng)
    try:
        with counts_file.open("r+b") as file, mmap.mmap(file.fileno(), 0) as counts:
            owner = OldOwner(store, holder, counts, rng)
            await serve({name: getattr(owner, name) for name in ("open", "busy", "ended")})
    finally:
        await store.close()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("namenode")
    options.add_argument("root")
    options.add_argument("holder")
    options.add_argument("counts_file", type=Path)
    options.add_argument("seed", type=int)
    given = options.parse_args()
    uvloop.run(run(given.namenode, given.root, given.holder, given.counts_file, given.seed))


if __name__ == "__main__":
    main()
