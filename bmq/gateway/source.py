"""Where a subscriber's records come from, as the stream that serves it sees it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from bmq.gateway.failure import GatewayFailed
from bmq.gateway.held_records import HeldRecord


class Settlement(Enum):
    """What a subscriber says about a record."""

    ACKNOWLEDGE = 1
    RELEASE = 2
    REJECT = 3


class Source(Protocol):
    """Made for one subscriber, who takes records as it has credit."""

    def poll(self, count_max: int, bytes_max: int) -> Sequence[HeldRecord]:
        """Records that are here now. Empty: the subscriber is woken when there may be some."""

    def wanted_changed(self) -> None:
        """The subscriber has more credit, or holds fewer records."""

    async def settle(self, how: Settlement, records: Sequence[HeldRecord]) -> Sequence[GatewayFailed | None]:
        """For each record: None, or why it could not be settled. Raises GatewayFailed without a group."""

    async def close(self) -> None:
        """The subscriber has gone: what it held goes to others."""
