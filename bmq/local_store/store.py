"""The embedded store: `SegmentStore` on a local directory. The only module that uses threads.

A file counts as open while its owner may write it (mode bit), so that a killed process leaves its files visibly open. A
file's id is kept in an extended attribute, because inode numbers are reused. A writer needs the lock on the epoch
directory (lease.py) and, within one process, a handle that no takeover has revoked.
`hflush` means written (it survives the process), `hsync` means fdatasync (it survives the machine).
Directory work runs in a small pool of threads, one hop for each operation; reads from the page cache need none.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from stat import S_IWUSR
from threading import Lock
from time import perf_counter, time_ns
from typing import Final, ParamSpec, TypeVar

from bmq.dataclass import dataclass
from bmq.local_store.deletion import TreeDeletion, rest_s
from bmq.local_store.file_part import UNSUPPORTED, LocalFilePart, OpenFile, OpenFiles, read_cached
from bmq.local_store.lease import Lease, Leases
from bmq.local_store.root import ID_ATTRIBUTE, LOST_IDS, id_of, lock_data_directory
from bmq.local_store.writer import CLOSED_MODE, LocalWriter, Sync, WriteCalls, WriteStats, Writev, store_error
from bmq.log.store import (
    AlreadyExists,
    Buffer,
    CorruptFile,
    Durability,
    FileMissing,
    FileStatus,
    StoreError,
)

P = ParamSpec("P")
T = TypeVar("T")

THREADS_MAX: Final = 4
SYNC_THREADS_MAX: Final = 3
PASSES_MAX: Final = 10  # over a directory that is deleted, while somebody may still write into it
INLINE_READ_BYTES_MAX: Final = 1024 * 1024
_RENAME_NOREPLACE: Final = 1
_AT_FDCWD: Final = -100


@dataclass(frozen=True, slots=True)
class _Created:
    descriptor: int
    file_id: int
    lease: Lease | None


class _NotEmpty(StoreError):
    """Something is in the directory that should go."""


@dataclass(frozen=True, slots=True)
class _Deleted:
    """`file_id`: of a file; 0 if this store did not make it."""

    is_directory: bool
    file_id: int


class _FileIds:
    """Ids that are never repeated under one root: nanoseconds at the start plus a count.

    A store would have to make a billion files a second to run ahead of the clock.
    """

    def __init__(self) -> None:
        self._next = time_ns()
        self._mutex = Lock()

    def next(self) -> int:
        with self._mutex:
            self._next += 1
            return self._next


class LocalStore:
    """Implements bmq.log.store.SegmentStore for one process. Call `close()` in the end.

    `is_root_locked`: take the directory for this process alone (servers do; a reader beside a server must not).
    `writev` and `sync` are the system calls appends use. Raises RootInUse, RootForeign, RootUnusable.
    """

    def __init__(
        self,
        root: Path,
        *,
        is_root_locked: bool = True,
        writev: Writev = os.writev,
        sync: Sync = os.fdatasync,
    ) -> None:
        self.root = root
        self.stats = WriteStats()
        self._root_lock = lock_data_directory(root) if is_root_locked else -1
        self._writev = writev
        self._sync = sync
        self._ids = _FileIds()
        self._leases = Leases()
        self._writers: dict[int, tuple[LocalWriter, Lease | None]] = {}
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="bmq-store")
        self._sync_threads = ThreadPoolExecutor(SYNC_THREADS_MAX, thread_name_prefix="bmq-sync")
        self._open_files = OpenFiles()
        self._is_closed = False

    @property
    def replicas_wanted(self) -> int:
        return 1

    @property
    def is_reserving(self) -> bool:
        return False

    # --- directories

    async def make_directory(self, path: str) -> None:
        await self._run(self._make_directory, path)

    async def make_directories(self, path: str) -> None:
        await self._run(self._make_directories, path)

    async def list_directory(self, path: str) -> tuple[FileStatus, ...]:
        return await self._run(self._list, path)

    async def status(self, path: str) -> FileStatus | None:
        return await self._run(self._status, path)

    async def prove(self, path: str) -> FileStatus | None:
        return await self.status(path)

    async def rename(self, source: str, target: str) -> None:
        await self._run(self._rename, source, target)

    async def delete(self, path: str, *, recursive: bool = False) -> bool:
        passes = 0
        while True:
            began_s = perf_counter()
            try:
                deleted = await self._run(self._delete, path)
                break
            except _NotEmpty:
                if not recursive or passes == PASSES_MAX:
                    raise
            passes += 1
            await self._empty(path)
        pause_s = rest_s(perf_counter() - began_s) if passes else 0.0  # its parent was synced
        if deleted is None:
            return False
        if deleted.is_directory:
            self._open_files.clear()
            writers = [writer for writer, _ in self._writers.values()]
        else:
            # Thousands of files may be deleted one after the other: look at nothing else for each of them.
            self._open_files.drop(deleted.file_id)
            writers = [self._writers[deleted.file_id][0]] if deleted.file_id in self._writers else []
        for writer in [writer for writer in writers if writer.is_deleted()]:
            await writer.fence()  # nobody will read its file
        await asyncio.sleep(pause_s)
        return True

    # --- whole files

    async def write_file(self, path: str, data: Buffer, *, holder: str) -> None:
        await self._run(self._write_file, path, data)

    async def read_file(self, path: str, *, length_bytes_max: int) -> bytes:
        return await self._run(self._read_file, path, length_bytes_max)

    # --- segments

    def append_alignment_bytes(self, durability: Durability) -> int:
        return 1  # this store has no checksum chunks; the batches have their own checksums

    async def create_segment(
        self, path: str, *, holder: str, durability: Durability, segment_bytes: int
    ) -> LocalWriter:
        loop = asyncio.get_running_loop()
        creating = loop.run_in_executor(self._threads, self._create, path)
        try:
            created = await asyncio.shield(creating)
        except asyncio.CancelledError:
            creating.add_done_callback(self._drop_created)
            raise
        except OSError as error:
            raise store_error(error, path) from error
        if not os.fstat(created.descriptor).st_mode & S_IWUSR:
            # A newer owner has found and closed the file before we could use it.
            os.close(created.descriptor)
            self._leases.release(created.lease)
            raise FileMissing(path)
        return self._writer(path, created, durability)

    def _writer(self, path: str, created: _Created, durability: Durability) -> LocalWriter:
        writer = LocalWriter(
            path,
            created.file_id,
            self.root / path,
            created.descriptor,
            durability,
            WriteCalls(self._threads, self._sync_threads, self._writev, self._sync, self.stats),
            self._writer_ended,
        )
        self._writers[created.file_id] = (writer, created.lease)
        return writer

    async def read(self, path: str, *, file_id: int, position: int, length_bytes: int) -> Buffer:
        """Small reads from the page cache run on the event loop; others run in a thread."""
        buffer = bytearray(length_bytes)
        view = memoryview(buffer)
        descriptor = -1
        try:
            descriptor = os.open(self.root / path, os.O_RDONLY | os.O_CLOEXEC)
            if id_of(descriptor) != file_id:
                raise FileMissing(path)
            _check_id(file_id, path)
            read_bytes = 0
            if length_bytes <= INLINE_READ_BYTES_MAX:
                with suppress(BlockingIOError):
                    read_bytes = read_cached(descriptor, view, position)
            if read_bytes < length_bytes:
                descriptor, owned = -1, descriptor
                rest = partial(_read_and_close, owned, view[read_bytes:], position + read_bytes)
                read_bytes += await asyncio.get_running_loop().run_in_executor(self._threads, rest)
        except OSError as error:
            raise store_error(error, path) from error
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        if read_bytes < length_bytes:
            raise CorruptFile(f"{path} ends at {position + read_bytes}, asked for {position} + {length_bytes}")
        return buffer

    def file_part(self, path: str, *, file_id: int, position: int, length_bytes: int) -> LocalFilePart | None:
        """As SegmentStore.file_part; also None unless every byte of it is in the page cache."""
        file = self._open_files.get(file_id)
        if file is None:
            try:
                file = OpenFile(self.root / path)
                if not file_id or id_of(file.descriptor) != file_id:
                    return None
            except OSError:
                return None  # `read` will report why
            self._open_files.put(file_id, file)
        part = LocalFilePart(file, position, length_bytes, asyncio.get_running_loop(), self._threads)
        return part if part.is_all_cached() else None

    async def visible_length(self, path: str) -> int:
        status = await self.status(path)
        if status is None:
            raise FileMissing(path)
        return status.length_bytes

    async def locate(self, path: str) -> tuple[str, ...]:
        found = await self._run(self._status, path)
        if found is None or found.is_directory:
            raise FileMissing(path)
        return ()

    async def count_replicas(self, path: str) -> int:
        await self.locate(path)
        return self.replicas_wanted

    async def take_over(
        self, path: str, *, previous_holder: str | None, durability: Durability = Durability.HFLUSH
    ) -> int:
        """Revokes a handle of this process. One of another living process cannot be revoked: raises LeaseHeld.

        A file is synced before it shows as closed, whatever its durability.
        """
        while True:
            found = await self._run(self._status, path)
            if found is None or found.is_directory:
                raise FileMissing(path)
            if found.file_id in self._writers:
                await self._writers[found.file_id][0].fence()
            length_bytes, file_id = await self._run(self._seal, path)
            # A concurrent create may have returned its handle meanwhile: revoke that one as well.
            if file_id not in self._writers:
                return length_bytes

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        for writer, _ in tuple(self._writers.values()):
            await writer.fence()
        self._open_files.clear()
        self._threads.shutdown(wait=True)
        self._sync_threads.shutdown(wait=True)
        self._leases.close()
        if self._root_lock >= 0:
            os.close(self._root_lock)
            self._root_lock = -1

    # --- on the event loop

    async def _empty(self, path: str) -> None:
        """Remove what is in a directory, resting between the steps; nothing if it is gone meanwhile. What is written into it
        meanwhile may be left.

        No thread is held while it rests. Raises StoreError, also when the store is closed meanwhile.
        """
        loop, deletion = asyncio.get_running_loop(), TreeDeletion(self.root / path)
        try:
            while (took_s := await loop.run_in_executor(self._threads, deletion.step)) is not None:
                await asyncio.sleep(rest_s(took_s))
                if self._is_closed:
                    raise StoreError(f"{path}: the store is closed before it was deleted")
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise store_error(error, path) from error

    async def _run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *args, **kwargs))
        except OSError as error:
            raise store_error(error, str(args[0])) from error

    def _writer_ended(self, writer: LocalWriter) -> None:
        _, lease = self._writers.pop(writer.file_id)
        self._leases.release(lease)

    def _drop_created(self, creating: asyncio.Future[_Created]) -> None:
        """The caller that wanted this file was cancelled: leave it open and empty, for the next owner to close."""
        if not creating.cancelled() and creating.exception() is None:
            created = creating.result()
            os.close(created.descriptor)
            self._leases.release(created.lease)

    # --- in a thread

    def _make_directory(self, path: str) -> None:
        full = self.root / path
        try:
            full.mkdir()
        except FileExistsError:
            if not full.is_dir():
                raise AlreadyExists(path) from None
            if id_of(full):
                return
            # Its maker stopped before it set the id. Without an id, a look could not tell it from another one (rule
            # 20).
        with suppress(FileExistsError):
            os.setxattr(full, ID_ATTRIBUTE, b"%d" % self._ids.next(), os.XATTR_CREATE)
        _sync_directory(full.parent)

    def _make_directories(self, path: str) -> None:
        parts = [part for part in path.split("/") if part]
        for depth in range(1, len(parts) + 1):
            self._make_directory("/".join(parts[:depth]))

    def _list(self, path: str) -> tuple[FileStatus, ...]:
        found: list[FileStatus] = []
        with os.scandir(self.root / path) as entries:
            for entry in entries:
                # A file may disappear between the listing and its stat.
                with suppress(FileNotFoundError):
                    found.append(_status_of(entry.name, entry.path, entry.stat(follow_symlinks=False)))
        return tuple(sorted(found, key=lambda status: status.name))

    def _status(self, path: str) -> FileStatus | None:
        full = self.root / path
        try:
            return _status_of(full.name, str(full), full.lstat())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _rename(self, source: str, target: str) -> None:
        source_full, target_full = self.root / source, self.root / target
        if not source_full.is_dir():
            _rename_without_overwrite(source_full, target_full, source, target)
        else:
            with self._leases.borrowed(str(source_full)):
                _rename_without_overwrite(source_full, target_full, source, target)
            self._leases.moved(str(source_full), str(target_full))
        _sync_directory(target_full.parent)
        if source_full.parent != target_full.parent:
            _sync_directory(source_full.parent)

    def _delete(self, path: str) -> _Deleted | None:
        full = self.root / path
        file_id = 0
        try:
            is_directory = full.is_dir()
            if not is_directory:
                file_id = id_of(full)
                full.unlink()
            else:
                full.rmdir()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.ENOTEMPTY:
                raise _NotEmpty(f"directory {path} is not empty") from error
            raise
        self._leases.deleted(str(full))
        _sync_directory(full.parent)
        return _Deleted(is_directory, file_id)

    def _create(self, path: str) -> _Created:
        full = self.root / path
        lease = self._leases.hold(str(full.parent))
        descriptor = -1
        try:
            try:
                descriptor = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            except FileExistsError as error:
                raise AlreadyExists(path) from error
            file_id = self._ids.next()
            os.setxattr(descriptor, ID_ATTRIBUTE, b"%d" % file_id)
            if lease is not None:
                os.fsync(lease.descriptor)
            else:
                _sync_directory(full.parent)
        except BaseException:
            if descriptor >= 0:
                # E.g. no space for the attribute or the directory: remove the file again.
                os.close(descriptor)
                with suppress(OSError):
                    full.unlink()
            self._leases.release(lease)
            raise
        return _Created(descriptor, file_id, lease)

    def _write_file(self, path: str, data: Buffer) -> None:
        created = self._create(path)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[self._writev(created.descriptor, [rest]) :]
            os.fchmod(created.descriptor, CLOSED_MODE)
            os.fsync(created.descriptor)
        except BaseException:
            with suppress(OSError):
                (self.root / path).unlink()
            raise
        finally:
            os.close(created.descriptor)
            self._leases.release(created.lease)

    def _read_file(self, path: str, length_bytes_max: int) -> bytes:
        with _opened(self.root / path, os.O_RDONLY) as descriptor:
            status = os.fstat(descriptor)
            if status.st_mode & S_IWUSR:
                raise CorruptFile(f"{path} is still open")
            if status.st_size > length_bytes_max:
                raise CorruptFile(f"{path} has {status.st_size} bytes, more than {length_bytes_max}")
            _check_id(id_of(descriptor), path)
            buffer = bytearray(status.st_size)
            if _read_all(descriptor, memoryview(buffer), 0) < status.st_size:
                raise CorruptFile(f"{path} is shorter than it says")
            return bytes(buffer)

    def _seal(self, path: str) -> tuple[int, int]:
        """Close the file for writing; its final length and its id."""
        full = self.root / path
        with self._leases.borrowed(str(full.parent)), _opened(full, os.O_RDONLY) as descriptor:
            if os.fstat(descriptor).st_mode & S_IWUSR:
                os.fsync(descriptor)
                os.fchmod(descriptor, CLOSED_MODE)
            length_bytes, file_id = os.fstat(descriptor).st_size, id_of(descriptor)
            if length_bytes:  # else a kill may have come before it got its id
                _check_id(file_id, path)
            return length_bytes, file_id


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _sync_directory(path: Path) -> None:
    with _opened(path, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)


def _check_id(file_id: int, path: str) -> None:
    """All files without an id look the same, also to what is cached by ids. Raises CorruptFile."""
    if not file_id:
        raise CorruptFile(f"{path} {LOST_IDS}")


def _status_of(name: str, path: str, found: os.stat_result) -> FileStatus:
    is_directory = (found.st_mode & 0o170000) == 0o040000
    return FileStatus(
        name=name,
        is_directory=is_directory,
        length_bytes=0 if is_directory else found.st_size,
        file_id=id_of(path),
        is_open=not is_directory and bool(found.st_mode & S_IWUSR),
        modified_ms=found.st_mtime_ns // 1_000_000,
    )


def _read_all(descriptor: int, view: memoryview, position: int) -> int:
    done_bytes = 0
    while done_bytes < len(view):
        read_bytes = os.preadv(descriptor, [view[done_bytes:]], position + done_bytes)
        if read_bytes == 0:
            break
        done_bytes += read_bytes
    return done_bytes


def _read_and_close(descriptor: int, view: memoryview, position: int) -> int:
    try:
        return _read_all(descriptor, view, position)
    finally:
        os.close(descriptor)


_libc: Final = ctypes.CDLL(None, use_errno=True)


def _rename_without_overwrite(source_full: Path, target_full: Path, source: str, target: str) -> None:
    """Rename unless the target exists: a plain rename would replace a file or an empty directory."""
    renameat2 = getattr(_libc, "renameat2", None)
    failure = errno.ENOSYS
    if renameat2 is not None:
        if renameat2(_AT_FDCWD, os.fsencode(source_full), _AT_FDCWD, os.fsencode(target_full), _RENAME_NOREPLACE) == 0:
            return
        failure = ctypes.get_errno()
    if failure in UNSUPPORTED and source_full.exists():
        # No other process renames here (it would need the root's lock), so checking first is enough.
        failure = errno.EEXIST if target_full.exists() else 0
        if failure == 0:
            source_full.rename(target_full)
            return
    if failure == errno.EEXIST:
        raise AlreadyExists(target)
    if failure in (errno.ENOENT, errno.ENOTDIR, errno.EINVAL):
        raise FileMissing(source)
    raise OSError(failure, os.strerror(failure), str(source_full))
