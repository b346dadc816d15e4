"""Agents that asked for channels: bounded, forgotten after an hour, and what wakes them."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import pytest

from bmq.admin.channel_agents import FORGOTTEN_AFTER_MS, SeenAgent, SeenAgents
from bmq.admin.channel_watch import ChannelWatch
from bmq.metadata.image import MetadataImage

pytestmark = pytest.mark.unit


def test_what_is_known_of_an_agent() -> None:
    agents = SeenAgents()
    agents.asks("a", "10.0.0.1", None, 5)
    agents.ended("a", 6)
    agents.asks("a", "10.0.0.2", 7, 8)
    assert agents.listed("", 10, 9) == [SeenAgent("a", "10.0.0.2", 7, 8, 1)]
    agents.ended("a", 9)
    assert agents.listed("", 10, 9) == [SeenAgent("a", "10.0.0.2", 7, 9, 0)]


def test_an_agent_with_two_requests_waits_until_both_have_ended() -> None:
    agents = SeenAgents()
    for now_ms in (1, 2):
        agents.asks("a", "h", 1, now_ms)
    agents.ended("a", 3)
    assert agents.listed("", 1, 3)[0].open_polls == 1


def test_the_number_of_agents_is_bounded_and_the_least_recently_seen_goes_first() -> None:
    agents = SeenAgents(agents_max=3)
    for number in range(10_000):
        agents.asks(f"a{number}", "h", 1, number)
        agents.asks("steady", "h", 1, number)
    assert len(agents) == 3
    assert [each.agent_id for each in agents.listed("", 10, 10_000)] == ["a9998", "a9999", "steady"]
    agents.ended("a0", 10_000)  # forgotten since
    assert len(agents) == 3


def test_agents_are_listed_page_by_page() -> None:
    agents = SeenAgents()
    for name in ("c", "a", "b"):
        agents.asks(name, "h", None, 0)
    assert [each.agent_id for each in agents.listed("", 2, 0)] == ["a", "b"]
    assert [each.agent_id for each in agents.listed("b", 2, 0)] == ["c"]


def test_an_agent_that_does_not_ask_is_forgotten_after_an_hour() -> None:
    agents = SeenAgents()
    agents.asks("gone", "h", 1, 0)
    agents.ended("gone", 0)
    assert len(agents.listed("", 10, FORGOTTEN_AFTER_MS)) == 1
    assert agents.listed("", 10, FORGOTTEN_AFTER_MS + 1) == []


async def test_a_change_of_channels_wakes_all_and_another_one_nobody() -> None:
    watch = ChannelWatch()
    old = MetadataImage(channels={"a": "1"}, channels_version=1)
    with ExitStack() as stack:
        changes = [stack.enter_context(watch.next_change()) for _ in range(3)]
        assert watch.waiting_count == 3
        watch.image_changed(old, replace(old, offset=7))
        assert not any(change.done() for change in changes)
        watch.image_changed(old, replace(old, channels={}, channels_version=2))
        assert all(change.done() for change in changes)
    assert watch.waiting_count == 0


async def test_a_process_that_stops_wakes_all_and_further_waits_end_at_once() -> None:
    watch = ChannelWatch()
    with watch.next_change() as change:
        watch.close()
        assert change.done()
    with watch.next_change() as change:
        assert change.done()
    assert watch.waiting_count == 0
