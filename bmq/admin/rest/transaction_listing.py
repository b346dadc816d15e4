"""One page of the transactional ids of the cluster, with what is open under each."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from bmq.admin.rest.transaction_requests import described, listed
from bmq.admin.rest.transaction_views import (
    UNFINISHED,
    TransactionLine,
    TransactionPage,
    line_without_details,
    transaction_line,
)
from bmq.admin.rest.user_requests import UserRequests
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.list_transactions_response import TransactionState

DESCRIBED_MAX: Final = 5_000
"""Transactions that one request for hanging ones looks at. Its page may be short, and say where to go on."""
_DESCRIBED_AT_A_TIME: Final = 500
_AT_A_TIME: Final = 10_000
"""Transactional ids that are sorted out before others may use the event loop."""


class Shown(StrEnum):
    ALL = "all"
    OPEN = "open"
    HANGING = "hanging"


async def transaction_page(requests: UserRequests, show: Shown, prefix: str, after: str, limit: int) -> TransactionPage:
    """Ids that begin with `prefix` and follow `after`, in their order. Raises ProblemError."""
    answer = await listed(requests, () if show is Shown.ALL else UNFINISHED)
    at_a_time = max(limit, _DESCRIBED_AT_A_TIME) if show is Shown.HANGING else limit
    lines: list[TransactionLine] = []
    scanned_count = 0
    is_last = False
    while not is_last and len(lines) < limit and scanned_count < DESCRIBED_MAX:
        some, is_last = await _next(answer.transaction_states, prefix, after, at_a_time)
        scanned_count += len(some)
        after = some[-1].transactional_id if some else after
        lines += [one for one in await _lines(requests, some) if show is not Shown.HANGING or one.is_hanging]
    if len(lines) > limit:
        lines, is_last = lines[:limit], False
        after = lines[-1].transactional_id
    return TransactionPage(transactions=lines, next_after=None if is_last else after)


async def _next(
    known: Sequence[TransactionState], prefix: str, after: str, limit: int
) -> tuple[Sequence[TransactionState], bool]:
    """The first `limit` ids after this one, and whether they are the last."""
    first: list[TransactionState] = []
    for start in range(0, len(known), _AT_A_TIME):
        some = (one for one in known[start : start + _AT_A_TIME] if one.transactional_id > after)
        wanted = (one for one in some if one.transactional_id.startswith(prefix))
        first = heapq.nsmallest(limit + 1, (*first, *wanted), key=lambda one: one.transactional_id)
        await asyncio.sleep(0)
    return first[:limit], len(first) <= limit


async def _lines(requests: UserRequests, ids: Sequence[TransactionState]) -> list[TransactionLine]:
    """Without ids that are gone by now."""
    by_id = {one.transactional_id: one for one in await described(requests, [one.transactional_id for one in ids])}
    now_ms = requests.now_ms()
    lines = []
    for one in ids:
        state = by_id.get(one.transactional_id)
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE if state is None else ErrorCode(state.error_code)
        if state is not None and not code:
            lines.append(transaction_line(state, now_ms))
        elif code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            lines.append(line_without_details(one.transactional_id, one.transaction_state, one.producer_id, code.name))
    return lines
