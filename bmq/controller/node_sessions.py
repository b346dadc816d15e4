"""Node sessions: decides which nodes are alive, which to fence, and why. Times are the event loop's, in seconds. Pure.

Every heartbeat is a sign of life, and so is every report. When the connection of a node's heartbeats is lost, the node
has a short grace period to come back on another; when it is only silent, it has the session timeout. Both can guess wrong
(a hung switch, a paused process): fencing a living node costs its partitions a move, but no records (rules 1 and 7).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Protocol

from bmq.dataclass import dataclass

LATE_CHECK_S: Final = 1.0
"""A check this late means that this process was held up and may have unread heartbeats."""


class Peer(Protocol):
    """The connection that a request came over."""

    def on_lost(self, lost: Callable[[], None]) -> None:
        """Call `lost` once when the connection is closed by either side; at once if it already is."""


@dataclass(frozen=True, slots=True)
class Overdue:
    """A node that is to be fenced. `why` is a clause that follows the node's name."""

    node_id: int
    broker_epoch: int
    why: str


@dataclass(slots=True)
class _Session:
    broker_epoch: int
    deadline_s: float
    why: str
    is_heard: bool
    peer: Peer | None = None
    is_doubted: bool = False


class NodeSessions:
    """Sessions of all nodes that send, or should send, heartbeats.

    Call `check` often, at `next_check_s` at the latest.
    """

    def __init__(self, timeout_s: float, link_grace_s: float, check_interval_s: float) -> None:
        self._timeout_s = timeout_s
        self._link_grace_s = link_grace_s
        self._check_interval_s = check_interval_s
        self._sessions: dict[int, _Session] = {}
        self._checked_s: float | None = None
        self._believed_until_s = -math.inf  # we stood still: until then ignore others' claims that nodes are dead

    def expect(self, node_id: int, broker_epoch: int, now_s: float) -> None:
        """A node that has not sent a heartbeat here yet has the session timeout to send one."""
        self._sessions[node_id] = _Session(
            broker_epoch, now_s + self._timeout_s, f"was not heard of for {self._timeout_s:g} s", is_heard=False
        )

    def heard(self, node_id: int, broker_epoch: int, peer: Peer | None, now_s: float) -> bool:
        """A sign of life; True if its connection is new here and has to be watched from now on."""
        old = self._sessions.get(node_id)
        self._sessions[node_id] = _Session(
            broker_epoch, now_s + self._timeout_s, f"was silent for {self._timeout_s:g} s", is_heard=True, peer=peer
        )
        return peer is not None and (old is None or old.peer is not peer)

    def reported(self, node_id: int, broker_epoch: int, now_s: float) -> None:
        """A report is a sign of life as well: a node's next heartbeat waits for the report's answer."""
        session = self._sessions.get(node_id)
        if session is not None and session.broker_epoch == broker_epoch and session.is_heard and not session.is_doubted:
            session.deadline_s = max(session.deadline_s, now_s + self._timeout_s)

    def lost(self, node_id: int, peer: Peer, now_s: float) -> None:
        """A connection was lost. Ignored if the node has used another one since."""
        session = self._sessions.get(node_id)
        if session is not None and session.peer is peer:
            session.peer = None
            self._shorten(session, now_s + self._link_grace_s, "lost its connection to the controller")

    def gone(self, node_id: int, why: str, now_s: float) -> None:
        """Another source considers the node dead. Ignored while the node's connection here is open, and for a while
        after we stood still: other nodes may have stood still too, and drop connections as we do."""
        session = self._sessions.get(node_id)
        if session is not None and session.peer is None and now_s >= self._believed_until_s:
            self._shorten(session, now_s, why)

    def after_stall(self, now_s: float) -> None:
        """This process stood still and drops the nodes' connections and requests; that says nothing about the nodes."""
        self._believed_until_s = now_s + self._timeout_s
        for session in self._sessions.values():
            session.peer = None
            if not session.is_doubted:
                session.deadline_s = max(session.deadline_s, now_s + self._timeout_s)

    def forget(self, overdue: Overdue, now_s: float) -> None:
        """Drop the session of a node that was fenced, unless a heartbeat came while the records were being written."""
        session = self._sessions.get(overdue.node_id)
        if session is not None and session.broker_epoch == overdue.broker_epoch and session.deadline_s <= now_s:
            del self._sessions[overdue.node_id]

    def is_alive(self, node_id: int, now_s: float) -> bool:
        """Whether this controller has heard from the node recently enough."""
        session = self._sessions.get(node_id)
        return session is not None and session.is_heard and now_s < session.deadline_s

    @property
    def are_settled(self) -> bool:
        """Whether every session has had a heartbeat and none is in doubt."""
        return all(session.is_heard and not session.is_doubted for session in self._sessions.values())

    def check(self, now_s: float) -> list[Overdue]:
        """The nodes to fence now.

        The time by which this check is late does not count as silence: where each turn of the event loop is long, answers
        and heartbeats wait for as long. If it is much too late, nodes get half the timeout to send a heartbeat.
        """
        late_s = 0.0 if self._checked_s is None else now_s - self._checked_s - self._check_interval_s
        self._checked_s = now_s
        if late_s > 0:
            for session in self._sessions.values():
                if session.is_doubted:
                    continue
                if late_s > LATE_CHECK_S:
                    session.deadline_s = max(session.deadline_s, now_s + self._timeout_s / 2)
                else:
                    session.deadline_s += late_s
        return self.overdue(now_s)

    def overdue(self, now_s: float) -> list[Overdue]:
        """The nodes whose time is over."""
        return [
            Overdue(node_id, session.broker_epoch, session.why)
            for node_id, session in self._sessions.items()
            if session.deadline_s <= now_s
        ]

    def next_check_s(self, now_s: float) -> float:
        """When to check again."""
        regular = now_s + self._check_interval_s
        deadlines = (session.deadline_s for session in self._sessions.values())
        return min((regular, *(deadline_s for deadline_s in deadlines if deadline_s > now_s)))

    def _shorten(self, session: _Session, deadline_s: float, why: str) -> None:
        if deadline_s < session.deadline_s:
            session.deadline_s, session.why, session.is_doubted = deadline_s, why, True
