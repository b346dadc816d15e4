"""Share groups do not read views: who names one is told so, and nobody is given a partition of one."""

from __future__ import annotations

from uuid import UUID

import pytest

from bmq.protocol.error_codes import ErrorCode
from tests.unit.broker.world import virtual
from tests.unit.coordinator.cluster import FakeTopic
from tests.unit.coordinator.share_membership.test_share_api import Shares

pytestmark = pytest.mark.unit

VIEW = UUID(int=7)


def add_view(shares: Shares, name: str) -> None:
    topics = shares.cluster.topics
    old = type(topics)(dict(topics.topics))
    topics.topics = {**topics.topics, name: FakeTopic(name, VIEW, (0, 1), view=object())}
    shares.coordinator.image_changed(old, topics)


def test_a_member_that_names_a_view_is_refused_with_a_sentence() -> None:
    async def main() -> None:
        shares = Shares()
        add_view(shares, "v")
        answer = await shares.beat("a", 0, "t", "v")
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert answer.error_message == "'v' is a view: consumer groups read it, and share groups read only its topic."
        assert not any(shard.group_ids() for shard in shares.coordinator.directory.ready.values())
        assert shares.state_keys() == set()
        joined = await shares.beat("a", 0, "t")
        assert joined.error_code == ErrorCode.NONE
        later = await shares.beat("a", joined.member_epoch, "t", "v")
        assert later.error_code == ErrorCode.INVALID_REQUEST
        assert (await shares.beat("a", joined.member_epoch)).error_code == ErrorCode.NONE, "it is a member as before"
        assert (await shares.beat("a", -1, "v")).error_code == ErrorCode.NONE, "leaving is no subscription"

    virtual(main)


def test_a_topic_that_becomes_a_view_is_not_assigned() -> None:
    async def main() -> None:
        shares = Shares()
        joined = await shares.beat("a", 0, "t", "v")
        assert joined.assignment is not None
        add_view(shares, "v")
        epoch, assigned = joined.member_epoch, joined.assignment
        for _ in range(3):
            answer = await shares.beat("a", epoch)
            assert answer.error_code == ErrorCode.NONE
            epoch, assigned = answer.member_epoch, answer.assignment or assigned
        assert VIEW not in {one.topic_id for one in assigned.topic_partitions}
        assert VIEW.int not in {topic for _, topic, _ in shares.state_keys()}

    virtual(main)


def test_offsets_of_a_view_cannot_be_set() -> None:
    async def main() -> None:
        shares = Shares()
        add_view(shares, "v")
        answer = await shares.alter(3, 0, name="v")
        codes = [one.error_code for topic in answer.responses for one in topic.partitions]
        assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert shares.state_keys() == set()

    virtual(main)
