"""A partition of a fetch for which a look found no result."""

from __future__ import annotations

from typing import NamedTuple

from bmq.log.partition_log import PartitionLog
from bmq.proxy.catch_up import CatchUpResult
from bmq.proxy.fetch_session import Interest


class PendingRead(NamedTuple):
    """A read from the store; without a limit, a question to the owner whether the offset is out of range.

    `is_divergent`: ask the owner to confirm that the reader's log diverges from ours. `found`: the records are read, and only
    their aborted transactions are missing.
    """

    place: int  # the partition's place in the results
    interest: Interest
    log: PartitionLog
    length_bytes_max: int | None
    room_bytes: int  # bytes left in the answer: a first batch may exceed its read limit
    bound_offset: int
    is_divergent: bool = False
    found: CatchUpResult | None = None
