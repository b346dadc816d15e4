"""Shared daemons whose port was taken are started on others, and any other failure is one at once."""

from __future__ import annotations

import asyncio

import pytest

from bmq.dev.daemon import DaemonFailed
from bmq.dev.ports import PortTaken
from testing.free_ports import TRIES_MAX, started_on_free_ports

pytestmark = pytest.mark.unit

TAKEN = DaemonFailed("nn0 ended with 1: java.net.BindException: Problem binding to [localhost:15001]")


class Server:
    def __init__(self, failure: Exception | None) -> None:
        self.failure = failure
        self.is_started = False

    async def start(self) -> None:
        if self.failure is not None:
            raise self.failure
        self.is_started = True


def servers(*failures: Exception | None) -> list[Server]:
    """The next one is the last of the list."""
    return [Server(failure) for failure in reversed(failures)]


@pytest.mark.parametrize("failure", [TAKEN, PortTaken("something else listens on 127.0.0.1:15001")])
def test_another_one_is_made_when_its_port_was_taken(failure: Exception) -> None:
    left = servers(failure, failure, None)
    made = started_on_free_ports(left.pop, asyncio.run)
    assert made.is_started and not left


def test_a_port_that_is_always_taken_is_a_failure() -> None:
    left = servers(*[TAKEN] * (TRIES_MAX + 1))
    with pytest.raises(DaemonFailed, match="BindException"):
        started_on_free_ports(left.pop, asyncio.run)
    assert len(left) == 1


def test_any_other_failure_is_one_at_once() -> None:
    left = servers(DaemonFailed("nn0 ended with 1: out of memory"), None)
    with pytest.raises(DaemonFailed, match="out of memory"):
        started_on_free_ports(left.pop, asyncio.run)
    assert len(left) == 1
