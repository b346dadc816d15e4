"""Files of a warehouse on HDFS for libraries that read through fsspec (DuckDB, pyiceberg): bmq's own HDFS client, read-only.

No JVM and no libhdfs are needed. The client runs on an event loop in a thread of its own; logins are those of bmq's tools
(Kerberos by BMQ_HDFS__PRINCIPAL and BMQ_HDFS__KEYTAB, or a token).
"""

from __future__ import annotations

import threading
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.typedef import Properties

from bmq.hdfs.location import SCHEME
from bmq.hdfs.store import HdfsStore
from bmq.index.errors import SourceAway
from bmq.log.store import FileMissing, FileStatus, StoreError
from bmq.spark.source.loop_thread import LoopThread
from bmq.spark.source.storage import StoreUnreadable, open_store

T = TypeVar("T")

BLOCK_BYTES: Final = 256 * 1024
"""Read ahead of small reads: manifests and footers."""
WAREHOUSE_PROPERTY: Final = "bmq.warehouse"


class HdfsFiles:
    """One client for the files below a directory. Thread-safe. Call `close` at the end."""

    def __init__(self, warehouse: str) -> None:
        """`warehouse`: hdfs://NAMENODE:PORT/DIRECTORY, as bmq's stores are named. Raises SourceAway."""
        self._loop = LoopThread()
        self._loop.__enter__()
        try:
            self._store: HdfsStore = self._loop.run(self._opened(warehouse))
        except BaseException:
            self._loop.__exit__()
            raise

    async def _opened(self, warehouse: str) -> HdfsStore:
        try:
            store = open_store(warehouse, Random())
        except (StoreUnreadable, StoreError) as error:
            raise SourceAway(f"warehouse {warehouse}: {error}") from None
        assert isinstance(store, HdfsStore)
        return store

    def status(self, url: str) -> FileStatus | None:
        """Raises OSError."""
        return self._run(self._store.status(self._inner(url)))

    def listing(self, url: str) -> tuple[FileStatus, ...]:
        """Raises OSError."""
        return self._run(self._store.list_directory(self._inner(url)))

    def read(self, url: str, file_id: int, start: int, end: int) -> bytes:
        """Raises OSError."""
        inner = self._inner(url)
        return bytes(self._run(self._store.read(inner, file_id=file_id, position=start, length_bytes=end - start)))

    def close(self) -> None:
        self._loop.run(self._store.close())
        self._loop.__exit__()

    def _inner(self, url: str) -> str:
        """The path below the warehouse. The writer may have named the NameNode in another way."""
        path, root = urlsplit(url).path, self._store.config.root
        if path != root and not path.startswith(f"{root}/"):
            raise FileNotFoundError(f"{url} is not in the warehouse {root}")
        return path[len(root) :].strip("/")

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._loop.run(work)
        except FileMissing as error:
            raise FileNotFoundError(str(error)) from None
        except StoreError as error:
            raise OSError(str(error)) from None


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CLIENTS: Final[dict[str, HdfsFiles]] = {}
_LOCK: Final = threading.Lock()


def hdfs_files(warehouse: str) -> HdfsFiles:
    """The process's client for this warehouse. Raises SourceAway."""
    with _LOCK:
        found = _CLIENTS.get(warehouse)
        if found is None:
            found = _CLIENTS[warehouse] = HdfsFiles(warehouse)
        return found


def close_clients() -> None:
    """Close all clients of the process."""
    with _LOCK:
        for client in _CLIENTS.values():
            client.close()
        _CLIENTS.clear()


class HdfsFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """fsspec's view of the files; paths are whole URLs."""

    protocol = SCHEME.removesuffix(":")
    cachable = False

    def __init__(self, files: HdfsFiles) -> None:
        super().__init__()
        self.files = files

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.rstrip("/")

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        found = self.files.status(path)
        if found is None:
            raise FileNotFoundError(path)
        return _info(path, found)

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        found = [_info(f"{path.rstrip('/')}/{each.name}", each) for each in self.files.listing(path)]
        return found if detail else [each["name"] for each in found]

    def modified(self, path: str) -> datetime:
        """DuckDB asks for it. Files of a table never change."""
        return _EPOCH + timedelta(milliseconds=max(0, self.info(path)["modified_ms"]))

    def _open(self, path: str, mode: str = "rb", **_: Any) -> AbstractBufferedFile:
        if mode != "rb":
            raise OSError(f"{path}: files are only read here")
        return _HdfsFile(self, path, mode, block_size=BLOCK_BYTES, cache_type="readahead")


class _HdfsFile(AbstractBufferedFile):  # type: ignore[misc]
    def _fetch_range(self, start: int, end: int) -> bytes:
        files: HdfsFiles = self.fs.files
        return files.read(self.path, self.details["file_id"], start, end)


class HdfsFileIO(FsspecFileIO):
    """pyiceberg's access to the warehouse that WAREHOUSE_PROPERTY names. Itself named by the property `py-io-impl`."""

    def __init__(self, properties: Properties) -> None:
        super().__init__(properties)
        self._file_system = HdfsFileSystem(hdfs_files(properties[WAREHOUSE_PROPERTY]))

    def get_fs(self, scheme: str, hostname: str | None = None) -> AbstractFileSystem:
        return self._file_system


def _info(path: str, found: FileStatus) -> dict[str, Any]:
    return {
        "name": path,
        "size": found.length_bytes,
        "type": "directory" if found.is_directory else "file",
        "file_id": found.file_id,
        "modified_ms": found.modified_ms,
    }
