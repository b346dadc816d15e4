"""Quotas that hold for a whole cluster (`bmq.client.quota.scope=cluster`): which part of one each proxy may give out.

Every proxy says once a second what its clients used, and gets its shares back. The proxies in use share a quota: a part
evenly, so that one that begins gets something at once, and the rest by use. A proxy that nobody uses has the share of an
even division until it reports: for a second more than the quota may be given out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from bmq.protocol.internal_messages import QuotaShare, QuotaUse

EVEN_PART: Final = 0.3
"""The part of a quota that is divided evenly; with three proxies in use shares are within a tenth of their use after six reports."""
USE_KEPT_S: Final = 5.0
"""A proxy that did not report a use for so long has none."""
BUCKETS_MAX: Final = 10_000
"""Quotas in use at once whose shares are known; others are divided evenly by the proxies themselves."""

_Key = tuple[str, str, str]


def shares(rates: Mapping[int, float]) -> dict[int, float]:
    """Shares by node, given the bytes per second that it uses; their sum is 1."""
    total = sum(rates.values())
    if not rates or total <= 0:
        return {node_id: 1 / len(rates) for node_id in rates}
    even = EVEN_PART / len(rates)
    return {node_id: even + (1 - EVEN_PART) * rate / total for node_id, rate in rates.items()}


class QuotaShares:
    """What the proxies used lately. Lost with its controller: the next one knows it after a round of reports."""

    def __init__(self) -> None:
        self._uses: dict[_Key, dict[int, tuple[float, float]]] = {}  # (bytes per second, when) by node

    def take(
        self, node_id: int, uses: Sequence[QuotaUse], interval_s: float, live: Collection[int], now_s: float
    ) -> list[QuotaShare]:
        """A node's report; its shares. `interval_s`: what the report covers. `live`: the nodes there are."""
        answer = []
        for use in uses:
            key = (use.key, use.user, use.client_id)
            by_node = self._uses.get(key)
            if by_node is None:
                if not self._has_room(now_s):
                    continue
                by_node = self._uses[key] = {}
            by_node[node_id] = (use.used_bytes / interval_s if interval_s > 0 else 0.0, now_s)
            for other, (_, when_s) in tuple(by_node.items()):
                if other not in live or now_s - when_s > USE_KEPT_S:
                    del by_node[other]
            share = shares({other: rate for other, (rate, _) in by_node.items()}).get(node_id, 1.0)
            answer.append(QuotaShare(key=use.key, user=use.user, client_id=use.client_id, share=share))
        return answer

    def _has_room(self, now_s: float) -> bool:
        if len(self._uses) >= BUCKETS_MAX:
            for key, by_node in tuple(self._uses.items()):
                if all(now_s - when_s > USE_KEPT_S for _, when_s in by_node.values()):
                    del self._uses[key]
        return len(self._uses) < BUCKETS_MAX
