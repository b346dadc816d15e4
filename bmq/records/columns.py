"""Turns records into columns, and columns into records. By the kernel in C, or its twin where there is none.

- `walk` fills columns from the records of bodies, one batch after the other, as far as `wanted` (batch_layout.WANTS_…)
  says; offsets always. Rows of batches that are not `is_opened` (a byte per batch) are filled from their headers: they have a
  record for each of their offsets.
- `walk_headers` fills in names and values of the record headers of rows that were walked through: one entry per header. A
  status, 0 or the negative of a kind of damage.
- `Writer(table, row_count)` holds the table's memory until it is closed (`with`). `write(row, row_end, out)` encodes the rows
  [row, row_end) as the body of one batch, as many as fit into `out`, with deltas from the first one. None is written when `out` is too small
  for the first one.

All raise ValueError for arguments that contradict each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bmq.records.native.library import kernel

if TYPE_CHECKING or kernel().library is None:
    from bmq.records.columns_twin import Writer, walk, walk_headers
else:
    from bmq.records.columns_native import Writer, walk, walk_headers

__all__ = ["Writer", "walk", "walk_headers"]
