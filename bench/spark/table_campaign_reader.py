"""Reads a table without the job and without Spark: metadata by PyIceberg, files by pyarrow, HDFS by hdfs-native."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeVar
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from hdfs_native import Client
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.table import StaticTable

READ_WAIT_S: Final = 30.0
RETRY_S: Final = 0.2
ID: Final = "id"

T = TypeVar("T")
Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Count:
    """For the ids 0 … sent - 1: the number of missing ids, of rows beyond the first of an id, and of rows with an id
    that was never sent.
    """

    rows: int
    lost: int
    doubled: int
    unknown: int

    @property
    def lost_or_doubled(self) -> int:
        return self.lost + self.doubled + self.unknown


def count_ids(ids: Ids, sent: int) -> Count:
    """Pure."""
    is_known = (ids >= 0) & (ids < sent)
    times = np.bincount(ids[is_known], minlength=sent)
    return Count(len(ids), int((times == 0).sum()), int((times[times > 1] - 1).sum()), int((~is_known).sum()))


@cache
def _client(address: str) -> Client:
    return Client(address)


def client_of(url: str) -> Client:
    """One client for each HDFS."""
    parts = urlsplit(url)
    return _client(f"{parts.scheme}://{parts.netloc}")


class HdfsInput(InputFile):
    def __init__(self, client: Client, location: str) -> None:
        super().__init__(location)
        self._client = client
        self._path = urlsplit(location).path

    def __len__(self) -> int:
        return int(self._client.get_file_info(self._path).length)

    def exists(self) -> bool:
        try:
            self._client.get_file_info(self._path)
        except FileNotFoundError:
            return False
        return True

    def open(self, seekable: bool = True) -> InputStream:
        return io.BytesIO(self.read())

    def read(self) -> bytes:
        with self._client.read(self._path) as file:
            return bytes(file.read())


class HdfsFileIO(FileIO):
    """Named in `py-io-impl`; read-only."""

    def new_input(self, location: str) -> HdfsInput:
        return HdfsInput(client_of(location), location)

    def new_output(self, location: str) -> OutputFile:
        raise NotImplementedError("tables are read only here")

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise NotImplementedError("tables are read only here")


_IMPLEMENTATION: Final = {"py-io-impl": f"{HdfsFileIO.__module__}.{HdfsFileIO.__qualname__}"}


class TableReader:
    """`url`: the table's directory, hdfs://HOST:PORT/…, in a catalog of type hadoop. Files are read once and cached."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = client_of(url)
        self._version = 0
        self._files: list[str] = []
        self._ids: dict[str, Ids] = {}
        self._found = np.zeros(0, dtype=bool)
        self._first_missing = 0

    # -- As the table is now -------------------------------------------------------------------------------------------

    def ids(self) -> Ids:
        """The ids of all rows. Raises the last error when the table cannot be read for READ_WAIT_S."""

        def read() -> Ids:
            arrays = [self._ids_of(path) for path in self._current_files()]
            return np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.int64)

        return _patiently(read)

    def rows(self) -> pa.Table:
        """All columns of all rows, ordered by id. Raises the last error, like `ids`."""

        def read() -> pa.Table:
            tables = [pq.read_table(self._open(path)) for path in self._current_files()]
            return pa.concat_tables(tables, promote_options="default").sort_by(ID)

        return _patiently(read)

    def first_missing(self) -> int:
        """The lowest id that no row has. Raises the last error, like `ids`."""
        return _patiently(self._look_for_first_missing)

    def has_table(self) -> bool:
        return self._exists(f"{self._url}/metadata/version-hint.text")

    # -- How -----------------------------------------------------------------------------------------------------------

    def _look_for_first_missing(self) -> int:
        known = set(self._ids)
        for path in self._current_files():
            if path not in known:
                self._add(self._ids_of(path))
        if self._first_missing < len(self._found):
            rest = self._found[self._first_missing :]
            self._first_missing += len(rest) if rest.all() else int(np.argmin(rest))
        return self._first_missing

    def _add(self, ids: Ids) -> None:
        if len(ids) and (top := int(ids.max())) >= len(self._found):
            self._found = np.concatenate([self._found, np.zeros(top + 1 - len(self._found), dtype=bool)])
        self._found[ids] = True

    def _current_files(self) -> list[str]:
        version = self._newest_version()
        if version != self._version:
            location = f"{self._url}/metadata/v{version}.metadata.json"
            table = StaticTable.from_metadata(location, _IMPLEMENTATION)
            self._files = (
                [task.file.file_path for task in table.scan().plan_files()]
                if table.metadata.current_snapshot_id
                else []
            )
            self._version = version
        return self._files

    def _newest_version(self) -> int:
        """Found as Iceberg does: the hint may lack the last commits of writers that died."""
        with self._client.read(urlsplit(f"{self._url}/metadata/version-hint.text").path) as file:
            version = max(int(file.read()), self._version)
        while self._exists(f"{self._url}/metadata/v{version + 1}.metadata.json"):
            version += 1
        return version

    def _exists(self, url: str) -> bool:
        return HdfsInput(self._client, url).exists()

    def _ids_of(self, path: str) -> Ids:
        if path not in self._ids:
            column = pq.read_table(self._open(path), columns=[ID]).column(ID)
            self._ids[path] = column.to_numpy().astype(np.int64)
        return self._ids[path]

    def _open(self, path: str) -> pa.BufferReader:
        return pa.BufferReader(HdfsInput(self._client, path).read())


def _patiently(read: Callable[[], T]) -> T:
    """Retry: a file, metadata included, may be replaced between two looks."""
    until = time.monotonic() + READ_WAIT_S
    while True:
        try:
            return read()
        except (OSError, RuntimeError, ValueError) as error:
            if time.monotonic() > until:
                raise error
            time.sleep(RETRY_S)
