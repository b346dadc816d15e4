"""Where a buffer of record batches comes from, so that errors can name the place. Pure."""

from __future__ import annotations

from typing import NamedTuple

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError


class Origin(NamedTuple):
    """The source of a buffer. `position_bytes`: position of its first byte in `file`."""

    topic: str
    partition: int
    file: str
    position_bytes: int = 0


class DamagedBatch(BmqError):
    """A record batch that cannot be read. `base_offset`: from its header; None if that is not whole.

    `position_bytes`: its position in the file. Everything before it can be decoded.
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
