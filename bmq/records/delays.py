"""Takes the delayed records out of a batch. By the kernel in C, or its twin where there is none.

`split_delays(body, record_count, last_delta, terms)`: the records of a batch's decompressed body, if every one is of the usual
kind: it has no other header of ours than those of delays, and is not to be refused. For any other batch the answer is None, and
bmq/log/timers/holding looks at it record by record. Raises ValueError for numbers that contradict each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bmq.records.native.library import kernel

if TYPE_CHECKING or kernel().library is None:
    from bmq.records.delays_twin import split_delays
else:
    from bmq.records.delays_native import split_delays

__all__ = ["split_delays"]
