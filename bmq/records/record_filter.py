"""Which records of a batch pass a filter. By the kernel in C, or its twin where there is none.

`CompiledFilter(wanted)`: a record_filter_layout.RecordFilter, prepared for any number of threads. Raises ValueError for more than
TERMS_MAX terms.

`filter_records(body, last, count, last_delta)` filters the next `count` records of a decompressed body. `last` is the result of the
call before, BEGIN at first. Raises records_twin.Damage, and ValueError for numbers that contradict each other.

`filter_batches(data, place, offset, room)` filters the whole batches of `data` that lie back to back from `place` on, without those
that end before `offset`. It returns at most SHOWN_MAX record_filter_layout.ShownBatches, and the place of the next batch. That one
is cut off, or has an impossible header, or did not fit into the list. `room`: memory for one call after the other. Its `out` holds
what is SHOWN_PART until the next call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bmq.records.native.library import kernel

if TYPE_CHECKING or kernel().library is None:
    from bmq.records.record_filter_twin import CompiledFilter, ScanBuffers
else:
    from bmq.records.record_filter_native import CompiledFilter, ScanBuffers

IS_IN_C: Final = kernel().library is not None
"""Some 0.1 us for a record, in place of ten or more."""

__all__ = ["IS_IN_C", "CompiledFilter", "ScanBuffers"]
