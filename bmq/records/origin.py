"""Where bytes came from, for errors that name the place. Pure."""

from __future__ import annotations

from typing import NamedTuple

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError


class Origin(NamedTuple):
    """Where a buffer of record batches was read: `position_bytes` is the place of its first byte in `file`."""

    topic: str
    partition: int
    file: str
    position_bytes: int = 0


class DamagedBatch(BmqError):
    """A record batch that cannot be read. `base_offset` is what its header says; None where there is no whole header.

    `position_bytes` is its place in the file, so what lies in front of it can still be decoded.
    """

    code = ErrorCode.CORRUPT_MESSAGE

    def __init__(self, origin: Origin, place: int, base_offset: int | None, reason: str) -> None:
        self.origin = origin
        self.base_offset = base_offset
        self.position_bytes = origin.position_bytes + place
        self.reason = reason
        offset = "unknown" if base_offset is None else base_offset
        super().__init__(
            f"{origin.topic}-{origin.partition} at offset {offset}, {origin.file} at {self.position_bytes}: {reason}"
        )
