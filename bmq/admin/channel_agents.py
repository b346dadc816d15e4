"""Databus agents that asked this process for changes of channels: in memory, bounded. Decisions only.

Each agent asks again at least every few ten seconds, so another process, and this one after a restart, knows the agents
that ask it within that time.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from typing import Final

from bmq.dataclass import dataclass

AGENTS_MAX: Final = 10_000
FORGOTTEN_AFTER_MS: Final = 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class SeenAgent:
    """`address`: where it asked from last. `applied_version`: of all channels, as it said; None: it has not said.

    `open_polls`: requests of it that wait now.
    """

    agent_id: str
    address: str
    applied_version: int | None
    last_seen_ms: int
    open_polls: int = 0


class SeenAgents:
    """The agents of the last hour, the least recently seen first."""

    def __init__(self, agents_max: int = AGENTS_MAX) -> None:
        self._agents: OrderedDict[str, SeenAgent] = OrderedDict()
        self._agents_max = agents_max

    def __len__(self) -> int:
        return len(self._agents)

    def asks(self, agent_id: str, address: str, applied_version: int | None, now_ms: int) -> None:
        """An agent begins to wait for changes; `ended` when its request is answered, or it has gone."""
        self._put(agent_id, address, applied_version, now_ms, +1)

    def ended(self, agent_id: str, now_ms: int) -> None:
        """One wait of the agent is over."""
        known = self._agents.get(agent_id)
        if known is not None:  # not forgotten since
            self._put(agent_id, known.address, known.applied_version, now_ms, -1)

    def listed(self, after: str, limit: int, now_ms: int) -> list[SeenAgent]:
        """In the order of their ids, those that follow `after`."""
        self._forget(now_ms)
        following = (agent for agent in self._agents.values() if agent.agent_id > after)
        return heapq.nsmallest(limit, following, key=lambda agent: agent.agent_id)

    def _put(self, agent_id: str, address: str, applied_version: int | None, now_ms: int, polls: int) -> None:
        known = self._agents.pop(agent_id, None)
        open_polls = max(0, (0 if known is None else known.open_polls) + polls)
        self._agents[agent_id] = SeenAgent(agent_id, address, applied_version, now_ms, open_polls)
        self._forget(now_ms)

    def _forget(self, now_ms: int) -> None:
        while self._agents:
            first = next(iter(self._agents.values()))
            is_old = first.last_seen_ms + FORGOTTEN_AFTER_MS < now_ms and not first.open_polls
            if len(self._agents) <= self._agents_max and not is_old:
                return
            del self._agents[first.agent_id]
