"""Decides how acquiring, acknowledging and releasing records change a share partition (KIP-932). Decisions only.

A decision looks at a window and changes nothing. It returns the change as its record has it.
Source: Kafka's core/src/main/java/kafka/server/share/SharePartition.java (4.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from bmq.coordinator.config import RecordLimits
from bmq.coordinator.share_state.window import (
    ACKNOWLEDGED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    SPAN_MAX,
    Window,
)
from bmq.dataclass import dataclass
from bmq.protocol.dead_letters import DeadReason
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.retry_backoff import delay_ms
from bmq.protocol.share_state_messages import RECORD_LIMIT, AckType
from bmq.protocol.share_state_records import StateBatch

_SPLIT_COUNT_MIN: Final = 2


class Wanted(NamedTuple):
    """How many records a member wants: see ShareAcquireRequest."""

    records_max: int
    batch_size: int
    mode: int


class Given(NamedTuple):
    """Records that are acquired; `delivery_count`: with this delivery."""

    first: int
    last: int
    delivery_count: int


class Span(NamedTuple):
    """Offsets, both included."""

    first: int
    last: int


class Ack(NamedTuple):
    """`types`: one for all, or one for each offset."""

    first: int
    last: int
    types: Sequence[int]


@dataclass(slots=True)
class _Taking:
    """What an acquisition has so far. `left`: locks that may be given yet."""

    wanted: Wanted
    limits: RecordLimits
    left: int
    taken: int = 0
    is_over: bool = False

    @property
    def split_from(self) -> int:
        """The delivery count from which records are given apart: one of them may kill its consumers."""
        return max(_SPLIT_COUNT_MIN, -(-self.limits.delivery_count_limit // 2))


def acquire(window: Window, batches: Iterable[Span], wanted: Wanted, limits: RecordLimits) -> list[Given]:
    """Available records of the record batches `batches`, in order.

    Mode BATCH_OPTIMIZED goes to the end of a record batch, RECORD_LIMIT gives `records_max` at most. Ranges are cut at the
    ends of record batches once they have `batch_size` records. Records that were given often are given apart, in parts
    of their record batch that become smaller, and at last alone.
    """
    taking = _Taking(wanted, limits, limits.record_locks_max - window.in_use)
    found: list[Given] = []
    is_new = True
    for batch in batches:
        if taking.is_over or taking.taken >= wanted.records_max or taking.left <= 0:
            break
        for given in _of_batch(window, batch, taking):
            before = found[-1] if found else None
            if (
                before is None
                or is_new
                or before.delivery_count != given.delivery_count
                or before.last + 1 != given.first
            ):
                found.append(given)
            else:
                found[-1] = before._replace(last=given.last)
            is_new = False
        is_new = wanted.mode != RECORD_LIMIT and bool(found) and _length(found[-1]) >= max(wanted.batch_size, 1)
    return found


def _length(given: Given) -> int:
    return given.last - given.first + 1


def _of_batch(window: Window, batch: Span, taking: _Taking) -> Iterator[Given]:
    last_allowed = window.start + SPAN_MAX - 1
    for first, last, count in window.available(batch.first, min(batch.last, last_allowed)):
        size = min(last - first + 1, taking.left)
        if taking.wanted.mode == RECORD_LIMIT:
            size = min(size, taking.wanted.records_max - taking.taken)
        if count >= taking.split_from:
            if not taking.taken:
                shift = count - taking.split_from + 1
                is_last = count >= taking.limits.delivery_count_limit - 1
                part = 1 if is_last else max((batch.last - batch.first + 1) >> shift, 1)
                yield Given(first, first + min(size, part) - 1, count + 1)
                taking.taken += min(size, part)
            taking.is_over = True
            return
        if size <= 0:
            return
        yield Given(first, first + size - 1, count + 1)
        taking.taken += size
        taking.left -= size


def without(batches: Iterable[Span], unseen: Sequence[Span]) -> Iterator[Span]:
    """The record batches without the offsets that no consumer has to see; both in order of offsets, the latter without overlaps."""
    place = 0
    for first, last in batches:
        while place < len(unseen) and unseen[place].last < first:
            place += 1
        at = place
        while at < len(unseen) and unseen[at].first <= last:
            if unseen[at].first > first:
                yield Span(first, unseen[at].first - 1)
            first = unseen[at].last + 1
            at += 1
        if first <= last:
            yield Span(first, last)


def archive(window: Window, spans: Iterable[Span]) -> list[StateBatch]:
    """Archive what is available of offsets that no consumer has to see."""
    found = []
    for span in spans:
        last = min(span.last, window.start + SPAN_MAX - 1)
        for first, until, count in window.available(span.first, last):
            found.append(
                StateBatch(first_offset=first, last_offset=until, delivery_state=ARCHIVED, delivery_count=count)
            )
    return found


def past_holes(window: Window, start: int, spans: Iterable[Span]) -> int:
    """The start offset behind what no consumer has to see, if no record was given yet: a hole may be of any length."""
    if window.end > max(window.start, start):
        return start
    for span in spans:
        if span.first <= start <= span.last:
            start = span.last + 1
    return start


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of records that no member has done: a released one waits for `backoff` from `now_ms` (wall clock) on (see
    bmq.protocol.retry_backoff); one that is given up becomes a dead letter before it is archived.
    """

    backoff: tuple[int, ...] = ()
    now_ms: int = 0
    has_dead_letters: bool = False

    def of_release(self, delivery_count: int, limit: int) -> tuple[int, int, int]:
        """State, time from which it is available (0: at once) and reason of a record released at this delivery count."""
        if delivery_count < limit:
            delay = delay_ms(self.backoff, delivery_count)
            return AVAILABLE, self.now_ms + delay if delay else 0, 0
        return self.given_up, 0, DeadReason.DELIVERY_COUNT if self.has_dead_letters else 0

    @property
    def given_up(self) -> int:
        return ARCHIVING if self.has_dead_letters else ARCHIVED


