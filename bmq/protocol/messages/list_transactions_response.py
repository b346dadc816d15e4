"""ListTransactionsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TransactionState(Message):
    """A part of ListTransactionsResponse."""

    transactional_id: str
    producer_id: int
    transaction_state: str

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        transaction_state: str = "",
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.transaction_state = transaction_state


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ListTransactionsResponse(Message):
    """The message."""

    throttle_time_ms: int
    error_code: int
    unknown_state_filters: Sequence[str]
    transaction_states: Sequence[TransactionState]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_state_filters: Sequence[str] = (),
        transaction_states: Sequence[TransactionState] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_state_filters = unknown_state_filters
        self.transaction_states = transaction_states


_TRANSACTION_STATE: Final = Format(
    TransactionState,
    version_min=0,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("transactional_id", "string"),
        FormatField("producer_id", "int64"),
        FormatField("transaction_state", "string"),
    ),
)
FORMAT: Final = Format(
    ListTransactionsResponse,
    version_min=0,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("error_code", "int16"),
        FormatField("unknown_state_filters", "string", is_array=True),
        FormatField("transaction_states", entity=_TRANSACTION_STATE, is_array=True),
    ),
)
