"""One subscriber: how many records it takes now, what it holds, and how it is woken."""

from __future__ import annotations

from collections.abc import Callable

from bmq.gateway.credit import Credit, Deliveries
from bmq.gateway.failure import GatewayFailed


class Subscriber:
    """One stream: its credit, what it holds, and how it is woken. `wake` may be called at any time, by the loop alone."""

    __slots__ = ("credit", "deliveries", "failure", "is_waiting", "wake")

    def __init__(self, credit_max: int, wake: Callable[[], None]) -> None:
        self.credit = Credit(credit_max)
        self.deliveries = Deliveries(credit_max)
        self.wake = wake
        self.is_waiting = False
        self.failure: GatewayFailed | None = None

    @property
    def wanted(self) -> int:
        """How many records it takes now."""
        return min(self.credit.records, self.deliveries.room)

    def fail(self, failure: GatewayFailed) -> None:
        """End the stream; the first reason counts."""
        self.failure = self.failure or failure
        self.wake()
