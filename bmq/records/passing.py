"""Which records of a batch pass a filter. By the kernel in C, or its twin where there is none.

`PassingRecords(wanted)`: a filter (passing_layout.RecordFilter) made ready, for any number of threads. Raises ValueError for more terms
than TERMS_MAX. `look(body, last, count, last_delta)`: looks at the next `count` records of a decompressed body behind `last`, BEGIN at
first. Raises records_twin.Damage, ValueError for numbers that contradict each other.

`show(data, place, offset, room)`: what the filter shows of the whole batches of `data` that lie back to back from `place` on, without those that end
before `offset`: a list of passing_layout.ShownBatches, SHOWN_MAX at most, and where the next batch begins: one that is cut, or has no possible
header, or had no place in the list. `room`: memory that calls use one after the other; its `out` holds what is SHOWN_PART until the next call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bmq.records.native.library import kernel

if TYPE_CHECKING or kernel().library is None:
    from bmq.records.passing_twin import PassingRecords, Room
else:
    from bmq.records.passing_native import PassingRecords, Room

IS_IN_C: Final = kernel().library is not None
"""Some 0.1 us for a record, in place of ten or more."""

__all__ = ["IS_IN_C", "PassingRecords", "Room"]
