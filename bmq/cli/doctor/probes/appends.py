"""Appends small pieces to a temporary file of the store, one after the other, and measures each; removes the file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from bmq.cli.doctor.machine import Machine
from bmq.cli.doctor.verdicts.appends import AppendProbe
from bmq.cli.doctor.verdicts.clock import OtherClock
from bmq.dataclass import dataclass
from bmq.log.store import Durability, FileStatus, SegmentStore, SegmentWriter, StoreError

APPENDS: Final = 300
APPEND_BYTES: Final = 512
APPEND_MAX_S: Final = 5.0
SEGMENT_BYTES: Final = 1 << 20
DIRECTORY_PREFIX: Final = "doctor-"
"""Of directories below the root; what a killed command left is removed by a later one."""
LEFT_BEHIND_MS: Final = 3_600_000
_CLEANING_MAX_S: Final = 5.0
_LEFT_BEHIND_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class StoreSeen:
    """The appends, and the store's clock by the time that it gave the file; None: it gave none."""

    appends: AppendProbe
    clock: OtherClock | None = None


async def append_probe(store: SegmentStore, name: str, machine: Machine) -> StoreSeen:
    """`name`: of nobody else. The root has to exist. Raises StoreError."""
    directory = f"{DIRECTORY_PREFIX}{name}"
    await _remove_left_behind(store, machine)
    await store.make_directory(directory)
    try:
        return await _measured(store, f"{directory}/appends", name, machine)
    finally:
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(_CLEANING_MAX_S):
                await store.delete(directory, recursive=True)


async def _measured(store: SegmentStore, path: str, name: str, machine: Machine) -> StoreSeen:
    began_ms = machine.now_ms()
    writer = await store.create_segment(
        path, holder=f"bmq-doctor-{name}", durability=Durability.HFLUSH, segment_bytes=SEGMENT_BYTES
    )
    latencies_ms: list[float] = []
    trouble = ""
    datanodes: tuple[str, ...] = ()
    try:
        await _append(writer, machine.elapsed_s, latencies_ms)
        datanodes = await store.locate(path)
        for _ in range(APPENDS - 1):
            await _append(writer, machine.elapsed_s, latencies_ms)
        async with asyncio.timeout(APPEND_MAX_S):
            await writer.close()
    except TimeoutError:
        trouble = f"no acknowledgement within {APPEND_MAX_S:g} s"
    except StoreError as error:
        trouble = str(error)
    finally:
        writer.abandon()
    appends = AppendProbe(tuple(latencies_ms), datanodes, store.replicas_wanted, trouble)
    clock = None if trouble else _clock(await store.status(path), began_ms, machine.now_ms())
    return StoreSeen(appends, clock)


async def _append(writer: SegmentWriter, elapsed_s: Callable[[], float], latencies_ms: list[float]) -> None:
    began_s = elapsed_s()
    async with asyncio.timeout(APPEND_MAX_S):
        await writer.append([bytes(APPEND_BYTES)])
    latencies_ms.append((elapsed_s() - began_s) * 1000)


def _clock(status: FileStatus | None, began_ms: float, ended_ms: float) -> OtherClock | None:
    """HDFS gives a file its time when it is made and when it is closed: between the beginning and now."""
    if status is None or status.modified_ms < 0:
        return None
    return OtherClock("HDFS", status.modified_ms - ended_ms, status.modified_ms + 1 - began_ms)


async def _remove_left_behind(store: SegmentStore, machine: Machine) -> None:
    with suppress(StoreError, TimeoutError):
        async with asyncio.timeout(_CLEANING_MAX_S):
            left = [
                entry.name
                for entry in await store.list_directory("")
                if entry.is_directory
                and entry.name.startswith(DIRECTORY_PREFIX)
                and 0 <= entry.modified_ms < machine.now_ms() - LEFT_BEHIND_MS
            ]
            for each in left[:_LEFT_BEHIND_MAX]:
                await store.delete(each, recursive=True)
