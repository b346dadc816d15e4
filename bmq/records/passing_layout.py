"""Filters of records that the kernel knows: whether the key, or a header with one of some names, is one of some values. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

TERMS_MAX: Final = 6
STRINGS_MAX: Final = 64
"""Names and values of one filter: they are compared one after the other."""


class Term(NamedTuple):
    """True of a record if its key (`names` is empty), or a header with one of the names, is one of the values. Null is no value."""

    names: tuple[bytes, ...]
    values: tuple[bytes, ...]


class RecordFilter(NamedTuple):
    """Bit N of `truths` is set if a record passes of which just those terms are true whose bits are set in N."""

    terms: tuple[Term, ...]
    truths: int


class Passing(NamedTuple):
    """`place`, `previous`: where the next record begins, and the offset delta of the last one. `runs`: where runs of records that pass
    begin and end; `passed`: how many records they are.
    """

    place: int
    previous: int
    runs: list[tuple[int, int]]
    passed: int


BEGIN: Final = Passing(0, -1, [], 0)
"""In front of a body's first record."""
