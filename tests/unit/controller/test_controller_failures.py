"""What raises in the controller: background work begins again, a state applied in part ends it, and it is loud."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from bmq.controller import cluster_nodes, partition_mover
from bmq.controller.balancer import Balancer
from bmq.controller.node_sessions import NodeSessions
from bmq.metadata.state import MetadataState
from bmq.protocol.errors import KafkaError
from tests.unit.controller.cluster_support import owners_by_count
from tests.unit.controller.controller_lab import BALANCED, ControllerLab, on_virtual_time

pytestmark = pytest.mark.unit


def failing_once(real: Callable[..., Any]) -> Callable[..., Any]:
    left = [MemoryError("no memory for one turn")]

    def call(*args: Any, **options: Any) -> Any:
        if left:
            raise left.pop()
        return real(*args, **options)

    return call


@pytest.mark.parametrize(
    ("owner", "name"),
    [(NodeSessions, "check"), (NodeSessions, "overdue"), (cluster_nodes, "decide_remaining_failovers")],
)
def test_dead_nodes_are_fenced_although_a_look_failed(owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    @on_virtual_time
    async def main() -> None:
        lab = ControllerLab()
        async with lab.controller():
            dead, _ = await lab.join(1, 2)
            await lab.create("t", 300, 2)
            monkeypatch.setattr(owner, name, failing_once(getattr(owner, name)))
            with capture_logs() as lines:
                dead.die()
                await lab.until(lambda: 1 not in lab.image.nodes and set(lab.leaders("t")) == {2}, within_s=10)
            assert "controller_task_failed" in [line["event"] for line in lines if line["log_level"] == "error"]

    main()


@pytest.mark.parametrize(
    ("owner", "name"), [(Balancer, "plan"), (partition_mover, "replica_changes"), (partition_mover, "drain_moves")]
)
def test_moves_go_on_after_a_failure(owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, name, failing_once(getattr(owner, name)))

    @on_virtual_time
    async def main() -> None:
        lab = ControllerLab()
        with capture_logs() as lines:
            async with lab.controller(BALANCED) as controller:
                await lab.join(1)
                await lab.create("t", 30)
                await lab.join(2)
                await lab.until(lambda: owners_by_count(lab.image, []) == {1: 15, 2: 15}, within_s=20)
                await controller.set_draining(1, True, "it is old")
                await lab.until(lambda: owners_by_count(lab.image, [2]).get(1, 0) == 0, within_s=20)
        assert {line["event"] for line in lines if line["log_level"] == "error"} == {"controller_task_failed"}

    main()


def test_a_record_applied_in_part_ends_the_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    @on_virtual_time
    async def main() -> None:
        lab = ControllerLab()
        async with lab.controller() as controller:
            await lab.join(1)
            with monkeypatch.context() as patch:
                patch.setattr(MetadataState, "replay", failing_once(MetadataState.replay))
                with pytest.raises((KafkaError, AssertionError)):
                    await lab.create("t", 3)
            assert controller.gone.is_set()
            assert "t" not in controller.image.topics
        async with lab.controller() as second:
            assert len(second.image.topics["t"].partitions) == 3, "it was durable"

    main()


def test_who_is_told_of_an_image_may_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request succeeded. The next controller begins with the whole image."""

    @on_virtual_time
    async def main() -> None:
        lab = ControllerLab()
        async with lab.controller() as controller:
            await lab.join(1)
            monkeypatch.setattr(controller._deletions, "start", failing_once(controller._deletions.start))
            with capture_logs() as lines:
                await lab.create("t", 3)
            assert [line["event"] for line in lines if line["log_level"] == "error"] == ["image_callback_failed"]
            await asyncio.wait_for(controller.gone.wait(), 1)

    main()
