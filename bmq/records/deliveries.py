"""Takes held records that are due out of announcements, and makes the records of their delivery: in the kernel, or in Python without it.

`due_rows(entries, bodies, terms)`: a row (held_row_layout) for each of the entries of an announcement (log/timers/announcements)
that is above the place `terms.above` in the order of (due time, name), and not above `terms.until`; and the bodies of these, back
to back, which count from `terms.start`.

`delivered_records(rows, part_of, parts)`: the bytes of the records of a delivery of these rows, in their order. `part_of`: for
each, which of `parts` has its body. A delivered record has key, value and headers of the produced one, and behind these
`bmq-timer-offset` (its name), `bmq-timer-due` and `bmq-timer-created`. Raises Damage for a body that is no record's.

Both raise ValueError for numbers that contradict each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bmq.records.native.library import kernel

if TYPE_CHECKING or kernel().library is None:
    from bmq.records.deliveries_twin import delivered_records, due_rows
else:
    from bmq.records.deliveries_native import delivered_records, due_rows

__all__ = ["delivered_records", "due_rows"]
