"""A record as an application hands it over. Pure."""

from __future__ import annotations

from typing import NamedTuple


class NewRecord(NamedTuple):
    """`headers`: encoded as in record_fields. `timestamp_ms` -1: the agent's clock."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: bytes

    @property
    def length(self) -> int:
        """Bytes of key, value and headers."""
        return len(self.key or b"") + len(self.value or b"") + len(self.headers) - 2
