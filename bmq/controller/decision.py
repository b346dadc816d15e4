"""A decision: the answer, and the records that make it true. Nothing has changed until they are replayed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

from bmq.dataclass import dataclass
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.metadata_records import MetadataRecord
from bmq.protocol.turns import at_once
from bmq.protocol.wire_turns import InTurns

R = TypeVar("R")
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Decision(Generic[R]):
    """`response` may leave only once `records` are durable."""

    response: R
    records: Sequence[MetadataRecord] = ()


class Deciding(Generic[P, R]):
    """A function that decides about many things: at once where it is called, or in turns of the event loop.

    Made of a generator function that yields after a bounded number of them (decorator). Nothing it looks at may change
    until it ends: it is run within its turn of the metadata log (decision_log.py).
    """

    def __init__(self, steps: Callable[P, InTurns[Decision[R]]]) -> None:
        self.in_turns = steps
        self.__doc__ = steps.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Decision[R]:
        return at_once(self.in_turns(*args, **kwargs))


def refuse_all(results: Iterable[Any], code: ErrorCode, message: str) -> None:
    """Turn every success among a response's results into this error: their records could not be written."""
    for result in results:
        if result.error_code == ErrorCode.NONE:
            result.error_code = code
            result.error_message = message
