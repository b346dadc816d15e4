"""What a shard tells of a share partition: locks, back-off, and dead letters that wait, with the reason."""

from __future__ import annotations

import asyncio

import pytest

from bmq.coordinator.share_state.explanation import REASON_CHARS_MAX
from bmq.protocol.share_state_messages import AckType, ExplainedPartition, NamedPartition, ShareExplainRequest
from tests.unit.broker.world import virtual
from tests.unit.coordinator.share_state.states import TOPIC, States
from tests.unit.coordinator.share_state.test_backoff import passed
from tests.unit.coordinator.share_state.test_dead_letters import FakeLetters, begun

pytestmark = pytest.mark.unit


async def told(states: States) -> ExplainedPartition:
    request = ShareExplainRequest(group_id="g", partitions=[NamedPartition(topic_id=TOPIC, partition=0)])
    (part,) = (await states.coordinator.explain(request)).partitions
    assert part.error_code == 0, part.error_message
    return part


def test_back_off_and_dead_letters_are_told_with_their_reason() -> None:
    async def main() -> None:
        letters = FakeLetters()
        letters.failure = lambda dead: "x" * 10_000
        states = await begun(letters, **{"bmq.share.retry.backoff": "10s"})
        await states.acquire("a")
        await states.acknowledge("a", (0, 1, AckType.RELEASE), (2, 2, AckType.ACCEPT), (5, 7, AckType.REJECT))
        await passed(states, 2)
        await states.acknowledge("a", (3, 3, AckType.RELEASE))
        one = await told(states)
        assert (one.delayed_count, one.delayed_first_ms, one.delayed_last_ms) == (3, 8_000, 10_000)
        assert (one.archiving_count, one.archiving_first) == (3, 5)
        assert one.archiving_why == "x" * REASON_CHARS_MAX
        assert (one.locked_count, one.holders[0].count) == (3, 3)
        letters.failure = lambda dead: None
        await asyncio.sleep(60)
        await passed(states, 11)
        one = await told(states)
        assert (one.delayed_count, one.delayed_last_ms, one.archiving_count, one.archiving_why) == (0, 0, 0, "")
        assert (one.archiving_first, one.first_available) == (-1, 0)

    virtual(main)
