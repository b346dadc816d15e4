"""What a view's filter may know of a record. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class RecordFields(NamedTuple):
    """One record without its value. `timestamp_ms`: -1 is none. A header's value may be null, and a name may come twice."""

    key: bytes | None
    headers: Sequence[tuple[bytes, bytes | None]]
    timestamp_ms: int
    offset: int
    partition: int
