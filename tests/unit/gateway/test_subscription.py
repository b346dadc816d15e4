"""The first message of a subscriber: what is taken, and one sentence for each mistake."""

from __future__ import annotations

from typing import Any

import pytest

from bmq.gateway.failure import GatewayFailed
from bmq.gateway.subscription import Subscription, require_topic, subscription_of
from bmq.gateway.v1 import gateway_pb2 as pb
from tests.unit.gateway.records import held

pytestmark = pytest.mark.unit


def asked(**fields: Any) -> Subscription:
    return subscription_of(pb.Start(**fields), topics_max=3)


def test_a_group_is_a_share_group_unless_it_says_otherwise() -> None:
    assert asked(topics=["b", "a", "b"]).topics == ("a", "b")
    assert not asked(topics=["a"]).is_share_group
    assert asked(topics=["a"], group="g").is_share_group
    assert asked(topics=["a"], group="g", group_kind=pb.GROUP_KIND_SHARE).is_share_group
    other = asked(topics=["a"], group="g", group_kind=pb.GROUP_KIND_CONSUMER, position=pb.POSITION_EARLIEST)
    assert (other.is_share_group, other.is_earliest) == (False, True)
    assert asked(topics=["a"], timestamp_ms=0).timestamp_ms == 0


def test_filters_and_tags() -> None:
    by_tag = asked(topics=["a"], tags=["it's", "b"])
    assert by_tag.filter_text == "tag IN ('it''s', 'b')"
    assert [by_tag.takes(held(0, tag=tag)) for tag in (b"it's", b"b", b"c", b"")] == [True, True, False, False]
    by_key = asked(topics=["a"], filter="key = 'key' AND tag = 'x'")
    assert [by_key.takes(held(0, tag=tag)) for tag in (b"x", b"y")] == [True, False]
    assert asked(topics=["a"]).takes(held(0))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "has no topic"),
        ({"topics": ["a", "b", "c", "d"]}, "has 4 topics, 3 are allowed"),
        ({"topics": [""]}, "name is empty"),
        ({"topics": ["a" * 250]}, "more than 249 bytes"),
        ({"topics": ["a"], "group": "g" * 1025}, "more than 1024 bytes"),
        ({"topics": ["a"], "group_kind": 7}, "group_kind 7 is unknown"),
        ({"topics": ["a"], "position": 9}, "position 9 is unknown"),
        ({"topics": ["a"], "group_kind": pb.GROUP_KIND_SHARE}, "needs a group"),
        ({"topics": ["a"], "group": "g", "timestamp_ms": 1}, "without a group"),
        ({"topics": ["a"], "timestamp_ms": -1}, "below zero"),
        ({"topics": ["a"], "timestamp_ms": 1, "position": pb.POSITION_LATEST}, "exclude each other"),
        ({"topics": ["a"], "group": "g", "position": pb.POSITION_EARLIEST}, "share.auto.offset.reset"),
        ({"topics": ["a"], "filter": "tag = 'a'", "tags": ["a"]}, "exclude each other"),
        ({"topics": ["a"], "filter": "tag ="}, "filter"),
        ({"topics": ["a"], "filter": "x" * 9_000}, "9000 bytes"),
    ],
)
def test_one_sentence_for_each_mistake(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(GatewayFailed, match=sentence) as failed:
        asked(**fields)
    assert failed.value.status == "INVALID_ARGUMENT"
    assert "\n" not in str(failed.value)


def test_a_zero_byte_is_no_name() -> None:
    with pytest.raises(GatewayFailed, match="zero byte"):
        require_topic("a\0b")
