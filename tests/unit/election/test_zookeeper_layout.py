"""Claims and members read back as they were written, and anything else that lies there is nobody."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.election.election import ControllerClaim, Member
from bmq.election.zookeeper_layout import (
    EPOCH_MAX,
    Layout,
    decode_claim,
    decode_epoch,
    decode_member,
    encoded,
)

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("root", ["", "/bmq", "/a/b"])
def test_paths(root: str) -> None:
    layout = Layout(root)
    assert (
        layout.top,
        layout.cluster_id,
        layout.controller_epoch,
        layout.controller,
        layout.nodes,
        layout.node(7),
    ) == (
        root or "/",
        f"{root}/cluster_id",
        f"{root}/controller_epoch",
        f"{root}/controller",
        f"{root}/nodes",
        f"{root}/nodes/7",
    )


@given(st.integers(), st.text(), st.integers(), st.integers())
def test_a_claim_reads_back(node_id: int, host: str, port: int, epoch: int) -> None:
    claim = ControllerClaim(node_id, host, port, epoch)
    assert decode_claim(encoded(claim)) == claim


@given(st.integers(), st.text(), st.text(), st.integers())
def test_a_member_reads_back(node_id: int, incarnation: str, host: str, port: int) -> None:
    member = Member(node_id, incarnation, host, port)
    assert decode_member(encoded(member)) == member


def test_what_a_later_version_adds_is_passed_over() -> None:
    member = Member(1, "a", "h", 2)
    assert decode_member(json.dumps({**json.loads(encoded(member)), "zone": "z"}).encode()) == member


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.binary(max_size=60) | _JSON.map(lambda value: json.dumps(value).encode()))
def test_anything_else_is_nobody(data: bytes) -> None:
    assert decode_claim(data) is None
    assert decode_member(data) is None


@pytest.mark.parametrize("name", ["node_id", "host", "port", "epoch"])
@pytest.mark.parametrize("value", [None, True, 1.0, [], {}, "absent"])
def test_a_claim_with_a_field_that_is_not_what_it_should_be_is_nobody_s(name: str, value: Any) -> None:
    found = json.loads(encoded(ControllerClaim(1, "h", 2, 3)))
    found[name] = 7 if name == "host" and value == "absent" else value
    assert decode_claim(json.dumps(found).encode()) is None


def test_nesting_is_no_way_to_crash_it() -> None:
    assert decode_claim(b"[" * 100_000) is None


@pytest.mark.parametrize(
    ("data", "epoch"),
    [
        (b"0", 0),
        (b"17", 17),
        (str(EPOCH_MAX).encode(), EPOCH_MAX),
        (str(EPOCH_MAX + 1).encode(), None),
        (b"9" * 5000, None),
        (b"", None),
        (b"-1", None),
        (b"1 ", None),
        (b"soon", None),
        ("٣".encode(), None),
    ],
)
def test_epochs(data: bytes, epoch: int | None) -> None:
    assert decode_epoch(data) == epoch
