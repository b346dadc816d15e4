"""Loads the compiled loops that a cleaning runs, by cleaning a few records, before there is much in memory. Pure."""

from __future__ import annotations

from typing import Final

from bmq.arrow_records.key_map import KeyMap, bytes_for
from bmq.arrow_records.log_cleaner import CleanedBatch, LogCleaner
from bmq.arrow_records.origin import Origin
from bmq.protocol.record_batch import Record, encode_batch

_KEYS: Final = (b"short", b"a key that does not fit into a view")
_SEED: Final = bytes(16)


def warm_up() -> int:
    """How many records were left of those that it made up: one of each key."""
    # The first batch loses some of its records and keeps one, so it has to be encoded again.
    first = [Record(key, b"old") for key in (*_KEYS, b"another")]
    second = [Record(key, b"new") for key in _KEYS]
    data = bytes(encode_batch(first) + encode_batch(second, base_offset=len(first)))
    end_offset = len(first) + len(second)
    cleaner = LogCleaner(KeyMap(bytes_for(end_offset), 0, _SEED), 0, 0, 0, 0)
    origin = Origin("", 0, "", 0)
    out: list[CleanedBatch] = []
    cleaner.note(data, origin)
    cleaner.clean(data, origin, end_offset, out)
    return sum(header.record_count for header, _ in out)
