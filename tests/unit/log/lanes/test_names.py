"""Names of lanes and of their groups, the mark in a client id, and the lane of a record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.lanes.names import (
    LaneGroup,
    LaneRefused,
    check_lane,
    client_id_of,
    lane_group_of,
    marked_group_of,
)
from bmq.log.lanes.record_lane import NO_LANE, lane_of, read_lane_of

pytestmark = pytest.mark.unit

HEADER = b"x-lane"


@pytest.mark.parametrize("name", ["", "a@b", "a/b", "a b", "a,b", "lane\n", "ü", "x" * 65])
def test_lane_that_may_not_be_is_refused_in_one_sentence(name: str) -> None:
    with pytest.raises(LaneRefused) as caught:
        check_lane(name)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 250


@pytest.mark.parametrize("group_id", ["", "@blue", "a@", "a@b@c", "a/b", "a#b", "a@b/c", "a#b@c"])
def test_group_that_cannot_have_lanes_is_refused(group_id: str) -> None:
    with pytest.raises(LaneRefused):
        lane_group_of(group_id)


def test_group_of_a_lane_and_its_base() -> None:
    assert lane_group_of("orders") == LaneGroup("orders", "")
    assert lane_group_of("orders@blue-1.x") == LaneGroup("orders", "blue-1.x")
    assert LaneGroup("orders", "blue").group_id == "orders@blue" and LaneGroup("orders", "").group_id == "orders"


@pytest.mark.parametrize(
    ("client_id", "group_id"),
    [
        (None, None),
        ("", None),
        ("rdkafka", None),
        ("consumer-lanes:orders-1", None),
        ("lanes:orders", "orders"),
        ("lanes:orders@blue", "orders@blue"),
        ("lanes:orders@blue#-0", "orders@blue"),
        ("lanes:orders#-StreamThread-1-consumer#2", "orders"),
    ],
)
def test_mark_of_a_client_id(client_id: str | None, group_id: str | None) -> None:
    assert marked_group_of(client_id) == group_id


@given(st.from_regex(r"[^@/#]{1,20}(@[A-Za-z0-9._-]{1,64})?", fullmatch=True), st.text(max_size=10))
def test_mark_names_its_group_whatever_frameworks_append(group_id: str, appended: str) -> None:
    assert marked_group_of(client_id_of(group_id) + "#" + appended) == group_id
    assert lane_group_of(group_id).group_id == group_id


@pytest.mark.parametrize(
    ("headers", "lane"),
    [
        ([], NO_LANE),
        ([(b"x-lane", None)], NO_LANE),
        ([(b"x-lane", b"")], NO_LANE),
        ([(b"X-Lane", b"blue")], NO_LANE),
        ([(b"x-lane", b"blue")], "blue"),
        ([(b"baggage", b"user=7;p=x-lane, x-lane = blue ;ttl=3,z=1")], "blue"),
        ([(b"baggage", b"x-lane=bl%75e"), (b"baggage", b"x-lane=blue")], "blue"),
        ([(b"baggage", b"x-lane=,x-lane,=x-lane")], NO_LANE),
        ([(b"baggage", b"x-lane=red"), (b"x-lane", b"blue")], "blue"),
        ([(b"baggage", b"x-lane=red,x-lane=blue"), (b"x-lane", b"blue")], "blue"),
    ],
)
def test_lane_of_a_record(headers: list[tuple[bytes, bytes | None]], lane: str) -> None:
    assert lane_of(headers, HEADER) == lane == read_lane_of(headers, HEADER)


@pytest.mark.parametrize(
    "headers",
    [
        [(b"x-lane", b"a@b")],
        [(b"x-lane", b"a/b")],
        [(b"x-lane", b"red,blue")],
        [(b"x-lane", b"\xff")],
        [(b"x-lane", b"blue"), (b"x-lane", b"blue")],
        [(b"x-lane", b"red"), (b"x-lane", b"blue")],
        [(b"baggage", b"x-lane=red,x-lane=blue")],
        [(b"baggage", b"x-lane=red"), (b"baggage", b"x-lane=blue")],
        [(b"baggage", b"x-lane=a%40b")],
    ],
)
def test_record_of_no_lane_or_two_is_refused_and_if_it_is_in_the_log_it_has_none(
    headers: list[tuple[bytes, bytes | None]],
) -> None:
    with pytest.raises(LaneRefused):
        lane_of(headers, HEADER)
    assert read_lane_of(headers, HEADER) == NO_LANE


@given(
    st.lists(st.tuples(st.sampled_from([b"x-lane", b"baggage", b"k"]), st.none() | st.binary(max_size=40)), max_size=4)
)
def test_any_headers_have_one_lane_or_are_refused(headers: list[tuple[bytes, bytes | None]]) -> None:
    found = read_lane_of(headers, HEADER)
    assert found == NO_LANE or check_lane(found) == found
