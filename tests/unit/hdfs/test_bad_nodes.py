"""Bad nodes are forgotten after a while."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from bmq.hdfs.bad_nodes import BadNodes
from tests.unit.hdfs.scripted_datanode import place_at

pytestmark = pytest.mark.unit


async def test_a_bad_node_is_known_by_its_uuid_until_it_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now_s)
    bad_nodes = BadNodes(60.0)
    one, two = place_at(1, "one"), place_at(2, "two")
    bad_nodes.add(two)
    now_s = 130.0
    bad_nodes.add(one)
    assert bad_nodes.current() == (one, two)
    assert bad_nodes.is_bad(replace(one, storage_id="another disk"))
    now_s = 159.0
    bad_nodes.add(one)
    now_s = 161.0
    assert bad_nodes.current() == (one,)
    assert not bad_nodes.is_bad(two)
    now_s = 220.0
    assert bad_nodes.current() == ()
    assert not bad_nodes.is_bad(one)
