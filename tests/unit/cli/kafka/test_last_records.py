"""The last records of partitions whose offsets are not all records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bmq.cli.kafka.last_records import FIRST_WINDOW_OFFSETS, WINDOW_OFFSETS_MAX, Ranges, with_last_records
from bmq.cli.kafka.model import Partition

pytestmark = pytest.mark.unit

PARTITIONS = [("t", 0), ("t", 1)]


class Log:
    """Partitions of which these offsets are records. `widest`: of all windows that were asked for."""

    def __init__(self, offsets: dict[Partition, list[int]]) -> None:
        self.offsets = offsets
        self.reads = 0
        self.widest = 0

    def read(self, ranges: Ranges) -> Iterator[tuple[Partition, int]]:
        self.reads += 1
        for at, (start, end) in ranges.items():
            self.widest = max(self.widest, end - start)
            for offset in self.offsets[at]:
                if start <= offset < end:
                    yield at, offset


OFFSETS = st.lists(st.integers(0, 3_000), unique=True, max_size=40).map(sorted)


@given(st.tuples(OFFSETS, OFFSETS), st.tuples(st.integers(0, 3_000), st.integers(0, 3_000)), st.integers(0, 45))
@example(([0, 2], [0]), (4, 2), 1)  # the last offset is a marker
@example(([0], [5]), (3_000, 6), 1)  # a record far behind the end
def test_a_range_begins_at_its_last_records(
    offsets: tuple[list[int], list[int]], ends: tuple[int, int], count: int
) -> None:
    log = Log(dict(zip(PARTITIONS, offsets, strict=True)))
    ranges = {at: (min(10, end), end) for at, end in zip(PARTITIONS, ends, strict=True)}
    found = with_last_records(ranges, count, log.read)
    for at, (first, end) in ranges.items():
        assert found[at][1] == end
        assert first <= found[at][0] <= end
        within = [offset for offset in log.offsets[at] if first <= offset < end]
        assert [offset for offset in within if offset >= found[at][0]] == within[
            len(within) - min(count, len(within)) :
        ]


def test_a_range_that_ends_before_it_begins_stays_empty() -> None:
    log = Log({("t", 0): [1, 2, 3]})
    (found,) = with_last_records({("t", 0): (9, 4)}, 2, log.read).values()
    assert (found, log.reads) == ((9, 4), 0)


def test_a_long_stretch_without_records_takes_few_bounded_reads() -> None:
    log = Log({("t", 0): [7]})
    assert with_last_records({("t", 0): (0, 1_000_000)}, 1, log.read) == {("t", 0): (7, 1_000_000)}
    assert log.widest == WINDOW_OFFSETS_MAX
    assert log.reads <= 25


def test_no_records_are_read_for_none_of_them() -> None:
    log = Log({("t", 0): [0, 1]})
    assert with_last_records({("t", 0): (0, 2)}, 0, log.read) == {("t", 0): (2, 2)}
    assert log.reads == 0
    with_last_records({("t", 0): (0, 2)}, 1, log.read)
    assert (log.reads, log.widest <= FIRST_WINDOW_OFFSETS) == (1, True)
