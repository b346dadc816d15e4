"""Files on HDFS as DuckDB and pyiceberg read them: through fsspec, by paths below the warehouse."""

from __future__ import annotations

import io
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io import PY_IO_IMPL, load_file_io

from bmq.index import hdfs_files
from bmq.index.errors import SourceAway
from bmq.index.hdfs_files import WAREHOUSE_PROPERTY, HdfsFiles, HdfsFileSystem
from bmq.log.store import FileMissing, FileStatus, StorageUnavailable
from bmq.spark.source.loop_thread import LoopThread
from tests.support.table_files import check_recipes, orders_on

pytestmark = pytest.mark.unit

WAREHOUSE = "hdfs://nn1:8020,nn2:8020/warehouse"
URL = "hdfs://nameservice/warehouse/tables/t/data/x.parquet"


class Store:
    """What HdfsFiles calls of HdfsStore. Paths are relative to the root."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.config = SimpleNamespace(root="/warehouse")
        self.files = files
        self.is_away = False
        self.reads: list[tuple[int, int]] = []

    async def status(self, path: str) -> FileStatus | None:
        if self.is_away:
            raise StorageUnavailable("no NameNode answers")
        data = self.files.get(path)
        return None if data is None else FileStatus(path.rpartition("/")[2], False, len(data), 7, False)

    async def list_directory(self, path: str) -> tuple[FileStatus, ...]:
        found = [name for name in self.files if name.startswith(f"{path}/")]
        if not found:
            raise FileMissing(path)
        return tuple(FileStatus(name.rpartition("/")[2], False, 1, 7, False) for name in found)

    async def read(self, path: str, *, file_id: int, position: int, length_bytes: int) -> bytes:
        assert file_id == 7
        self.reads.append((position, length_bytes))
        return self.files[path][position : position + length_bytes]

    async def close(self) -> None:
        self.files = {}


def parquet(rows: int) -> bytes:
    out = io.BytesIO()
    # Without a dictionary each column has its bytes.
    pq.write_table(
        pa.table({"n": list(range(rows)), "text": [f"{n:050}" for n in range(rows)]}),
        out,
        compression="none",
        use_dictionary=False,
    )
    return out.getvalue()


@pytest.fixture
def store() -> Iterator[Store]:
    made = Store({"tables/t/data/x.parquet": parquet(100_000), "tables/t/metadata/version-hint.text": b"12"})
    files: Any = HdfsFiles.__new__(HdfsFiles)
    files._loop, files._store = LoopThread(), made
    files._loop.__enter__()
    hdfs_files._CLIENTS[WAREHOUSE] = files
    yield made
    hdfs_files.close_clients()
    assert made.files == {}


def test_duckdb_reads_parts_of_a_file(store: Store) -> None:
    database = duckdb.connect()
    database.register_filesystem(HdfsFileSystem(hdfs_files.hdfs_files(WAREHOUSE)))
    assert database.execute("SELECT count(*), sum(n) FROM read_parquet(?)", [[URL]]).fetchall() == [
        (100_000, sum(range(100_000)))
    ]
    size = len(store.files["tables/t/data/x.parquet"])
    assert 0 < sum(length for _, length in store.reads) < size, "the other column is not read"
    with pytest.raises(duckdb.IOException):
        database.execute("SELECT 1 FROM read_parquet(?)", [[URL.replace("x.parquet", "y.parquet")]])
    database.close()


def test_pyiceberg_reads_by_the_same_client(store: Store) -> None:
    files = load_file_io({PY_IO_IMPL: "bmq.index.hdfs_files.HdfsFileIO", WAREHOUSE_PROPERTY: WAREHOUSE})
    found = files.new_input(f"{WAREHOUSE}/tables/t/metadata/version-hint.text")
    assert len(found) == 2
    with found.open() as stream:
        assert stream.read() == b"12"
    with pytest.raises(FileNotFoundError), files.new_input(f"{WAREHOUSE}/tables/t/metadata/none").open():
        pass


def test_the_recipes_of_the_documentation(store: Store) -> None:
    """tests/integration/hdfs/test_read_tables.py has them on a real HDFS."""
    store.files |= orders_on(WAREHOUSE)
    check_recipes(WAREHOUSE)


def test_files_outside_of_the_warehouse_are_not_read(store: Store) -> None:
    files = HdfsFileSystem(hdfs_files.hdfs_files(WAREHOUSE))
    for path in ("hdfs://nn/other/x", "hdfs://nn/warehouse2/x", "hdfs://nn/"):
        with pytest.raises(FileNotFoundError, match="is not in the warehouse /warehouse"):
            files.info(path)
    with pytest.raises(OSError, match="files are only read here"):
        files.open(URL, "wb")
    assert files.ls("hdfs://nn/warehouse/tables/t/data", detail=False) == [
        "hdfs://nn/warehouse/tables/t/data/x.parquet"
    ]
    store.is_away = True
    with pytest.raises(OSError, match="no NameNode answers"):
        files.info(URL)


def test_a_warehouse_that_is_none() -> None:
    with pytest.raises(SourceAway, match="name a directory of its own"):
        HdfsFiles("hdfs://nn:8020/")
