"""What partitions' owners hear of committed offsets, asked through one node about groups of all nodes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from bmq.coordinator.offsets.fetched_offsets import PARTITIONS_ASKED_MAX, FetchedOffsets
from bmq.protocol.error_codes import ErrorCode
from tests.unit.routing.group_cluster import GroupClient, GroupCluster, virtual

pytestmark = pytest.mark.unit

TOPIC_ID = UUID(int=1)


def test_groups_of_all_nodes_are_asked() -> None:
    async def main() -> None:
        cluster = GroupCluster()
        groups = [cluster.group_at(node_id) for node_id in (1, 2, 3)]
        client = GroupClient(cluster.nodes[1].groups)
        for number, group_id in enumerate(groups[:2]):
            assert await client.commit(group_id, 10 + number) == ErrorCode.NONE
        offsets = FetchedOffsets(cluster.nodes[2].groups)
        first, second, third = groups
        assert await offsets.committed(groups, TOPIC_ID, [0, 3]) == {
            0: {first: 10, second: 11, third: -1},
            3: {first: -1, second: -1, third: -1},
        }
        await cluster.close()

    virtual(main)


def test_more_partitions_than_fit_into_one_request() -> None:
    async def main() -> None:
        cluster = GroupCluster()
        group_id = cluster.group_at(1)
        assert await GroupClient(cluster.nodes[1].groups).commit(group_id, 7) == ErrorCode.NONE
        numbers = range(2 * PARTITIONS_ASKED_MAX + 1)
        found = await FetchedOffsets(cluster.nodes[2].groups).committed([group_id], TOPIC_ID, numbers)
        assert found[0] == {group_id: 7} and len(found) == len(numbers)
        await cluster.close()

    virtual(main)


def test_a_group_whose_coordinator_is_gone_is_left_out() -> None:
    async def main() -> None:
        cluster = GroupCluster()
        here, there = cluster.group_at(2), cluster.group_at(3)
        cluster.kill(3)
        found = await FetchedOffsets(cluster.nodes[2].groups).committed([here, there], TOPIC_ID, [0])
        assert found == {0: {here: -1}}
        cluster.bury(3, heir=1)
        found = await FetchedOffsets(cluster.nodes[2].groups).committed([here, there], TOPIC_ID, [0])
        assert found == {0: {here: -1, there: -1}}
        await cluster.close()

    virtual(main)


def test_offsets_of_an_earlier_topic_of_the_name_do_not_count() -> None:
    async def main() -> None:
        cluster = GroupCluster()
        group_id = cluster.group_at(1)
        client = GroupClient(cluster.nodes[1].groups)
        assert await client.commit(group_id, 10) == ErrorCode.NONE
        cluster.add_topic("t", 2)
        offsets = FetchedOffsets(cluster.nodes[2].groups)
        assert await offsets.committed([group_id], UUID(int=2), [0]) == {0: {group_id: -1}}
        assert await offsets.committed([group_id], UUID(int=3), [0]) == {}, "a topic the coordinator does not know"
        await cluster.close()

    virtual(main)


def test_the_offsets_topic_is_made_when_there_is_none() -> None:
    async def main() -> None:
        cluster = GroupCluster(has_topic=False)
        offsets = FetchedOffsets(cluster.nodes[2].groups)
        assert await offsets.committed(["g"], TOPIC_ID, [0]) == {0: {"g": -1}}
        assert cluster.created == ["__consumer_offsets"]
        await cluster.close()

    virtual(main)


def test_without_an_offsets_topic_nothing_is_known() -> None:
    async def main() -> None:
        cluster = GroupCluster(has_topic=False)
        cluster.refuse_creation = ErrorCode.INVALID_REPLICATION_FACTOR
        assert await FetchedOffsets(cluster.nodes[2].groups).committed(["g"], TOPIC_ID, [0]) == {}
        await cluster.close()

    virtual(main)


def test_what_a_group_has_committed_for_views_counts_for_their_base() -> None:
    base, view, other = UUID(int=1), UUID(int=2), UUID(int=3)
    stored = {
        base: {0: {"g": 7, "h": -1, "i": -1}, 1: {"g": 7, "h": 3, "i": -1}},
        view: {0: {"g": 5, "h": 4, "i": -1}, 1: {"g": 9, "h": -1, "i": -1}},
        other: {0: {"g": -1, "h": -1}, 1: {"g": -1, "h": -1, "i": -1}},
    }

    class Stored(FetchedOffsets):
        async def _committed(self, group_ids: Any, topic_id: UUID, partitions: Any) -> Any:
            return stored[topic_id]

    async def main() -> None:
        offsets = Stored(None, lambda topic_id: (view, other) if topic_id == base else ())  # type: ignore[arg-type]
        found = await offsets.committed(["g", "h", "i"], base, [0, 1])
        # The lowest that is committed; a group that one coordinator said nothing of is not known.
        assert found == {0: {"g": 5, "h": 4}, 1: {"g": 7, "h": 3, "i": -1}}
        assert await offsets.committed(["g"], other, [0]) == stored[other]

    virtual(main)
