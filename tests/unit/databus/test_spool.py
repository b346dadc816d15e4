"""A spool keeps what was appended, over any end of the process, in order and within its bounds."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmq.databus.record_fields import BadFields, Header, encoded_headers, headers_at
from bmq.databus.spool import frame as frames
from bmq.databus.spool.errors import SpoolWriteFailed
from bmq.databus.spool.spool import Spool, SpoolBudget, counted
from tests.unit.databus.spools import (
    NOW_MS,
    everything,
    fill,
    frame,
    frame_with_headers,
    numbers_of,
    open_spool,
    reader_of,
)

pytestmark = pytest.mark.unit

HEADERS = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=4)


@given(key=st.none() | st.binary(max_size=20), value=st.none() | st.binary(max_size=50), headers=HEADERS)
def test_a_record_comes_back_as_it_was(key: bytes | None, value: bytes | None, headers: list[Header]) -> None:
    headers = [(name.encode("utf-8", "replace").decode(), content) for name, content in headers]
    fields = frames.record_fields(key, value, encoded_headers(headers))
    data = frames.encoded_frame(7, NOW_MS, b"topic", b"channel", fields)
    end = frames.frame_end(data, 0, len(data))
    assert end == len(data)
    assert frames.is_whole(data, 0, end)
    record = frames.decoded_frame(data, 0, end)
    assert record == (7, NOW_MS, "topic", "channel", key, value, headers, data)


@given(data=st.binary(max_size=40))
def test_bytes_that_are_no_headers_are_refused_with_a_sentence(data: bytes) -> None:
    try:
        found = headers_at(data, 0, len(data))
    except BadFields as error:
        assert str(error)
    else:
        assert encoded_headers(found) == data


def test_records_are_read_in_order_over_many_files(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "s")
    fill(spool, range(10, 400))
    assert len(list((tmp_path / "s").glob("*.spool"))) > 3
    assert numbers_of(spool) == list(range(10, 400))
    assert numbers_of(spool, 250) == list(range(250, 400))
    assert numbers_of(spool, 400) == []


def test_a_reader_follows_what_is_appended(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "s")
    reader = reader_of(spool)
    seen: list[int] = []
    for first in range(0, 300, 7):
        fill(spool, range(first, first + 7))
        while records := reader.read(200, 3):
            assert len(records) <= 3
            seen += [record.number for record in records]
    reader.close()
    assert seen == list(range(301))


def test_a_record_larger_than_a_chunk_and_a_file_is_read(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "s")
    large = os.urandom(3 << 20)
    spool.append(frame(1) + frame(2, large) + frame(3), 1, 3, {"c": 3})
    reader = reader_of(spool)
    assert [record.number for record in reader.read(10, 10)] == [1]
    assert [record.value for record in reader.read(10, 10)] == [large]
    assert [record.number for record in reader.read(10, 10)] == [3]
    reader.close()


def test_a_new_start_has_all_records_and_never_appends_to_an_old_file(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "s")
    fill(spool, range(5))
    again = open_spool(tmp_path / "s")  # the first one was not closed: the process was killed
    assert again.last == 4
    fill(again, range(100, 103))
    assert numbers_of(again) == [0, 1, 2, 3, 4, 100, 101, 102]
    assert len(list((tmp_path / "s").glob("*.spool"))) == 2


@settings(max_examples=25)
@given(values=st.lists(st.binary(max_size=30), min_size=1, max_size=4), data=st.data())
def test_a_tail_that_is_cut_at_any_byte_is_dropped_and_counted(
    values: list[bytes], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("cut")
    spool = open_spool(directory)
    ends = [frames.FILE_HEADER_BYTES]
    for number, value in enumerate(values):
        one = frame(number, value)
        spool.append(one, number, number, {"c": 1})
        ends.append(ends[-1] + len(one))
    spool.close()
    (path,) = directory.glob("*.spool")
    cut = data.draw(st.integers(0, ends[-1]))
    os.truncate(path, cut)
    again = open_spool(directory)
    whole = sum(end <= cut for end in ends[1:])
    assert numbers_of(again) == list(range(whole))
    assert again.recovery.cut_bytes == (cut if cut < ends[0] else cut - ends[whole])
    assert again.recovery.set_aside == 0
    fill(again, range(50, 52))
    assert numbers_of(again) == [*range(whole), 50, 51]


@settings(max_examples=25)
@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_anywhere_never_gives_a_wrong_record(
    place: int, bit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("flip")
    spool = open_spool(directory)
    fill(spool, range(8), b"0123456789")
    spool.close()
    (path,) = directory.glob("*.spool")
    content = bytearray(path.read_bytes())
    place %= len(content)
    content[place] ^= 1 << bit
    path.write_bytes(content)
    again = open_spool(directory)
    found = everything(again)
    assert [record.number for record in found] == list(range(len(found)))
    assert all(record.value == b"0123456789" for record in found)
    if 10 <= place < 16:  # bytes of the file's header that have no meaning
        assert len(found) == 8
    else:
        assert len(found) < 8
        assert again.recovery.set_aside or again.recovery.cut_bytes


def test_a_damaged_file_in_the_middle_gives_its_good_records_and_is_kept(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "s")
    fill(spool, range(300))
    damaged = sorted((tmp_path / "s").glob("*.spool"))[1]
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    findings: list[str] = []
    found = numbers_of(spool, 0, findings)
    firsts = [int(path.stem) for path in sorted((tmp_path / "s").glob("*.spool"))]
    assert found == sorted(set(found))
    assert set(range(firsts[1])) <= set(found)
    assert set(range(firsts[2], 300)) <= set(found)
    assert len(found) < 300
    assert len(findings) == 1
    assert "checksum" in findings[0]
    assert damaged.with_suffix(".damaged").read_bytes() == bytes(content)


def test_a_damaged_newest_file_keeps_its_original_beside_the_good_part(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "s")
    fill(spool, range(20))
    spool.close()
    (path,) = (tmp_path / "s").glob("*.spool")
    content = bytearray(path.read_bytes())
    content[frames.FILE_HEADER_BYTES + 5 * len(frame(0)) + 12] ^= 1
    path.write_bytes(content)
    again = open_spool(tmp_path / "s")
    assert numbers_of(again) == [0, 1, 2, 3, 4]
    assert again.recovery.set_aside == 1
    assert path.with_suffix(".damaged").read_bytes() == bytes(content)
    (finding,) = again.recovery.findings
    assert "the 5 records before are produced" in finding


def test_a_foreign_file_is_set_aside_with_one_sentence(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "s")
    fill(spool, range(3))
    foreign = tmp_path / "s" / f"{7:020}.spool"
    foreign.write_bytes(b"PK\x03\x04 something that is no file of a spool")
    again = open_spool(tmp_path / "s")
    assert numbers_of(again) == [0, 1, 2]
    (finding,) = again.recovery.findings
    assert "set aside" in finding
    assert foreign.with_suffix(".foreign").exists()
    assert not foreign.exists()


def test_files_are_deleted_when_their_records_are_produced(tmp_path: Path) -> None:
    budget = SpoolBudget(1 << 20)
    spool = Spool(tmp_path / "s", budget, segment_bytes=1_000)
    fill(spool, range(100))
    before = budget.used
    assert before == spool.bytes_used
    spool.release(60)
    assert numbers_of(spool, 60) == list(range(60, 100))
    assert budget.used == spool.bytes_used < before
    spool.close()
    again = open_spool(tmp_path / "s")
    assert again.position == 60
    again.release(100)  # of a former process: no more is appended
    assert again.bytes_used == 0
    assert list((tmp_path / "s").glob("*.spool")) == []
    assert open_spool(tmp_path / "s").last == 99


def test_the_oldest_file_that_no_transaction_has_is_dropped_and_counted(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "s", segment_bytes=500)
    fill(spool, range(30), channel="a")
    fill(spool, range(30, 60), channel="b")
    firsts = [int(path.stem) for path in sorted((tmp_path / "s").glob("*.spool"))]
    busy_to = firsts[1] + 1  # a transaction has records of the first two files
    dropped = spool.drop_oldest(0, busy_to)
    assert dropped is not None
    assert sum(dropped.values()) == firsts[3] - firsts[2]
    assert numbers_of(spool) == [*range(firsts[2]), *range(firsts[3], 60)]
    while spool.drop_oldest(0, 0) is not None:
        pass
    assert numbers_of(spool) == []
    fill(spool, range(60, 63))
    assert numbers_of(spool) == [60, 61, 62]


def test_records_of_a_former_process_are_counted_when_they_are_dropped(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "s")
    fill(spool, range(4), channel="a")
    fill(spool, range(4, 6), channel="b")
    (path,) = (tmp_path / "s").glob("*.spool")
    assert counted(path, 2) == {"a": 2, "b": 2}
    assert open_spool(tmp_path / "s").drop_oldest(0, 0) == {"a": 4, "b": 2}


def test_a_full_disk_keeps_nothing_of_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = open_spool(tmp_path / "s")
    fill(spool, range(3))
    real = os.write
    parts = iter([5])

    def short(descriptor: int, content: bytes) -> int:
        for part in parts:
            return real(descriptor, bytes(content[:part]))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("bmq.databus.spool.files.os.write", short)
    with pytest.raises(SpoolWriteFailed, match="No space left"):
        spool.append(frame(3), 3, 3, {"c": 1})
    monkeypatch.undo()
    fill(spool, range(3, 5))
    assert numbers_of(spool) == [0, 1, 2, 3, 4]
    assert open_spool(tmp_path / "s").recovery.cut_bytes == 0


def test_a_disk_that_is_full_when_a_file_is_made_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool(tmp_path / "s")

    def full(descriptor: int, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("bmq.databus.spool.files.os.write", full)
    with pytest.raises(SpoolWriteFailed):
        spool.append(frame(1), 1, 1, {"c": 1})
    monkeypatch.undo()
    assert list((tmp_path / "s").glob("*.spool")) == []
    fill(spool, range(1, 3))
    assert numbers_of(spool) == [1, 2]


def test_a_damaged_position_is_told_and_the_records_are_there(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "s")
    fill(spool, range(3))
    spool.release(2)
    (tmp_path / "s" / "position").write_text("{")
    again = open_spool(tmp_path / "s")
    assert again.position == 0
    assert len(again.recovery.findings) == 1
    assert numbers_of(again) == [0, 1, 2]


def test_synced_spools_keep_records_as_well(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "s", segment_bytes=500, is_synced=True)
    spool.sync()
    fill(spool, range(40))
    spool.sync()
    assert numbers_of(spool) == list(range(40))


def test_a_file_deleted_by_hand_does_not_stop_the_reader(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "s", segment_bytes=1_000)
    fill(spool, range(60))
    paths = sorted((tmp_path / "s").glob("*.spool"))
    paths[1].unlink()
    first, second = int(paths[1].stem), int(paths[2].stem)
    assert numbers_of(spool) == [*range(first), *range(second, 60)]


def test_headers_and_none_survive_the_disk(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "s")
    spool.append(frame_with_headers(1, None, [("a", None), ("b", b"x")]), 1, 1, {"c": 1})
    (record,) = everything(spool)
    assert (record.key, record.value, record.headers) == (None, b"", [("a", None), ("b", b"x")])


def unreadable_frame(number: int) -> bytes:
    """A right checksum over a header whose name is not UTF-8, as former releases wrote them."""
    headers = b"\x00\x01" + b"\x00\x01\xff" + b"\xff\xff\xff\xff"
    return frames.encoded_frame(number, NOW_MS, b"t", b"c", frames.record_fields(None, b"v", headers))


def test_a_record_that_cannot_be_read_costs_only_itself(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "s")
    spool.append(frame(0) + unreadable_frame(1) + frame(2), 0, 2, {"c": 3})
    fill(spool, range(3, 5))
    findings: list[str] = []
    reader = reader_of(spool, 0, findings)
    for _ in range(2):
        reader.seek(0)
        assert [record.number for record in reader.read(1 << 20, 100)] == [0, 2, 3, 4]
    reader.close()
    assert len(findings) == 1
    assert "the record 1 in " in findings[0]
    assert spool.recovery.unreadable == 1
    assert open_spool(tmp_path / "s").drop_oldest(0, 0) == {"c": 4}


def test_a_name_of_a_header_that_is_no_text_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        encoded_headers([("\udcff", b"")])


def test_a_file_deleted_by_hand_can_be_dropped(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "s")
    fill(spool, range(4))
    again = open_spool(tmp_path / "s")
    for path in (tmp_path / "s").glob("*.spool"):
        path.unlink()
    assert again.drop_oldest(0, 0) == {}
    assert again.bytes_used == 0


def broken_once(descriptor: int) -> None:
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("call", ["dup", "fsync"])
def test_a_failed_sync_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    spool = open_spool(tmp_path / "s", is_synced=True)
    fill(spool, range(3))
    monkeypatch.setattr(os, call, broken_once)
    with pytest.raises(SpoolWriteFailed, match="cannot be synced: Input/output error"):
        spool.sync()
    monkeypatch.undo()
    fill(spool, range(3, 5))
    spool.sync()
    assert numbers_of(spool) == [0, 1, 2, 3, 4]


def test_a_failed_sync_counts_for_records_that_came_meanwhile_and_ends_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel tells of it once: a second fsync(2) succeeds although they may be lost."""
    spool = open_spool(tmp_path / "s", is_synced=True)
    fill(spool, range(3))

    def broken(descriptor: int) -> None:
        fill(spool, range(3, 5))
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(SpoolWriteFailed):
        spool.sync()
    monkeypatch.undo()
    with pytest.raises(SpoolWriteFailed):
        spool.sync()
    fill(spool, range(5, 7))
    spool.sync()
    assert len(list((tmp_path / "s").glob("*.spool"))) == 2


def test_a_failed_sync_of_a_file_that_ends_is_told_by_the_next_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool(tmp_path / "s", segment_bytes=200, is_synced=True)
    fill(spool, range(2))
    real, faults = os.fsync, iter([OSError(errno.EIO, "Input/output error")])

    def broken(descriptor: int) -> None:
        for fault in faults:
            raise fault
        real(descriptor)

    monkeypatch.setattr(os, "fsync", broken)
    fill(spool, range(2, 8))
    with pytest.raises(SpoolWriteFailed, match="its file was ended"):
        spool.sync()
    spool.sync()
    assert numbers_of(spool) == list(range(8))
