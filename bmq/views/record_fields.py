"""The fields of a record that views' filters may read. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class RecordFields(NamedTuple):
    """One record without its value. `timestamp_ms`: -1 without one. Headers may have null values, and a name may come twice."""

    key: bytes | None
    headers: Sequence[tuple[bytes, bytes | None]]
    timestamp_ms: int
    offset: int
    partition: int
