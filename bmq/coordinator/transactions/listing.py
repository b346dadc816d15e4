"""ListTransactions: the filters on transactional ids (KIP-664, KIP-994, KIP-1152). Decisions only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import re2

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.list_transactions_request import ListTransactionsRequest
from bmq.protocol.transaction_records import TransactionStatus, TransactionValue

STATE_NAMES: Final = {
    TransactionStatus.EMPTY: "Empty",
    TransactionStatus.ONGOING: "Ongoing",
    TransactionStatus.PREPARE_COMMIT: "PrepareCommit",
    TransactionStatus.PREPARE_ABORT: "PrepareAbort",
    TransactionStatus.COMPLETE_COMMIT: "CompleteCommit",
    TransactionStatus.COMPLETE_ABORT: "CompleteAbort",
    TransactionStatus.DEAD: "Dead",
    TransactionStatus.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}
"""Names as Kafka shows them to clients."""
PATTERN_LENGTH_MAX: Final = 10_000
"""Characters; RE2's time and memory are proportional to it."""
_PATTERN_BYTES_MAX: Final = 128 * 1024
"""Limit for the compiled pattern with its cache: nested repetitions are short to write. Bounds the time per character
of an id to some 10 us for the worst pattern accepted."""

_STATUSES: Final = {name: status for status, name in STATE_NAMES.items()}


def state_name(value: TransactionValue) -> str:
    return STATE_NAMES[TransactionStatus(value.status)]


class ListFilter:
    """A request's filters. Raises KafkaError INVALID_REGULAR_EXPRESSION.

    `unknown_states`: names that are no states, returned in the answer.
    """

    def __init__(self, request: ListTransactionsRequest) -> None:
        named = list(dict.fromkeys(request.state_filters))
        self.unknown_states: Sequence[str] = [name for name in named if name not in _STATUSES]
        self._statuses = frozenset(_STATUSES[name] for name in named if name in _STATUSES)
        self._has_states = bool(named)
        self._producer_ids = frozenset(request.producer_id_filters)
        self._duration_ms = request.duration_filter
        self._pattern = _compiled(request.transactional_id_pattern) if request.transactional_id_pattern else None

    def takes(self, transactional_id: str, value: TransactionValue, now_ms: int) -> bool:
        """Whether the id is listed: it has to pass all filters given."""
        if self._has_states and value.status not in self._statuses:
            return False
        if self._producer_ids and value.producer_id not in self._producer_ids:
            return False
        # As in Kafka, an id without a transaction yet passes every duration filter: its start is before all times.
        if self._duration_ms >= 0 and now_ms - value.start_ms <= self._duration_ms:
            return False
        return self._pattern is None or self._pattern.fullmatch(transactional_id) is not None


def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_BYTES_MAX
    options.never_capture = (
        True  # else the time per character is the number of groups times the length of the pattern, which is too much
    )
    try:
        if len(pattern) > PATTERN_LENGTH_MAX:
            raise re2.error(f"a pattern of {len(pattern)} characters, {PATTERN_LENGTH_MAX} are allowed")
        return re2.compile(pattern, options)
    except re2.error as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"the pattern is refused: {error}") from error
