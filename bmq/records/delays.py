"""Takes the delayed records out of a batch, in the kernel.

`split_delays(body, record_count, last_delta, terms)`: the records of a batch's decompressed body, if every one is of the usual
kind: it has no other header of ours than those of delays, and is not to be refused. For any other batch the answer is None, and
bmq/log/timers/holding looks at it record by record; without a kernel it always is. Raises ValueError for numbers that
contradict each other. The twin in Python is the oracle of its tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bmq.records.native.library import kernel

if TYPE_CHECKING:
    from bmq.protocol.compression import Buffer
    from bmq.records.delay_layout import DelayedSplit, DelayTerms

if TYPE_CHECKING or kernel().library is None:

    def split_delays(body: Buffer, record_count: int, last_delta: int, terms: DelayTerms) -> DelayedSplit | None:
        return None

else:
    from bmq.records.delays_native import split_delays

__all__ = ["split_delays"]
