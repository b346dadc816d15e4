"""DataNodes that die, hang and return; and that nobody who asked for acks=all is told of a success too early."""

from __future__ import annotations

import random

from tests.fakes.namespace import Directory, files_below
from tests.fakes.store import FakeStore
from tests.simulation.history import Violation
from tests.simulation.loop import VirtualTimeLoop
from tests.simulation.outcome import Outcome


class NodeLosses:
    """`away_s`: the longest that a node stays away; most come back sooner."""

    def __init__(
        self, loop: VirtualTimeLoop, store: FakeStore, outcome: Outcome, dice: random.Random, away_s: float
    ) -> None:
        self._loop = loop
        self._store = store
        self._outcome = outcome
        self._dice = dice
        self._away_s = away_s

    def lose_some(self) -> None:
        """One node, now and then all but one, seldom all: killed or hung, until they return."""
        dice, up = self._dice, self._store.nodes.up()
        for name in dice.sample(up, min(len(up), dice.choice((1, 1, 1, 2, 2, 3)))):
            self._store.lose_node(name, is_hung=dice.random() < 0.5)
            self._outcome.node_losses += 1
            self._later(self._away_s * dice.random() ** 2, self._return, name)

    def all_return(self) -> None:
        """And the NameNode has put everything on enough of them again."""
        for name in self._store.nodes.states:
            self._store.return_node(name)
        self._store.replicate()

    def _return(self, name: str) -> None:
        self._store.return_node(name)
        self._later(self._away_s * self._dice.random(), self._store.replicate)

    def _later(self, delay_s: float, callback: object, *arguments: object) -> None:
        self._loop.call_later(delay_s, callback, *arguments, context=self._store.context)  # type: ignore[arg-type]


def find_shortage(store: FakeStore, directory: str, last_value: bytes, replicas_min: int) -> Violation | None:
    """A batch with acks=all was acknowledged: has it been on that many nodes at once by now?

    A file holds whole batches one after the other, so it is enough to look for the last value. What lies nowhere is
    missed in the end, when everything is read.
    """
    root = store.namespace.find(directory)
    assert isinstance(root, Directory)
    counts = []
    for path, file in files_below(root, ""):
        if path.endswith(".log") and (place := file.data.find(last_value)) >= 0:
            counts.append(file.most_replicas(place + len(last_value)))
    if not counts or max(counts) >= replicas_min:
        return None
    return Violation(f"acks=all was told that {last_value[:20]!r} is safe: on {max(counts)} of {replicas_min} nodes")