PLAIN: Final = Outcome()


class Settled(NamedTuple):
    """`batches`: records with a new state; `renewed`: those that stay locked for another lock duration."""

    batches: list[StateBatch]
    renewed: list[Span]


def acknowledge(window: Window, acks: Sequence[Ack], member_id: str, limit: int, outcome: Outcome = PLAIN) -> Settled:
    """All acks, or none. `limit`: the delivery count at which a released record is archived.

    Raises KafkaError INVALID_REQUEST (batches not in order), OFFSET_OUT_OF_RANGE (past all that was given),
    INVALID_RECORD_STATE (not locked by the member).
    """
    settled = Settled([], [])
    before = -1
    for ack in acks:
        if ack.first < 0 or ack.first > ack.last:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"offsets {ack.first} to {ack.last}")
        if ack.first < before:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"offset {ack.first} comes after {before}")
        before = ack.last
        if len(ack.types) not in (1, ack.last - ack.first + 1):
            why = f"{len(ack.types)} acknowledgement types for {ack.last - ack.first + 1} offsets"
            raise KafkaError(ErrorCode.INVALID_REQUEST, why)
        if ack.last < window.start:
            continue  # retention or a new start offset has moved past them
        if ack.last >= window.end:
            code = ErrorCode.OFFSET_OUT_OF_RANGE if window.end > window.start else ErrorCode.INVALID_RECORD_STATE
            raise KafkaError(code, f"offset {ack.last} was never given")
        for first, last, kind in _typed(ack, window.start):
            if not window.is_held(first, last, member_id):
                why = f"offsets {first} to {last} are not locked by member {member_id}"
                raise KafkaError(ErrorCode.INVALID_RECORD_STATE, why)
            if kind == AckType.RENEW:
                settled.renewed.append(Span(first, last))
            else:
                settled.batches.extend(_outcome(window, Span(first, last), kind, limit, outcome))
    _require_once(settled)
    return settled


def _typed(ack: Ack, start: int) -> Iterator[tuple[int, int, int]]:
    """Runs of offsets of one type, from the window's start on."""
    first = max(ack.first, start)
    if len(ack.types) == 1:
        yield first, ack.last, ack.types[0]
        return
    while first <= ack.last:
        kind = ack.types[first - ack.first]
        last = first
        while last < ack.last and ack.types[last + 1 - ack.first] == kind:
            last += 1
        yield first, last, kind
        first = last + 1


def _outcome(window: Window, span: Span, kind: int, limit: int, outcome: Outcome) -> Iterable[StateBatch]:
    """The records' new states."""
    match kind:
        case AckType.ACCEPT:
            return _states(window, span, ACKNOWLEDGED)
        case AckType.RELEASE:
            return release(window, [span], limit, outcome)
        case AckType.REJECT:
            return _states(window, span, outcome.given_up)
        case AckType.GAP:
            return _states(window, span, ARCHIVED)
        case _:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"acknowledgement type {kind}")


def _require_once(settled: Settled) -> None:
    """A batch may begin at the last offset of the one before, where both name the same record."""
    spans = sorted([Span(batch.first_offset, batch.last_offset) for batch in settled.batches] + list(settled.renewed))
    for one, following in pairwise(spans):
        if following.first <= one.last:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, f"offset {following.first} is acknowledged twice")


def release(window: Window, spans: Iterable[Span], limit: int, outcome: Outcome = PLAIN) -> list[StateBatch]:
    """Make locked records available again, at once or after their back-off; give up those at the limit of deliveries."""
    batches = []
    for span in spans:
        for first, last, count in window.counted(span.first, span.last):
            state, due_ms, reason = outcome.of_release(count, limit)
            batches.append(
                StateBatch(
                    first_offset=first,
                    last_offset=last,
                    delivery_state=state,
                    delivery_count=count,
                    due_ms=due_ms,
                    reason=reason,
                )
            )
    return batches


def held_by(window: Window, locks: Iterable[int]) -> list[Span]:
    """What the locks of these numbers still hold, in order of offsets."""
    return sorted(Span(first, last) for number in locks for first, last in window.held(number))


def _states(window: Window, span: Span, state: int) -> Iterator[StateBatch]:
    for first, last, count in window.counted(span.first, span.last):
        yield StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
