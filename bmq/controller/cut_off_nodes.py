"""Which nodes alone cannot reach the store: others take their partitions over. Decisions only; times in seconds.

Nodes say with their reports whether they reach the store. If all say no, the store is away, and moving partitions helps
nobody. So a node is cut off only if it has not reached the store for a time in which another one could always write.
The nodes notice an outage and its end at different moments: therefore both last at least STEADY_S, which is longer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from bmq.dataclass import dataclass
from bmq.metadata.image import ROLE_BROKER, Node
from bmq.protocol.internal_messages import StoreState

STEADY_S: Final = 5.0
_STATES: Final = frozenset(StoreState)


@dataclass(frozen=True, slots=True)
class _Reach:
    """What a node says, under this registration, and since when."""

    node_epoch: int
    state: StoreState
    since_s: float


class CutOffNodes:
    """What the nodes said last. A node that does not report any more is fenced by its silence."""

    def __init__(self) -> None:
        self._reaches: dict[int, _Reach] = {}

    def heard(self, node_id: int, node_epoch: int, state: int, now_s: float) -> None:
        """A node's report. Unknown states, as of other releases, prove nothing."""
        known = self._reaches.get(node_id)
        said = StoreState(state) if state in _STATES else StoreState.UNKNOWN
        if known is None or known.node_epoch != node_epoch or known.state is not said:
            self._reaches[node_id] = _Reach(node_epoch, said, now_s)

    def is_any_away(self, live: Mapping[int, Node]) -> bool:
        """Whether a live node cannot reach the store, so that others have to show that they can write."""
        return any(self._state(node_id, live) is StoreState.AWAY for node_id in self._reaches)

    def writers(self, live: Mapping[int, Node], now_s: float) -> Collection[int]:
        """The live nodes that could always write lately."""
        return self._steady(StoreState.WRITABLE, live, now_s)

    def cut_off(self, live: Mapping[int, Node], now_s: float) -> Collection[int]:
        """The nodes that alone do not reach the store; empty if no broker is known that could take over."""
        able = (live[node_id] for node_id in self.writers(live, now_s))
        if not any(ROLE_BROKER in node.roles and not node.is_draining for node in able):
            return frozenset()
        return self._steady(StoreState.AWAY, live, now_s)

    def _steady(self, state: StoreState, live: Mapping[int, Node], now_s: float) -> frozenset[int]:
        return frozenset(
            node_id
            for node_id, reach in self._reaches.items()
            if self._state(node_id, live) is state and now_s - reach.since_s >= STEADY_S
        )

    def _state(self, node_id: int, live: Mapping[int, Node]) -> StoreState | None:
        node, reach = live.get(node_id), self._reaches[node_id]
        return reach.state if node is not None and node.epoch == reach.node_epoch else None
