"""The order of a power loss: what a DataNode says after its disk was cut is no word of a machine that has power."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bmq.dev.daemon import WrongDaemonState
from tests.soak.hazards import lose_power

pytestmark = pytest.mark.campaign("unit")


class FakeNode:
    def __init__(self, number: int, steps: list[str], *, is_running: bool = True) -> None:
        self._number, self._steps, self._is_running = number, steps, is_running

    async def pause(self) -> None:
        if not self._is_running:
            raise WrongDaemonState("it is not running")
        self._steps.append(f"pause {self._number}")

    async def kill(self) -> None:
        self._steps.append(f"kill {self._number}")

    async def start(self) -> None:
        self._steps.append(f"start {self._number}")


class FakeDisk:
    def __init__(self, number: int, steps: list[str]) -> None:
        self._number, self._steps = number, steps

    def cut(self) -> None:
        self._steps.append(f"cut {self._number}")

    def restore(self) -> None:
        self._steps.append(f"restore {self._number}")


class FakeCluster:
    def __init__(self, nodes: list[FakeNode]) -> None:
        self.datanode = nodes.__getitem__


def test_all_nodes_stand_still_before_a_disk_is_cut_and_are_gone_before_one_is_back() -> None:
    steps: list[str] = []
    cluster: Any = FakeCluster([FakeNode(0, steps), FakeNode(1, steps, is_running=False)])
    disks: list[Any] = [FakeDisk(0, steps), FakeDisk(1, steps)]
    asyncio.run(lose_power(cluster, disks, 0.0))
    assert steps == ["pause 0", "cut 0", "cut 1", "kill 0", "kill 1", "restore 0", "restore 1", "start 0", "start 1"]
