"""How many calls of the gRPC door are open, and what became of those that were refused. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bmq.databus.rules import Refusal
from bmq.databus.socket_frame import Code
from bmq.dataclass import dataclass

FULL_RETRY_MS: Final = 1_000


class TooManyCalls(Exception):
    """One call more than the door serves at a time."""

    def __init__(self, calls_max: int) -> None:
        sentence = f"the agent has {calls_max} calls open, which is its limit"
        super().__init__(sentence)
        self.refusal = Refusal(Code.RETRY, sentence, FULL_RETRY_MS)


@dataclass(slots=True)
class GrpcCalls:
    """Plain numbers for the metrics. `ended_late`: calls that were ended because the client did not go on."""

    calls_max: int
    open_calls: int = 0
    refused_calls: int = 0
    ended_late: int = 0

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Raises TooManyCalls."""
        if self.open_calls >= self.calls_max:
            self.refused_calls += 1
            raise TooManyCalls(self.calls_max)
        self.open_calls += 1
        try:
            yield
        finally:
            self.open_calls -= 1
