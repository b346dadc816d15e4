"""Jobs of copying records that a lane left over to the base group. Pure."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID


class CopyJob(NamedTuple):
    """Copy the records of `lane` at `first` … `end - 1` of a partition for the group `base`.

    `producer_id`, `sequence`: those of the copies, so a job that is repeated makes the same batch and adds no duplicate.
    `copy_partition`: the partition of the topic of copies.
    """

    base: str
    topic_id: UUID
    partition: int
    lane: str
    first: int
    end: int
    producer_id: int
    sequence: int
    copy_partition: int


class CopyStep(NamedTuple):
    """The result of copying one batch: the offset to continue from, and how many records were copied."""

    next_offset: int
    records: int
