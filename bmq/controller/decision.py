"""A decision: the answer, and the records that make it true. Nothing has changed until they are replayed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.metadata_records import MetadataRecord

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Decision(Generic[R]):
    """`response` may leave only once `records` are durable."""

    response: R
    records: Sequence[MetadataRecord] = ()


def refuse_all(results: Iterable[Any], code: ErrorCode, message: str) -> None:
    """Turn every success among a response's results into this error: their records could not be written."""
    for result in results:
        if result.error_code == ErrorCode.NONE:
            result.error_code = code
            result.error_message = message
