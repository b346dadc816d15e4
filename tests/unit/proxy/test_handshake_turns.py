"""How many TLS handshakes begin in one turn of the event loop, in virtual time: a list stands for the loop's turns."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.proxy.handshake_turns import HANDSHAKES_PER_TURN_MAX, HandshakeTurns

pytestmark = pytest.mark.unit


class Loop:
    """Runs in one turn what was called soon before it, as an event loop does. `turn_number`: of the one that runs."""

    def __init__(self) -> None:
        self.turn_number = 0
        self._ready: list[Callable[[], None]] = []

    def call_soon(self, work: Callable[[], None]) -> None:
        self._ready.append(work)

    def turn(self) -> int:
        """How many callbacks ran."""
        self.turn_number += 1
        ready, self._ready = self._ready, []
        for work in ready:
            work()
        return len(ready)


class Client:
    def __init__(self, loop: Loop) -> None:
        self.begun_in: list[int] = []
        self._loop = loop

    def begin(self) -> None:
        self.begun_in.append(self._loop.turn_number)


def test_a_thousand_clients_at_once_begin_one_in_a_turn_in_order() -> None:
    loop = Loop()
    turns, clients = HandshakeTurns(loop.call_soon), [Client(loop) for _ in range(1_000)]
    for client in clients:
        turns.add(client)
    assert not any(client.begun_in for client in clients), "none begins in the turn that brought its first record"
    while loop.turn():
        pass
    assert HANDSHAKES_PER_TURN_MAX == 1
    assert [client.begun_in for client in clients] == [[number] for number in range(1, 1_001)]


def test_a_client_that_has_left_takes_no_turn() -> None:
    loop = Loop()
    turns, clients = HandshakeTurns(loop.call_soon), [Client(loop) for _ in range(4)]
    for client in clients:
        turns.add(client)
    turns.remove(clients[0])
    turns.remove(clients[2])
    loop.turn()
    loop.turn()
    assert [client.begun_in for client in clients] == [[], [1], [], [2]]
    turns.remove(clients[1])
    assert len(turns) == 0 and loop.turn() == 0


@given(st.integers(1, 4), st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=30))
def test_no_turn_begins_more_and_nobody_waits_for_ever(per_turn_max: int, arrivals: list[tuple[int, bool]]) -> None:
    loop, begun = Loop(), list[Client]()
    turns, clients, left = HandshakeTurns(loop.call_soon, per_turn_max), list[Client](), set[Client]()
    for count, leaves in arrivals:
        for _ in range(count):
            clients.append(Client(loop))
            turns.add(clients[-1])
        waiting = [one for one in clients if not one.begun_in and one not in left]
        if leaves and waiting:
            turns.remove(waiting[0])
            left.add(waiting[0])
        loop.turn()
        begun = [one for one in clients if one.begun_in]
    for _ in range(len(clients)):
        loop.turn()
    per_turn = [one.begun_in for one in clients if one not in left]
    assert all(len(numbers) == 1 for numbers in per_turn) and len(begun) <= len(per_turn)
    assert per_turn == sorted(per_turn), "in order of arrival"
    assert all(per_turn.count(numbers) <= per_turn_max for numbers in per_turn)
    assert not any(one.begun_in for one in left)
    assert loop.turn() == 0
