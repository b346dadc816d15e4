"""Keeps the leases of this process's holder names alive: one call renews all files of a name.

A renewed lease proves nothing about the files: a takeover leaves the name's lease in place.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final, Protocol

import structlog

from bmq.log.store import StoreError

RETRY_S: Final = 2.0  # after a failure; the soft limit of a lease is 60 s

_log = structlog.get_logger("bmq.hdfs")


class Renewing(Protocol):
    """The NameNode call used here."""

    async def renew_lease(self, holder: str) -> None: ...


class LeaseRenewal:
    """Counts holders: each `add` needs its `remove`. One task runs while there are any."""

    def __init__(self, namenode: Renewing, interval_s: float) -> None:
        self._namenode = namenode
        self._interval_s = interval_s
        self._holders: Counter[str] = Counter()
        self._task: asyncio.Task[None] | None = None

    def add(self, holder: str) -> None:
        self._holders[holder] += 1
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._renew_for_ever())

    def remove(self, holder: str) -> None:
        self._holders[holder] -= 1
        if self._holders[holder] <= 0:
            del self._holders[holder]
        if not self._holders and self._task is not None:
            self._task.cancel()
            self._task = None

    async def close(self) -> None:
        """End the task. Leases then expire by themselves."""
        self._holders.clear()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    async def _renew_for_ever(self) -> None:
        delay_s = self._interval_s
        failures = 0
        while True:
            await asyncio.sleep(delay_s)
            try:
                for holder in tuple(self._holders):
                    await self._namenode.renew_lease(holder)
            except StoreError as error:
                failures += 1
                delay_s = min(RETRY_S, self._interval_s)
                if failures == 1:
                    _log.warning("lease_not_renewed", holders=len(self._holders), reason=str(error))
                continue
            if failures:
                _log.info("lease_renewed_again", failures=failures)
            failures = 0
            delay_s = self._interval_s
