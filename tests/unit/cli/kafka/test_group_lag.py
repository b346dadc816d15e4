"""How far groups are behind."""

from __future__ import annotations

import pytest

from bmq.cli.kafka.group_lag import TopicLag, partition_lags, topic_lags
from bmq.cli.kafka.model import GroupDetails, Member

pytestmark = pytest.mark.unit

READER = Member("m-1", None, "client", "/10.0.0.1", (("a", 0), ("b", 0)))
DETAILS = GroupDetails("g", "consumer", "stable", "uniform", 1, (READER,))


def test_partitions_with_an_offset_or_a_member() -> None:
    committed = {("a", 0): 5, ("a", 1): 20, ("gone", 0): 3}
    ends = {("a", 0): 9, ("a", 1): 10, ("b", 0): 4}
    lags = partition_lags(DETAILS, committed, ends)
    assert [(each.partition, each.lag, each.member is READER) for each in lags] == [
        (("a", 0), 4, True),
        (("a", 1), 0, False),
        (("b", 0), None, True),
        (("gone", 0), None, False),
    ]
    assert topic_lags(lags) == [TopicLag("a", 2, 4, 4, 0), TopicLag("b", 1, 0, 0, 1), TopicLag("gone", 1, 0, 0, 1)]


def test_a_group_without_anything() -> None:
    assert partition_lags(GroupDetails("g", "classic", "empty", "", 1, ()), {}, {}) == []
    assert topic_lags([]) == []
