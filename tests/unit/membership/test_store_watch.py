"""The look at the store: what is asked, when a file is written, and when the state is told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from bmq.broker.partition_states import Blocked, Writing
from bmq.log.root import ROOT_FILE
from bmq.membership.store_watch import PROBE_DIRECTORY, StoreWatch
from bmq.protocol.internal_messages import StoreState
from tests.fakes.store import FakeStore
from tests.unit.broker.world import virtual

pytestmark = pytest.mark.unit

SILENCE_S = 5.0


class FakeManager:
    """`states`: of the owned partitions."""

    def __init__(self) -> None:
        self.counts = SimpleNamespace(appends=0)
        self.states: list[Any] = []

    def owned(self) -> Iterable[Any]:
        return [SimpleNamespace(state=state) for state in self.states]


class Setting:
    def __init__(self, silence_s: float = SILENCE_S) -> None:
        self.shared = FakeStore()
        self.shared.put_file(ROOT_FILE, b"root")
        self.client = self.shared.client("node")
        self.manager = FakeManager()
        self.told: list[StoreState] = []
        self.watch = StoreWatch(self.client, "holder", self.manager, silence_s, self._tell)  # type: ignore[arg-type]
        self.task = asyncio.get_running_loop().create_task(self.watch.run())

    def _tell(self) -> None:
        self.told.append(self.watch.state)

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})

    @property
    def probes(self) -> list[str]:
        return [path for path in self.shared.files() if path.startswith(PROBE_DIRECTORY)]


def test_a_node_that_does_not_reach_the_store_says_so_and_writes_before_it_says_that_it_does() -> None:
    async def main() -> None:
        setting = Setting()
        await asyncio.sleep(0.5)
        assert setting.told == [StoreState.ANSWERS]
        setting.client.cut_off()
        await asyncio.sleep(SILENCE_S + 2)
        assert setting.told[1:] == [StoreState.AWAY] and setting.watch.is_away
        setting.client.reconnect()
        await asyncio.sleep(3)
        assert setting.told[2:] == [StoreState.WRITABLE]
        assert setting.probes == [] and setting.shared.namespace.find(PROBE_DIRECTORY) is not None
        await setting.end()

    virtual(main)


def test_a_node_without_appends_writes_only_if_the_controller_wants_to_know() -> None:
    async def main() -> None:
        setting = Setting()
        await asyncio.sleep(3)
        assert setting.shared.namespace.find(PROBE_DIRECTORY) is None
        setting.watch.want_writing(True)
        await asyncio.sleep(2)
        assert setting.watch.state is StoreState.WRITABLE
        setting.watch.want_writing(False)
        await asyncio.sleep(SILENCE_S + 2)
        assert setting.watch.state is StoreState.ANSWERS
        setting.manager.counts.appends += 1
        await asyncio.sleep(1.5)
        assert setting.watch.state is StoreState.WRITABLE
        await setting.end()

    virtual(main)


def test_partitions_that_wait_while_the_store_answers_make_it_away() -> None:
    async def main() -> None:
        setting = Setting()
        setting.shared.capacity_bytes = 0
        setting.manager.states = [object.__new__(Writing), object.__new__(Blocked)]
        await asyncio.sleep(SILENCE_S + 2)
        assert setting.watch.is_away
        setting.manager.states = []  # they were given to others: that proves nothing
        await asyncio.sleep(SILENCE_S + 2)
        assert setting.watch.is_away
        setting.shared.capacity_bytes = None
        await asyncio.sleep(2)
        assert setting.watch.state is StoreState.WRITABLE
        await setting.end()

    virtual(main)


def test_a_silence_of_0_looks_at_nothing() -> None:
    async def main() -> None:
        setting = Setting(silence_s=0)
        setting.client.cut_off()
        await asyncio.sleep(30)
        assert setting.task.done() and setting.watch.state is StoreState.UNKNOWN and setting.told == []

    virtual(main)
