"""Filters a log for readers of committed records: leaves out markers and batches of aborted transactions. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from bmq.arrow_records.batch_headers import CONTROL, Headers, Mask, has, markers, transactional
from bmq.log.aborted_transactions import AbortedEntry
from bmq.log.partition_log import AbortedTransaction


class CommittedOnly:
    """A BatchFilter. `aborted`: all that overlap the range read, in the order of their markers, as in the log's index.

    A batch is aborted when a transaction of its producer with first offset <= its base offset <= last offset is.
    """

    def __init__(self, aborted: Iterable[AbortedEntry]) -> None:
        of_producer: dict[int, list[tuple[int, int]]] = {}
        for entry in aborted:
            of_producer.setdefault(entry.producer_id, []).append((entry.first_offset, entry.last_offset))
        self._of_producer: dict[int, npt.NDArray[np.int64]] = {
            producer_id: np.array(ranges, np.int64) for producer_id, ranges in of_producer.items()
        }

    def __call__(self, headers: Headers) -> Mask:
        left_out = markers(headers)
        in_transaction = transactional(headers)
        producer_ids = headers["producer_id"]
        for producer_id in np.unique(producer_ids[in_transaction]).tolist():
            if (ranges := self._of_producer.get(producer_id)) is None:
                continue
            batches = np.flatnonzero(in_transaction & (producer_ids == producer_id))
            base_offsets = headers["base_offset"][batches].astype(np.int64)
            # Transactions of one producer follow each other: the first that ends at or behind a batch may hold it.
            index = np.searchsorted(ranges[:, 1], base_offsets)
            firsts = np.append(ranges[:, 0], np.iinfo(np.int64).max)
            left_out[batches] |= firsts[index] <= base_offsets
        return left_out


def aborted_in(aborted: Iterable[AbortedTransaction], headers: Headers) -> list[AbortedEntry]:
    """A fetch's aborted transactions with their ends added, which the response lacks, for the batches fetched.

    A transaction ends at its producer's first marker behind its first offset, or behind all of these batches.
    """
    is_marker = has(headers, CONTROL)
    producer_ids = headers["producer_id"][is_marker]
    offsets = headers["base_offset"][is_marker].astype(np.int64)
    entries = []
    for one in sorted(aborted, key=lambda one: one.first_offset):
        ends = offsets[(producer_ids == one.producer_id) & (offsets > one.first_offset)]
        last_offset = int(ends[0]) if len(ends) else np.iinfo(np.int64).max
        entries.append(AbortedEntry(one.producer_id, one.first_offset, int(last_offset), one.first_offset))
    return entries
