"""Ranges of a replica's files: the right bytes, each verified, or one clear error."""

from __future__ import annotations

from pathlib import Path
from random import Random
from struct import pack
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.hdfs.read_packets import ReplicaCorrupt, ReplicaError, ReplicaMalformed, ReplicaShort
from bmq.hdfs.replica_file import ReplicaFile
from tests.unit.hdfs.replica_files import damage, write_replica

pytestmark = pytest.mark.unit

CONTENT = Random(9).randbytes(20_001)


@given(
    length=st.integers(1, len(CONTENT)),
    chunk_bytes=st.sampled_from([1, 511, 512, 4096, 65_536]),
    wishes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=8),
)
def test_any_range_is_read(length: int, chunk_bytes: int, wishes: list[tuple[int, int]]) -> None:
    with TemporaryDirectory() as directory:
        file = ReplicaFile.open(write_replica(Path(directory), CONTENT[:length], chunk_bytes=chunk_bytes))
        for start, size in wishes:
            position = start % length
            length_bytes = 1 + size % (length - position)
            expected = CONTENT[position : position + length_bytes]
            assert file.read(position, length_bytes) == expected
            # Not every file system tells what is in memory; what was just read is there.
            assert file.read_cached(position, length_bytes) in (None, expected)
        file.close()


@pytest.mark.parametrize("is_waiting", [True, False])
def test_a_damaged_byte_is_found_in_its_chunk_alone(tmp_path: Path, is_waiting: bool) -> None:
    files = write_replica(tmp_path, CONTENT)
    damage(files.data_path, 5_000)
    file = ReplicaFile.open(files)
    read = file.read if is_waiting else file.read_cached
    assert file.read(0, 4_096) == CONTENT[:4_096] and file.read(8_192, 10) == CONTENT[8_192:8_202]
    try:
        found = read(8_000, 300)
    except ReplicaCorrupt as error:
        assert "byte 4096" in str(error)
    else:
        assert not is_waiting and found is None
    file.close()


def test_a_damaged_checksum_is_found_too(tmp_path: Path) -> None:
    files = write_replica(tmp_path, CONTENT)
    damage(files.checksums_path, 7 + 4)
    file = ReplicaFile.open(files)
    with pytest.raises(ReplicaCorrupt, match="byte 4096"):
        file.read(4_096, 1)
    file.close()


def test_more_than_there_is_is_short(tmp_path: Path) -> None:
    file = ReplicaFile.open(write_replica(tmp_path, CONTENT))
    with pytest.raises(ReplicaShort, match=r"^it has 20001 bytes, 20002 are needed$"):
        file.read(20_000, 2)
    file.close()


def test_lost_checksums_are_an_error_not_a_verdict(tmp_path: Path) -> None:
    files = write_replica(tmp_path, CONTENT)
    with Path(files.checksums_path).open("r+b") as checksums:
        checksums.truncate(7 + 4)
    file = ReplicaFile.open(files)
    assert file.read(0, 4_096) == CONTENT[:4_096]
    with pytest.raises(OSError, match="fewer bytes than it has"):
        file.read(4_096, 1)
    file.close()


@pytest.mark.parametrize(
    ("header", "error"),
    [
        (b"", ReplicaMalformed),
        (pack(">hbi", 2, 2, 4096), ReplicaMalformed),
        (pack(">hbi", 1, 2, 0), ReplicaMalformed),
        (pack(">hbi", 1, 2, 2**30), ReplicaMalformed),
        (pack(">hbi", 1, 0, 512), ReplicaCorrupt),
    ],
)
def test_what_is_no_header_is_refused_and_nothing_stays_open(
    tmp_path: Path, header: bytes, error: type[ReplicaError]
) -> None:
    files = write_replica(tmp_path, b"" if not header else CONTENT, header=header)
    before = sorted(Path("/proc/self/fd").iterdir())
    with pytest.raises(error):
        ReplicaFile.open(files)
    Path(files.checksums_path).unlink()
    with pytest.raises(FileNotFoundError):
        ReplicaFile.open(files)
    assert sorted(Path("/proc/self/fd").iterdir()) == before
