"""What a member asks of one share partition, and what it gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bmq.coordinator.share_state.decisions import Given, Span, Wanted
from bmq.coordinator.share_state.holder import Holder


@dataclass(slots=True)
class Acquisition:
    """What a member wants of one share partition: see AcquirePartition."""

    holder: Holder
    wanted: Wanted
    batches: Sequence[Span] = ()
    archive: Sequence[Span] = ()
    log_start_offset: int = -1
    reset_offset: int = -1
    hash_offset: int = -1
    key_hashes: bytes | bytearray | memoryview = b""


@dataclass(slots=True)
class Acquired:
    """See AcquiredPartition."""

    start_offset: int
    next_offset: int
    version: int
    lock_duration_ms: int
    given: Sequence[Given] = ()
