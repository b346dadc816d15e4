"""Which nodes alone do not reach the store: never all of them, and none before that is sure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bmq.controller.cut_off_nodes import STEADY_S, CutOffNodes
from bmq.metadata.image import ROLE_PROXY, Node
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.internal_messages import ReportPartitionsRequest, StoreState
from tests.unit.controller.controller_lab import ControllerLab, LabNode, on_virtual_time

pytestmark = pytest.mark.unit

AWAY, ANSWERS, WRITABLE = StoreState.AWAY, StoreState.ANSWERS, StoreState.WRITABLE
LIVE = {node_id: Node(node_id, "h", 1, epoch=node_id) for node_id in (1, 2, 3)}


def outages(*states: StoreState, at_s: float = 0.0) -> CutOffNodes:
    said = CutOffNodes()
    for node_id, state in enumerate(states, start=1):
        said.heard(node_id, node_id, state, at_s)
    return said


def test_one_alone_is_cut_off_once_that_is_steady() -> None:
    said = outages(AWAY, WRITABLE, ANSWERS)
    assert said.is_any_away(LIVE)
    assert said.cut_off(LIVE, STEADY_S - 0.1) == frozenset()
    said.heard(1, 1, AWAY, 3.0)  # said again: it lasts
    assert said.cut_off(LIVE, STEADY_S) == {1}
    assert said.writers(LIVE, STEADY_S) == {2}
    said.heard(1, 1, WRITABLE, 6.0)
    assert said.cut_off(LIVE, 6.0) == frozenset() and not said.is_any_away(LIVE)


@pytest.mark.parametrize("other", [AWAY, ANSWERS, StoreState.UNKNOWN])
def test_nobody_is_cut_off_unless_another_can_write(other: StoreState) -> None:
    assert outages(AWAY, AWAY, other).cut_off(LIVE, 1_000.0) == frozenset()


def test_those_that_notice_the_end_of_an_outage_later_are_not_cut_off() -> None:
    said = outages(AWAY, AWAY, AWAY)
    said.heard(2, 2, WRITABLE, 100.0)
    assert said.cut_off(LIVE, 104.0) == frozenset()
    said.heard(1, 1, WRITABLE, 104.0)
    assert said.cut_off(LIVE, 105.0) == {3}
    said.heard(3, 3, ANSWERS, 105.1)
    assert said.cut_off(LIVE, 200.0) == frozenset()


def test_a_node_that_takes_no_partitions_is_no_reason_to_move_them() -> None:
    said = outages(AWAY, WRITABLE)
    assert said.cut_off({**LIVE, 2: replace(LIVE[2], is_draining=True)}, 10.0) == frozenset()
    assert said.cut_off({**LIVE, 2: replace(LIVE[2], roles=frozenset({ROLE_PROXY}))}, 10.0) == frozenset()


def test_the_dead_and_those_that_were_started_again_do_not_count() -> None:
    said = outages(AWAY, WRITABLE)
    assert said.cut_off({1: LIVE[1]}, 10.0) == frozenset()
    again = {**LIVE, 1: replace(LIVE[1], epoch=77)}
    assert said.cut_off(again, 10.0) == frozenset() and not said.is_any_away(again)


def test_a_state_of_a_later_release_proves_nothing() -> None:
    said = outages(AWAY)
    said.heard(2, 2, 77, 0.0)
    assert said.cut_off(LIVE, 10.0) == frozenset()


# --- at the controller


async def say(lab: ControllerLab, node: LabNode, state: StoreState) -> bool:
    """Whether it is asked to write."""
    request = ReportPartitionsRequest(node_id=node.node_id, node_epoch=node.epoch, interval_ms=1_000, store_state=state)
    answer = await lab.active.report_partitions(request)
    assert answer.error_code == ErrorCode.NONE
    return answer.is_writing_wanted


@on_virtual_time
async def test_the_partitions_of_one_cut_off_go_to_others_and_none_come_to_it() -> None:
    lab = ControllerLab()
    async with lab.controller():
        first, second = await lab.join(1, 2)
        await lab.create("t", 8)
        assert not await say(lab, second, ANSWERS)
        assert await say(lab, first, AWAY)
        assert await say(lab, second, WRITABLE), "there is a question that it can answer"
        await lab.until(lambda: lab.now_s >= STEADY_S + 1)
        assert set(lab.leaders("t")) == {1, 2}
        await say(lab, first, AWAY)
        await lab.until(lambda: set(lab.leaders("t")) == {2}, within_s=3)
        assert "node 1 alone cannot reach the store" in {
            reason for number in range(8) for reason in lab.reasons("t", number)
        }
        await lab.create("u", 4)
        await lab.until(lambda: set(lab.leaders("u")) == {2}, within_s=3)
        assert not any(node.is_draining for node in lab.image.nodes.values()), "nothing of it is in the metadata"
        await say(lab, first, WRITABLE)
        await lab.create("v", 4)
        assert set(lab.leaders("v")) == {1, 2}


@on_virtual_time
async def test_all_cut_off_keep_their_partitions() -> None:
    lab = ControllerLab()
    async with lab.controller():
        nodes = await lab.join(1, 2, 3)
        await lab.create("t", 9)
        before = lab.leaders("t")
        for _ in range(20):
            for node in nodes:
                await say(lab, node, AWAY)
            await lab.until(lambda end_s=lab.now_s + 1: lab.now_s >= end_s)  # type: ignore[misc]
        assert lab.leaders("t") == before
