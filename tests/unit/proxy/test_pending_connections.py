"""Connections whose clients are not known: the oldest gives way, and others' are not counted against an address."""

from __future__ import annotations

import pytest

from bmq.proxy.pending_connections import PendingConnections

pytestmark = pytest.mark.unit


class One:
    """Remembers why it was closed."""

    def __init__(self) -> None:
        self.reason = ""

    def close(self, reason: str) -> None:
        self.reason = reason


def test_beyond_its_addresss_limit_the_oldest_of_that_address_is_closed() -> None:
    pending = PendingConnections(total_max=10, per_host_max=2)
    other, first, second, third = One(), One(), One(), One()
    pending.add("b", other)
    for one in (first, second, third):
        pending.add("a", one)
    assert first.reason == "it has not said who it is, and 2 newer connections from its address have not either"
    assert not any(one.reason for one in (other, second, third))
    assert (len(pending), pending.of_host("a"), pending.of_host("b")) == (3, 2, 1)


def test_beyond_the_limit_of_all_the_oldest_of_all_is_closed() -> None:
    pending = PendingConnections(total_max=2, per_host_max=2)
    made = [One() for _ in range(4)]
    for number, one in enumerate(made):
        pending.add(f"10.0.0.{number}", one)
    assert [bool(one.reason) for one in made] == [True, True, False, False]
    assert len(pending) == 2


def test_one_that_is_done_counts_no_more_and_may_be_removed_again() -> None:
    pending = PendingConnections(total_max=1, per_host_max=1)
    first, second = One(), One()
    pending.add("a", first)
    pending.remove(first)
    pending.remove(first)
    pending.add("a", second)
    assert not first.reason and not second.reason
    pending.remove(second)
    assert (len(pending), pending.of_host("a")) == (0, 0)
