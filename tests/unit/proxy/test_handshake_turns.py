"""How many TLS handshakes begin in one turn of the event loop, in virtual time: a list stands for the loop's turns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.proxy.handshake_turns import HANDSHAKES_PER_TURN_MAX, HandshakeTurns
from bmq.proxy.pending_connections import PendingConnections

pytestmark = pytest.mark.unit

HOST: Final = "10.0.0.1"
PENDING_MAX: Final = 64
FLIGHT_TURNS: Final = 10
"""How long a genuine client takes from its handshake's beginning to its login."""


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
        turns.add(HOST, client)
    assert not any(client.begun_in for client in clients), "none begins in the turn that brought its first record"
    while loop.turn():
        pass
    assert HANDSHAKES_PER_TURN_MAX == 1
    assert [client.begun_in for client in clients] == [[number] for number in range(1, 1_001)]


def test_a_client_that_has_left_takes_no_turn() -> None:
    loop = Loop()
    turns, clients = HandshakeTurns(loop.call_soon), [Client(loop) for _ in range(4)]
    for client in clients:
        turns.add(HOST, client)
    turns.remove(HOST, clients[0])
    turns.remove(HOST, clients[2])
    loop.turn()
    loop.turn()
    assert [client.begun_in for client in clients] == [[], [1], [], [2]]
    turns.remove(HOST, clients[1])
    assert len(turns) == 0 and loop.turn() == 0


def test_addresses_take_turns_and_each_one_s_clients_begin_in_order() -> None:
    loop, begun = Loop(), list[str]()
    turns = HandshakeTurns(loop.call_soon)

    class Named:
        def __init__(self, name: str) -> None:
            self.begin = partial(begun.append, name)

    for name in ("a1", "a2", "a3", "a4", "b1", "b2", "c1"):
        turns.add(name[0], Named(name))
    loop.turn()
    loop.turn()
    turns.add("d", Named("d1"))
    assert len(turns) == 6
    while loop.turn():
        pass
    assert begun == ["a1", "b1", "c1", "a2", "b2", "d1", "a3", "a4"]


class PendingClient(Client):
    """A client whose connection is counted until it is closed. `closed_in`: the number of the turn."""

    def __init__(self, loop: Loop, turns: HandshakeTurns, pending: PendingConnections, host: str) -> None:
        super().__init__(loop)
        self.closed_in: int | None = None
        self._turns = turns
        self._host = host
        pending.add(host, self)
        turns.add(host, self)

    def close(self, reason: str) -> None:
        assert reason
        self.closed_in = self._loop.turn_number
        self._turns.remove(self._host, self)


@pytest.mark.parametrize("per_turn", [1, 2, 3], ids=lambda count: f"{count} listeners")
def test_a_stranger_s_queue_does_not_take_a_genuine_client_s_turn(per_turn: int) -> None:
    """Strangers at five addresses keep both the queue and the pending connections full, and never go on.

    `per_turn`: connections that they open in each turn, one at each listener.
    """
    loop = Loop()
    turns, pending = HandshakeTurns(loop.call_soon), PendingConnections(PENDING_MAX, PENDING_MAX // 4)
    strangers = list[PendingClient]()

    def strangers_come(count: int) -> None:
        for _ in range(count):
            strangers.append(PendingClient(loop, turns, pending, f"10.6.6.{len(strangers) % 5}"))

    strangers_come(2 * PENDING_MAX)
    assert len(pending) == len(turns) == PENDING_MAX
    genuine = PendingClient(loop, turns, pending, HOST)
    while genuine.closed_in is None and loop.turn_number < 4 * PENDING_MAX:
        loop.turn()
        if genuine.begun_in and loop.turn_number == genuine.begun_in[0] + FLIGHT_TURNS:
            pending.remove(genuine)
            break
        strangers_come(per_turn)
    assert genuine.closed_in is None, "closed as the oldest, before it could say who it is"
    assert genuine.begun_in == [6], "each of the five other addresses has one turn before it"
    assert pending.of_host(HOST) == 0 and len(pending) >= PENDING_MAX - 1


@given(st.integers(1, 4), st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.booleans()), max_size=30))
def test_no_turn_begins_more_and_nobody_waits_for_ever(
    per_turn_max: int, arrivals: list[tuple[int, int, bool]]
) -> None:
    loop, begun = Loop(), list[Client]()
    turns, clients, left = HandshakeTurns(loop.call_soon, per_turn_max), list[Client](), set[Client]()
    hosts: dict[Client, str] = {}
    for count, host, leaves in arrivals:
        for _ in range(count):
            clients.append(Client(loop))
            hosts[clients[-1]] = str(host)
            turns.add(str(host), clients[-1])
        waiting = [one for one in clients if not one.begun_in and one not in left]
        if leaves and waiting:
            turns.remove(hosts[waiting[0]], waiting[0])
            left.add(waiting[0])
        loop.turn()
        begun = [one for one in clients if one.begun_in]
    for _ in range(len(clients)):
        loop.turn()
    per_turn = [one.begun_in for one in clients if one not in left]
    assert all(len(numbers) == 1 for numbers in per_turn) and len(begun) <= len(per_turn)
    for name in set(hosts.values()):
        of_host = [one.begun_in for one in clients if one not in left and hosts[one] == name]
        assert of_host == sorted(of_host), "those of one address in order of arrival"
    assert all(per_turn.count(numbers) <= per_turn_max for numbers in per_turn)
    assert not any(one.begun_in for one in left)
    assert loop.turn() == 0
