"""Metrics of share groups at a proxy."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from bmq.proxy.share.share_metrics import ShareCollector
from tests.unit.proxy_share.share_client import Member, ShareCluster

pytestmark = pytest.mark.unit


async def test_what_members_do_is_counted(cluster: ShareCluster) -> None:
    registry = CollectorRegistry()
    registry.register(ShareCollector(cluster.consumers))
    cluster.fetch_cluster.produce(0, count=3)
    member = Member(cluster)
    await member.fetch()
    assert registry.get_sample_value("bmq_share_sessions") == 1
    assert registry.get_sample_value("bmq_share_session_partitions") == 1
    await member.acknowledge({0: [(0, 2, [1, 3, 2])]})
    await member.fetch([])
    for name, labels, value in (
        ("bmq_share_fetches_total", {}, 2),
        ("bmq_share_fetch_records_total", {}, 4),
        ("bmq_share_fetch_redelivered_total", {}, 1),
        ("bmq_share_fetch_partitions_total", {}, 2),
        ("bmq_share_fetch_partitions_given_total", {}, 2),
        ("bmq_share_record_acknowledgements_total", {"ack_type": "accept"}, 1),
        ("bmq_share_record_acknowledgements_total", {"ack_type": "reject"}, 1),
        ("bmq_share_record_acknowledgements_total", {"ack_type": "renew"}, 0),
    ):
        assert registry.get_sample_value(name, labels) == value
    assert (registry.get_sample_value("bmq_share_acquires_total") or 0) >= 2
    assert (registry.get_sample_value("bmq_share_acquire_seconds_total") or 0) > 0
    member.lose()
    assert registry.get_sample_value("bmq_share_sessions") == 0
    assert registry.get_sample_value("bmq_share_session_evictions_total") == 1
