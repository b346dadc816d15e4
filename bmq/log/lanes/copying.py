"""A step of copying what a lane has left over. Pure."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID


class CopyJob(NamedTuple):
    """Records of `lane` at `first` … `end - 1` of a partition, to be copied for the base group.

    `producer_id`, `sequence`: of the copies; the same job gives the same batch. `copy_partition`: where they go.
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
    """Behind a copied batch: the offset to go on from, and how many records were copied."""

    next_offset: int
    records: int
