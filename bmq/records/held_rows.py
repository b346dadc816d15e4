"""Sorts held records and lays them out in the blocks of a run: in the kernel, or in Python without it.

`held_rows(entries, base_offset, bodies_bytes, start, above)`: a row (held_row_layout) for each of the entries of an announcement
(log/timers/announcements) that is behind the place `above` in the order of (due time, name). Their bodies have `bodies_bytes` and
lie from `start` on. `sort_rows(rows)`: by due time and name. `write_rows(rows, row, bodies, block_bytes)`: the records from `row`
on as a run has them, until they have `block_bytes` or more, and the number of the row behind.

`block_rows(block, count)`: the rows of what a block has behind its head; their bodies' places count from there.

All raise ValueError for numbers that contradict each other, `block_rows` for a block that has other than
`count` records in order, and `sort_rows`, when it has sorted them, for two rows at one place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bmq.records.native.library import kernel

if TYPE_CHECKING or kernel().library is None:
    from bmq.records.held_rows_twin import block_rows, held_rows, sort_rows, write_rows
else:
    from bmq.records.held_rows_native import block_rows, held_rows, sort_rows, write_rows

__all__ = ["block_rows", "held_rows", "sort_rows", "write_rows"]
