"""Held records as rows of numbers, for the kernel and its twin. Pure.

A row is ROW_FIELDS int64: due time, name, own time, and where its body begins and how long it is among the bodies of all rows.
A length of CANCELS: the row cancels the record with this due time and name.
"""

from __future__ import annotations

from typing import Final

ROW_FIELDS: Final = 5
BODY: Final = 3
"""Which of the fields is the place of the body."""
CANCELS: Final = -1
HEAD_BYTES: Final = 28
"""In front of each body in a run: due time, name, own time, length (little-endian)."""
