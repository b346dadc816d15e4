"""A partition of a fetch that a look could not settle."""

from __future__ import annotations

from typing import NamedTuple

from bmq.log.partition_log import PartitionLog
from bmq.proxy.catch_up import CaughtUp
from bmq.proxy.fetch_session import Interest


class PendingRead(NamedTuple):
    """To be read from the store, or (no limit) to be confirmed out of range by the owner.

    `is_divergent`: to be confirmed that the reader's log diverges from ours. `found`: the records are there, and only
    their aborted transactions have to be asked for.
    """

    place: int  # in the results
    interest: Interest
    log: PartitionLog
    length_bytes_max: int | None
    room_bytes: int  # left in the answer: a first batch may exceed its read limit
    bound_offset: int
    is_divergent: bool = False
    found: CaughtUp | None = None
