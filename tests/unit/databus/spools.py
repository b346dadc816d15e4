"""Spools and records that tests of the agent share."""

from __future__ import annotations

from pathlib import Path

from bmq.databus.record_fields import NO_HEADERS, encoded_headers
from bmq.databus.spool.frame import SpooledRecord, encoded_frame, record_fields
from bmq.databus.spool.reader import SpoolReader
from bmq.databus.spool.spool import Spool, SpoolBudget

SEGMENT_BYTES = 4_096
NOW_MS = 1_700_000_000_000


def frame(number: int, value: bytes | None = b"value", *, topic: str = "t", channel: str = "c") -> bytes:
    return encoded_frame(number, NOW_MS, topic.encode(), channel.encode(), record_fields(None, value, NO_HEADERS))


def frame_with_headers(number: int, key: bytes | None, headers: list[tuple[str, bytes | None]]) -> bytes:
    return encoded_frame(number, NOW_MS, b"t", b"c", record_fields(key, b"", encoded_headers(headers)))


def open_spool(
    directory: Path, *, segment_bytes: int = SEGMENT_BYTES, bytes_max: int = 1 << 30, is_synced: bool = False
) -> Spool:
    return Spool(directory, SpoolBudget(bytes_max), segment_bytes=segment_bytes, is_synced=is_synced)


def fill(spool: Spool, numbers: range, value: bytes = b"value", channel: str = "c") -> None:
    """One write for each record."""
    for number in numbers:
        spool.append(frame(number, value, channel=channel), number, number, {channel: 1})


def reader_of(spool: Spool, number: int = 0, findings: list[str] | None = None) -> SpoolReader:
    reader = SpoolReader(spool, ([] if findings is None else findings).append, lambda: None)
    reader.seek(number)
    return reader


def everything(spool: Spool, number: int = 0, findings: list[str] | None = None) -> list[SpooledRecord]:
    """All records from a number on."""
    reader = reader_of(spool, number, findings)
    try:
        return reader.read(1 << 30, 1 << 30)
    finally:
        reader.close()


def numbers_of(spool: Spool, number: int = 0, findings: list[str] | None = None) -> list[int]:
    return [record.number for record in everything(spool, number, findings)]
