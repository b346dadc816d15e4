"""Filters of records that the kernel knows: whether the key, or a header with one of some names, is one of some values. Pure."""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

TERMS_MAX: Final = 6
STRINGS_MAX: Final = 64
"""Names and values of one filter: they are compared one after the other."""


class Term(NamedTuple):
    """A comparison with one record. It is true if the key, or a header with one of `names`, is one of `values`.

    Without `names` the key is compared. Null equals no value.
    """

    names: tuple[bytes, ...]
    values: tuple[bytes, ...]


class RecordFilter(NamedTuple):
    """Which records pass, by the truth of the terms.

    The bits of a number N say which terms are true of a record. The record passes if bit N of `truths` is set.
    """

    terms: tuple[Term, ...]
    truths: int


class FilteredRecords(NamedTuple):
    """The result for some records of a body.

    `place`: where the next record begins, in bytes. `previous`: the offset delta of the last record. `runs`: where each run of
    passing records begins and ends, in bytes. `passed`: how many records pass.
    """

    place: int
    previous: int
    runs: list[tuple[int, int]]
    passed: int


BEGIN: Final = FilteredRecords(0, -1, [], 0)
"""In front of a body's first record."""


# How offsets are shown, as native/record_filter.h numbers it.
SHOWN_NONE: Final = 0
SHOWN_WHOLE: Final = 1
SHOWN_PART: Final = 2
SHOWN_ASK: Final = 3

SHOWN: Final = Struct("=6q")
SHOWN_MAX: Final = 1024
"""Pieces that one call finds."""


class ShownBatches(NamedTuple):
    """How the offsets [base_offset, next_offset) are shown.

    `kind`: SHOWN_NONE: no record passes, of one batch or several of one leader epoch. SHOWN_WHOLE: the batch that lies at `place` of
    the data, `size_bytes` long. SHOWN_PART: a batch with fewer records, at `place` of the room's `out`, whose checksum is not filled in.
    SHOWN_ASK: as SHOWN_WHOLE, and not looked at: it is compressed, a control batch, or damaged.
    """

    kind: int
    base_offset: int
    next_offset: int
    leader_epoch: int
    place: int
    size_bytes: int
