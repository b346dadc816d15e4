"""Held records as rows of numbers, for the kernel and its twin. Pure.

A row is ROW_FIELDS int64: due time, name, own time, and where its body begins and how long it is among the bodies of all rows.
A length of CANCELS: the row cancels the record with this due time and name.
"""

from __future__ import annotations

from typing import Final, NamedTuple

ROW_FIELDS: Final = 5
BODY: Final = 3
"""Which of the fields is the place of the body."""
BODY_BYTES: Final = 4
"""Which is its length."""
CANCELS: Final = -1
HEAD_BYTES: Final = 28
"""In front of each body in a run: due time, name, own time, length (little-endian)."""
DELIVERED_BYTES_MAX: Final = 144
"""A delivered record is longer than its body by so much at most."""


class DueTerms(NamedTuple):
    """Selects bodies of an announcement: those above one place in the order of (due time, name), and not above another one.

    `base_offset`: the offset that deltas count from. `start`: the place of the first body that is taken.
    """

    base_offset: int
    start: int
    above: tuple[int, int]
    until: tuple[int, int]
