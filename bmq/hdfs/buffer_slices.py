"""Bytes that lie in several buffers, cut into parts without a copy. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from bmq.log.store import Buffer


def parts_of(pieces: Iterable[Buffer], part_bytes_max: int) -> Iterable[tuple[list[Buffer], int]]:
    """The pieces in parts of `part_bytes_max`; the last one may be shorter."""
    part: list[Buffer] = []
    part_bytes = 0
    for piece in pieces:
        view = memoryview(piece)
        at = 0
        while at < len(view):
            taken = view[at : at + part_bytes_max - part_bytes]
            at += len(taken)
            part.append(taken)
            part_bytes += len(taken)
            if part_bytes == part_bytes_max:
                yield part, part_bytes
                part, part_bytes = [], 0
    if part:
        yield part, part_bytes
