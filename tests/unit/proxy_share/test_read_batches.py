"""What is read for a share group: bounds of batches over any views, what is archived unseen, and what is sent."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.control_batch import ControlType, EndTransactionMarker, encode_end_transaction_marker
from bmq.protocol.record_batch import TRANSACTIONAL, CorruptRecords
from bmq.protocol.share_state_messages import AcquiredRange, OffsetRange
from bmq.proxy.share.read_batches import batches_of, cut, offset_ranges, records_around, unseen_ranges

pytestmark = pytest.mark.unit


def batch(base_offset: int, count: int = 1, producer_id: int = -1, *, is_transactional: bool = False) -> bytes:
    records = [Record(None, b"v" * (base_offset % 5), (), 1_700_000_000_000) for _ in range(count)]
    return bytes(
        encode_batch(
            records,
            base_offset=base_offset,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=0 if producer_id >= 0 else -1,
            attributes=(TRANSACTIONAL if is_transactional else 0),
        )
    )


def marker(base_offset: int, producer_id: int, kind: ControlType) -> bytes:
    end = EndTransactionMarker(kind, 0)
    return bytes(
        encode_end_transaction_marker(
            end, producer_id=producer_id, producer_epoch=0, timestamp_ms=1, base_offset=base_offset
        )
    )


def split(data: bytes, ends: Sequence[int]) -> list[memoryview]:
    places = sorted({0, len(data), *(end % len(data) for end in ends)})
    return [memoryview(data)[begin:end] for begin, end in pairwise(places)]


def pairs(ranges: Sequence[OffsetRange]) -> list[tuple[int, int]]:
    return [(one.first, one.last) for one in ranges]


def acquired(*ranges: tuple[int, int]) -> list[AcquiredRange]:
    return [AcquiredRange(first=first, last=last, delivery_count=1) for first, last in ranges]


@given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    ends=st.lists(st.integers(0, 5_000), max_size=8),
    wanted=st.sets(st.integers(0, 24), max_size=6),
)
def test_sent_are_exactly_the_batches_with_acquired_records(
    counts: list[int], ends: list[int], wanted: set[int]
) -> None:
    first = 0
    whole: list[tuple[int, int, bytes]] = []
    for count in counts:
        whole.append((first, first + count - 1, batch(first, count)))
        first += count
    views = split(b"".join(data for _, _, data in whole), ends)
    found, _ = batches_of(views)
    assert pairs(offset_ranges(found)) == [(low, high) for low, high, _ in whole]
    sent = records_around(found, views, acquired(*((one, one) for one in sorted(wanted))))
    expected = b"".join(data for low, high, data in whole if any(low <= one <= high for one in wanted))
    assert b"".join(sent) == expected


def test_nothing_is_copied() -> None:
    data = batch(0) + batch(1) + batch(2)
    views = [memoryview(data)]
    sent = records_around(batches_of(views)[0], views, acquired((1, 2)))
    assert [view.obj for view in sent] == [data]
    assert records_around(batches_of(views)[0], views, acquired((0, 2)))[0] is views[0]


def test_an_impossible_length_is_corrupt() -> None:
    data = bytearray(batch(0))
    data[8:12] = (7).to_bytes(4, "big")
    with pytest.raises(CorruptRecords):
        batches_of([memoryview(data)])
    with pytest.raises(CorruptRecords):
        batches_of([memoryview(batch(0) + batch(1)[:-1])])


def unseen(data: bytes, aborted: Sequence[tuple[int, int]] = (), from_offset: int = 0) -> list[tuple[int, int]]:
    views = [memoryview(data)]
    found, _ = batches_of(views)
    return pairs(unseen_ranges(found, views, aborted, from_offset))


def test_aborted_records_and_markers_are_archived_unseen() -> None:
    data = (
        batch(0, 2, 1, is_transactional=True)
        + batch(2, 1, 2, is_transactional=True)
        + marker(3, 1, ControlType.ABORT)
        + batch(4, 1, 1, is_transactional=True)
        + marker(5, 1, ControlType.COMMIT)
        + batch(6, 1)
        + marker(7, 2, ControlType.COMMIT)
    )
    assert unseen(data, [(1, 0)]) == [(0, 1), (3, 3), (5, 5), (7, 7)]
    assert unseen(data) == [(3, 3), (5, 5), (7, 7)]


def test_two_aborted_transactions_of_one_producer() -> None:
    data = b"".join(
        (
            batch(0, 1, 1, is_transactional=True),
            marker(1, 1, ControlType.ABORT),
            batch(2, 1, 1, is_transactional=True),
            marker(3, 1, ControlType.ABORT),
            batch(4, 1, 1),
        )
    )
    assert unseen(data, [(1, 0), (1, 2)]) == [(0, 3)]
    assert unseen(data, [(1, 2)]) == [(1, 3)]


def test_missing_offsets_are_archived_from_the_read_on() -> None:
    data = batch(4, 2) + batch(9)
    assert unseen(data, from_offset=2) == [(2, 3), (6, 8)]
    assert unseen(data, from_offset=5) == [(6, 8)]


def test_cut_over_several_views() -> None:
    views = [memoryview(b"abc"), memoryview(b"def"), memoryview(b"ghi")]
    assert b"".join(cut(views, 2, 7)) == b"cdefg"
    assert cut(views, 3, 6)[0] is views[1]
    assert cut(views, 4, 4) == []


@given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=8),
    from_offset=st.integers(0, 3),
    records_max=st.integers(1, 20),
)
def test_batches_end_with_the_one_that_has_the_last_record_wanted(
    counts: list[int], from_offset: int, records_max: int
) -> None:
    from_offset = min(from_offset, counts[0] - 1)  # a read begins with the batch that holds it
    first = 0
    data = b""
    for count in counts:
        data += batch(first, count)
        first += count
    found, missing = batches_of([memoryview(data)], from_offset, records_max)
    whole, _ = batches_of([memoryview(data)])
    assert found == whole[: len(found)]
    assert missing == records_max - (found[-1].last_offset + 1 - from_offset)
    assert (missing <= 0) or found == whole
    assert len(found) == 1 or found[-2].last_offset + 1 - from_offset < records_max


def test_records_that_may_be_unseen_do_not_count_to_those_wanted() -> None:
    views = [
        memoryview(part)
        for part in (
            marker(0, 7, ControlType.ABORT),
            batch(1, 3, producer_id=7, is_transactional=True),
            batch(4),
            batch(5),
        )
    ]
    assert [one.first_offset for one in batches_of(views, 0, 1)[0]] == [0, 1]
    committed, missing = batches_of(views, 0, 1, is_read_committed=True)
    assert [one.first_offset for one in committed] == [0, 1, 4] and missing == 0
