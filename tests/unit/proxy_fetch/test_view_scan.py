"""Scans by the kernel find what the filter of single batches finds, in memory and in files, and send whole batches by reference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from bmq.local_store.file_part import LocalFilePart, OpenFile
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.control_batch import ControlType, EndTransactionMarker, encode_end_transaction_marker
from bmq.protocol.parts import MEMORY, Part
from bmq.protocol.record_batch import BatchHeader, CorruptRecords, batches, verify_crc
from bmq.proxy import view_scan
from bmq.proxy.view_answer import BatchInFile, ViewAnswer, ViewBatch
from bmq.proxy.view_scan import IN_FILE_BYTES_MIN, Asked, Found, ViewScan
from bmq.records.record_filter import CompiledFilter
from bmq.views.batch_filter import NOTHING, BatchFilter, EmptyRun
from bmq.views.view_filter import compiled

pytestmark = pytest.mark.unit

FILTER = BatchFilter(compiled("tag = 'a'"))
PASSING = CompiledFilter(compiled("tag = 'a'").kernel_filter)  # type: ignore[arg-type]
LIMIT = 1 << 40


def base_of(dice: Random, count: int, value_bytes_max: int) -> bytes:
    found, offset = b"", 100
    for _ in range(count):
        tags = dice.choice((b"a", b"b", b"ab"))
        records = [
            Record(None, dice.randbytes(dice.randint(0, value_bytes_max)), (("bmq-tag", bytes((dice.choice(tags),))),))
            for _ in range(dice.randint(1, 6))
        ]
        batch = encode_batch(
            records,
            base_offset=offset,
            leader_epoch=7,
            compression=dice.choice((Compression.NONE,) * 4 + (Compression.ZSTD,)),
        )
        if dice.random() < 0.1:
            marker = EndTransactionMarker(ControlType.COMMIT, 1)
            batch = encode_end_transaction_marker(marker, producer_id=9, producer_epoch=2, timestamp_ms=7)
            batch[:8] = offset.to_bytes(8, "big")
        found += batch
        offset += len(records) if BatchHeader.parse(batch).record_count == len(records) else 1
    return found


def part_of(path: Path, data: bytes | bytearray) -> LocalFilePart:
    """In the middle of a file."""
    path.write_bytes(b"before" + data + b"behind")
    return LocalFilePart(OpenFile(path), 6, len(data), cast(Any, None), cast(Any, None))


def bytes_of(parts: Sequence[Part]) -> bytes:
    return b"".join(bytes(part) if isinstance(part, MEMORY) else part.peek(0, len(part)) for part in parts)


def answered(found: Sequence[Found], offset: int) -> bytes:
    answer = ViewAnswer(None, offset)
    for one in found:
        if isinstance(one, Asked):
            filtered = FILTER.filtered(one.data, one.header, 0)
            if filtered == NOTHING:
                one = EmptyRun(one.header.base_offset, one.next_offset, one.header.leader_epoch)
            else:
                one = ViewBatch(one.data if filtered is None else filtered, one.next_offset)
        assert answer.add(one, LIMIT)
    return bytes_of(answer.finished())


def expected(data: bytes, offset: int) -> bytes:
    found: list[Found] = [
        Asked(data[place : place + header.size_bytes], header)
        for place, header in batches(data)
        if header.last_offset >= offset
    ]
    return answered(found, offset)


@pytest.mark.parametrize("buffer_bytes", [61, 200, 5_000, 1 << 20])
def test_a_scan_finds_what_single_batches_give(
    buffer_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_scan, "SCAN_BUFFER_BYTES", buffer_bytes)
    dice, scan = Random(buffer_bytes), ViewScan()
    for number in range(60):
        data = base_of(dice, dice.randint(1, 12), dice.choice((0, 10, 3_000, 40_000)))
        offset = 100 + dice.randint(0, 12)
        wanted = expected(data, offset)
        for _, header in batches(wanted):
            assert header.end_offset > offset
        view = memoryview(data)
        assert answered(scan.in_memory(PASSING, [view], offset), offset) == wanted
        each = [view[place : place + header.size_bytes] for place, header in batches(data)]
        assert answered(scan.in_memory(PASSING, each, offset), offset) == wanted
        part = part_of(tmp_path / f"{number}", data)
        assert answered(scan.in_file(PASSING, part, offset), offset) == wanted
        for place, header in batches(wanted):
            verify_crc(wanted, place, header)


def test_what_passes_as_a_whole_is_sent_from_its_file_and_as_one_part(tmp_path: Path) -> None:
    record = Record(None, b"x" * (IN_FILE_BYTES_MIN // 4), (("bmq-tag", b"a"),))
    whole = b"".join(encode_batch([record] * 2, base_offset=2 * number) for number in range(6))
    other = encode_batch([Record(None, b"", (("bmq-tag", b"b"),))], base_offset=12)
    short = encode_batch([record._replace(value=b"")], base_offset=13)
    data = whole + other + short
    found = ViewScan().in_file(PASSING, part_of(tmp_path / "f", data), 0)
    assert [type(one) for one in found] == [BatchInFile] * 6 + [EmptyRun, ViewBatch]
    answer = ViewAnswer(None, 0)
    for one in found:
        assert not isinstance(one, Asked) and answer.add(one, LIMIT)
    first, run, last = answer.finished()
    assert not isinstance(first, MEMORY) and first.peek(0, len(first)) == whole
    assert BatchHeader.parse(run).end_offset == 13 and bytes(last) == short  # type: ignore[arg-type]
    limited = ViewAnswer(None, 0)
    taken = [limited.add(one, len(whole) // 2) for one in found[:6] if not isinstance(one, Asked)]
    assert taken == [True] * 3 + [False] * 3 and limited.is_full
    assert bytes_of(limited.finished()) == whole[: len(whole) // 2]


def test_what_is_damaged_or_cut_is_said(tmp_path: Path) -> None:
    data = base_of(Random(3), 4, 100)
    for number, broken in enumerate(
        (data[:-1], data[:16] + b"\3" + data[17:], data + b"\0" * 5, data[:8] + b"\xff" + data[9:])
    ):
        with pytest.raises(CorruptRecords):
            ViewScan().in_memory(PASSING, [memoryview(broken)], 0)
        with pytest.raises(CorruptRecords):
            ViewScan().in_file(PASSING, part_of(tmp_path / f"{number}", broken), 0)
    part = part_of(tmp_path / "short", data)
    (tmp_path / "short").write_bytes(b"before")
    with pytest.raises(CorruptRecords):
        ViewScan().in_file(PASSING, part, 0)


def test_a_long_batch_leaves_no_long_memory(tmp_path: Path) -> None:
    data = encode_batch([Record(None, b"x" * 6_000_000, (("bmq-tag", b"b"),)), Record(None, b"", (("bmq-tag", b"a"),))])
    scan = ViewScan()
    for found in (
        scan.in_memory(PASSING, [memoryview(data)], 0),
        scan.in_file(PASSING, part_of(tmp_path / "f", data), 0),
    ):
        assert len(found) == 1 and isinstance(found[0], ViewBatch)
    assert len(scan._room.out) + len(scan._buffer) < 1_000_000
