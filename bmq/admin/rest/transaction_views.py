"""Answers of the transaction pages, and which transactions hang. Decisions only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pydantic import BaseModel

from bmq.protocol.messages.describe_transactions_response import TransactionState

OPEN: Final = "Ongoing"
UNFINISHED: Final = (OPEN, "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
"""States of transactions without an end in all of their partitions."""
HANGING_AFTER_MS: Final = 60_000
"""A coordinator aborts a transaction some seconds after its time-out. One that is there for so long after it hangs."""


class TransactionPartitions(BaseModel):
    topic: str
    partitions: list[int]


class TransactionLine(BaseModel):
    """`is_open`: the producer has not ended it. `is_hanging`: it has no end a minute after its time-out. `age_ms`: since it began; null
    without a transaction. `problem`: why its coordinator does not tell more now; what it would tell is null then.
    """

    transactional_id: str
    state: str
    is_open: bool
    is_hanging: bool
    producer_id: int
    producer_epoch: int | None
    started_ms: int | None
    age_ms: int | None
    timeout_ms: int | None
    partition_count: int | None
    problem: str | None


class TransactionPage(BaseModel):
    """`next_after`: what to ask for next as `after`; null on the last page."""

    transactions: list[TransactionLine]
    next_after: str | None


class TransactionView(BaseModel):
    """`producer_id`, `producer_epoch` and `started_ms` name the transaction that is open, or was the last one. `is_hanging`: it has no end
    a minute after its time-out. `topics`: its partitions, of topics that may be described.
    """

    transactional_id: str
    state: str
    is_open: bool
    is_hanging: bool
    producer_id: int
    producer_epoch: int
    started_ms: int
    age_ms: int | None
    timeout_ms: int
    topics: list[TransactionPartitions]


def is_hanging(state: str, started_ms: int, timeout_ms: int, now_ms: int) -> bool:
    return state in UNFINISHED and started_ms >= 0 and now_ms - started_ms > timeout_ms + HANGING_AFTER_MS


def age_ms(state: str, started_ms: int, now_ms: int) -> int | None:
    """Null without a transaction that has no end yet."""
    return max(0, now_ms - started_ms) if state in UNFINISHED and started_ms >= 0 else None


def transaction_line(found: TransactionState, now_ms: int) -> TransactionLine:
    view = transaction_view(found, now_ms)
    return TransactionLine(
        **view.model_dump(exclude={"started_ms", "topics"}),
        started_ms=view.started_ms if view.started_ms >= 0 else None,
        partition_count=sum(len(topic.partitions) for topic in view.topics),
        problem=None,
    )


def line_without_details(transactional_id: str, state: str, producer_id: int, problem: str) -> TransactionLine:
    return TransactionLine(
        transactional_id=transactional_id,
        state=state,
        is_open=state == OPEN,
        is_hanging=False,
        producer_id=producer_id,
        producer_epoch=None,
        started_ms=None,
        age_ms=None,
        timeout_ms=None,
        partition_count=None,
        problem=problem,
    )


def transaction_view(found: TransactionState, now_ms: int) -> TransactionView:
    state, started_ms, timeout_ms = (
        found.transaction_state,
        found.transaction_start_time_ms,
        found.transaction_timeout_ms,
    )
    return TransactionView(
        transactional_id=found.transactional_id,
        state=state,
        is_open=state == OPEN,
        is_hanging=is_hanging(state, started_ms, timeout_ms, now_ms),
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        started_ms=started_ms,
        age_ms=age_ms(state, started_ms, now_ms),
        timeout_ms=timeout_ms,
        topics=topics_of(found),
    )


def topics_of(found: TransactionState) -> list[TransactionPartitions]:
    """The transaction's partitions, in the order of the topics' names."""
    return sorted(
        (TransactionPartitions(topic=one.topic, partitions=sorted(one.partitions)) for one in found.topics),
        key=lambda one: one.topic,
    )


def partition_words(topics: Iterable[TransactionPartitions]) -> str:
    """The partitions in a few words."""
    names = [f"{one.topic}-{number}" for one in topics for number in one.partitions]
    if not names:
        return "no partition"
    return names[0] if len(names) == 1 else f"{len(names)} partitions"
