"""Connections by their age and address."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists, sampled_from, tuples

from bmq.proxy.connections_by_host import ConnectionsByHost

pytestmark = pytest.mark.unit


@given(lists(tuples(sampled_from("abc"), integers(0, 9))))
def test_it_counts_what_is_there_and_knows_the_oldest(steps: list[tuple[str, int]]) -> None:
    """A number comes if it is not there, and goes if it is."""
    there: ConnectionsByHost[int] = ConnectionsByHost()
    model: dict[int, str] = {}
    for host, number in steps:
        if number in model:
            there.remove(number)
            del model[number]
            there.remove(number)
        else:
            there.add(host, number)
            model[number] = host
        assert list(there) == list(model) and len(there) == len(model)
        for one in "abc":
            of_host = [number for number, host in model.items() if host == one]
            assert there.of_host(one) == len(of_host)
            if of_host:
                assert there.oldest_of(one) == of_host[0]
        if model:
            assert there.oldest() == next(iter(model))


def test_an_address_without_connections_takes_no_memory() -> None:
    there: ConnectionsByHost[int] = ConnectionsByHost()
    for number in range(100):
        there.add(f"10.0.0.{number}", number)
        there.remove(number)
    assert not there._by_host and not there._hosts
