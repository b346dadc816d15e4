"""Keeps a small file in HDFS as a witness: if it is gone, the namespace went back to an older state (rule 55).

A process that creates few files, as one that mostly reads, would not notice by the ids of its own files. So each server process
keeps an empty file that nobody else deletes, looks for it every few seconds, and makes a new one every ten minutes: an older
state of HDFS does not have it. A NameNode in safe mode answers such a look, and gives out no id yet.

    witnesses/bmq-0123456789abcdef.3     the fourth one of its process
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol

import structlog

from bmq.hdfs.config import BLOCK_BYTES_MIN
from bmq.hdfs.file_ids import FileIds
from bmq.hdfs.proto.hdfs_pb2 import HdfsFileStatus
from bmq.log.store import StoreError

WITNESS_DIRECTORY: Final = "witnesses"
LOOK_S: Final = 5.0
RENEWAL_S: Final = 600.0
LEFTOVER_MS: Final = 3_600_000
"""A file that is older than this was left by a process that ended: one that lives has a younger one."""
LAST_DELETION_S: Final = 1.0

_log = structlog.get_logger("bmq.hdfs")


class Witnessing(Protocol):
    """The NameNode calls used here."""

    @property
    def file_ids(self) -> FileIds: ...

    async def make_directory(self, path: str, *, with_parents: bool) -> None: ...

    async def create(self, path: str, *, holder: str, block_bytes: int, replication: int) -> int: ...

    async def complete(self, path: str, *, holder: str, file_id: int, last: None) -> bool: ...

    async def file_info(self, path: str) -> HdfsFileStatus | None: ...

    async def listing(self, path: str) -> list[HdfsFileStatus]: ...

    async def delete(self, path: str, *, recursive: bool, retry_max_s: float | None = None) -> bool: ...


class NamespaceWitness:
    """`run` until cancelled, then `remove`. `name`: this process's."""

    def __init__(
        self,
        namenode: Witnessing,
        root: str,
        name: str,
        *,
        look_s: float = LOOK_S,
        renewal_s: float = RENEWAL_S,
    ) -> None:
        self._namenode = namenode
        self._directory = f"{root}/{WITNESS_DIRECTORY}"
        self._name = name
        self._look_s = look_s
        self._renewal_s = renewal_s
        self._numbers = itertools.count()
        self._path = ""
        self._file_id = 0

    async def run(self, went_back: asyncio.Event) -> None:
        """Look until `went_back` is set, which follows from what is found. What HDFS does not answer is asked again."""
        loop = asyncio.get_running_loop()
        renew_s = loop.time()
        while not went_back.is_set():
            try:
                await self._look()
                if loop.time() >= renew_s and not went_back.is_set():
                    await self._renew()
                    renew_s = loop.time() + self._renewal_s
            except StoreError as error:
                _log.debug("witness_not_seen", reason=f"{type(error).__name__}: {error}")
            with suppress(TimeoutError):
                async with asyncio.timeout(self._look_s):
                    await went_back.wait()

    async def remove(self) -> None:
        """Delete the file, unless HDFS does not answer soon: then another process does it in an hour."""
        path, self._path = self._path, ""
        if path:
            with suppress(StoreError):
                await self._namenode.delete(path, recursive=False, retry_max_s=LAST_DELETION_S)

    async def _look(self) -> None:
        if not self._path:
            return
        found = await self._namenode.file_info(self._path)
        if found is None or found.file_id != self._file_id:
            self._namenode.file_ids.note(f"{self._path} is gone, which no other process deletes")

    async def _renew(self) -> None:
        """Make a new file, which becomes the witness, and only then delete the former one. No name is used twice (rule 21)."""
        path = f"{self._directory}/{self._name}.{next(self._numbers)}"
        await self._namenode.make_directory(self._directory, with_parents=True)
        file_id = await self._namenode.create(path, holder=self._name, block_bytes=BLOCK_BYTES_MIN, replication=1)
        former, self._path, self._file_id = self._path, path, file_id
        await self._namenode.complete(path, holder=self._name, file_id=file_id, last=None)
        entries = await self._namenode.listing(self._directory)
        for name in (*([former.rpartition("/")[2]] if former else []), *leftovers(entries, path.rpartition("/")[2])):
            await self._namenode.delete(f"{self._directory}/{name}", recursive=False)


def leftovers(entries: Sequence[HdfsFileStatus], own: str) -> list[str]:
    """Names of files that processes left behind which ended, by the NameNode's own clock. `own`: the file that was just made."""
    made = {entry.path.decode("utf-8", "replace"): entry.modification_time for entry in entries}
    now_ms = made.get(own, 0)
    return [name for name, at_ms in made.items() if now_ms - at_ms > LEFTOVER_MS]
