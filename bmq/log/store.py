"""The only port to storage: the operations that a log needs of HDFS, a local directory or the in-memory fake.

Paths are relative to the cluster's root, with "/" between parts. Every store passes tests/unit/log_store/contract.py. Rules 1, 2,
3, 7, 9, 10, 15 and 19 of docs/FENCING.md are promises of this port.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Protocol, runtime_checkable

from bmq.dataclass import dataclass
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.parts import FilePart

Buffer = bytes | bytearray | memoryview


class Durability(StrEnum):
    """When an append is durable: in the memory of every replica (HFLUSH), or on their disks (HSYNC, group-committed)."""

    HFLUSH = "hflush"
    HSYNC = "hsync"


class StoreError(BmqError):
    """Base class of a store's errors."""

    code: ClassVar[ErrorCode] = ErrorCode.KAFKA_STORAGE_ERROR


class FileMissing(StoreError):
    """The file or directory, or its parent, does not exist: renamed (the caller is fenced) or deleted."""


class AlreadyExists(StoreError):
    """The target of a create or rename exists already."""


class LeaseHeld(StoreError):
    """A writer that may be alive holds the file, and cannot be displaced (local store: another live process)."""


class FencedWriter(StoreError):
    """This handle lost its file to a newer owner. Nothing more may be acknowledged through it."""

    code = ErrorCode.NOT_LEADER_OR_FOLLOWER


class WriterBroken(StoreError):
    """Appends failed for another reason than fencing. `mend()` returns how much of them is durable."""


class StorageFull(WriterBroken):
    """The store has no space. Reads work; writes work again once there is space."""


class StorageUnavailable(StoreError):
    """The store does not answer now; retry."""


class CorruptFile(StoreError):
    """A file's checksums or lengths contradict each other."""


@dataclass(frozen=True, slots=True)
class FileStatus:
    """One entry of a directory.

    `file_id`: stays the same over renames, and no other file or directory of the store ever has it. `modified_ms`: when the last
    bytes were written, by the store's clock; -1 if the store does not say.
    """

    name: str
    is_directory: bool
    length_bytes: int
    file_id: int
    is_open: bool  # a writer has it, or never closed it; the length may be unknown
    modified_ms: int = -1


class Appended(Protocol):
    """The pending result of an append. asyncio.Future implements it; asyncio is not imported here, so that users stay pure."""

    def done(self) -> bool: ...

    def cancelled(self) -> bool: ...

    def result(self) -> int:
        """The file's durable length after the append. Raises the append's error."""

    def exception(self) -> BaseException | None: ...

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None: ...

    def __await__(self) -> Generator[Any, None, int]: ...


class SegmentWriter(Protocol):
    """The only writer of one new file. All calls come from one event loop."""

    path: str
    file_id: int

    @property
    def replicas(self) -> int:
        """How many nodes hold every byte of the file: those that it was opened on, or after `mend` those that are left.

        It is compared with `min.insync.replicas`. In a store without replication it is `replicas_wanted`, 1.
        """

    @property
    def accepted_bytes(self) -> int:
        """Bytes given to `append` so far, durable or not."""

    @property
    def is_broken(self) -> bool:
        """Whether the next append is known to fail, because a node of the file was lost, or the file is no longer written.

        False may be late: a node that stands still is known as soon as it has left something unanswered for long enough.
        """

    def append(self, buffers: Sequence[Buffer]) -> Appended:
        """Write `buffers` behind the bytes appended before. The result is the file's durable length after them.

        Any number of appends may be pending; they are done in order. Buffers must not change before that. The future may be done
        when this returns. An append fails with FencedWriter, WriterBroken or StorageFull, and then every later one fails too. A
        writer that knows only that its connections broke fails with WriterBroken; `mend` then shows whether a newer owner caused
        that. The call itself never raises.
        """

    async def prove_ownership(self) -> None:
        """Make a round trip, begun now, that only the current owner can make (rule 15). Raises FencedWriter, StoreError.

        After WriterBroken, a look at our own directory proves ownership instead.
        """

    async def mend(self) -> int:
        """Close the file after WriterBroken, at a length that every replica has, and return that length (rules 7, 9, 10).

        The length is at least the last durable one. Raises FencedWriter if the file is no longer ours; StorageUnavailable, after
        which the call may be repeated.
        """

    async def close(self) -> int:
        """Close the file once all appends are durable. Returns its verified length.

        Closing again returns the same length, or is refused. Raises FencedWriter, WriterBroken (call `mend` then).
        """

    def abandon(self) -> None:
        """Release local resources and touch nothing in the store, because we are fenced or the process ends."""


@runtime_checkable
class AckedByNodes(Protocol):
    """A SegmentWriter that hears from each node by itself."""

    def watch_acks(self, acked: Callable[[tuple[str, ...]], None]) -> None:
        """Call `acked` once for each acknowledgement that covers all appended bytes, with `host:port` of its nodes.

        It is called before the append's result is there. It is not called for nodes that fail before.
        """


class SegmentStore(Protocol):
    """A tree of files, each with a single writer. Every method may raise StorageUnavailable.

    After StorageUnavailable a change may have happened, may happen later, or may never happen (rule 21). So callers do not use a
    name again whose creation, rename or deletion ended with it, unless a late effect is harmless.
    """

    @property
    def replicas_wanted(self) -> int:
        """On how many nodes a file is stored; on fewer while fewer are healthy. 1 for a local directory."""

    @property
    def is_reserving(self) -> bool:
        """Whether an open segment reserves space for its full length (HDFS: a block on every DataNode)."""

    async def make_directory(self, path: str) -> None:
        """Make one directory, without parents; does nothing if it exists. Raises FileMissing (no parent)."""

    async def make_directories(self, path: str) -> None:
        """Make a directory and its parents. For roots and new topics; never inside a partition's directory."""

    async def list_directory(self, path: str) -> tuple[FileStatus, ...]:
        """The directory's entries, sorted by name. Raises FileMissing."""

    async def status(self, path: str) -> FileStatus | None:
        """The status of a file or directory, by a look that begins after the call (rule 7); None if it does not exist."""

    async def prove(self, path: str) -> FileStatus | None:
        """The status as `status` returns it, but never from a server that was replaced without knowing it (rule 15).

        For looks that prove ownership: a plain `status` may come from a replaced NameNode's memory. It may cost a disk write.
        """

    async def rename(self, source: str, target: str) -> None:
        """Rename durably, without overwriting, and never into a directory. Raises AlreadyExists, FileMissing, LeaseHeld."""

    async def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Delete a file or directory. Returns False if it did not exist."""

    async def write_file(self, path: str, data: Buffer, *, holder: str) -> None:
        """Create a file (no overwrite, no parents), write it, sync it to disks and close it. Raises AlreadyExists, FileMissing.

        A file that could not be finished may be deleted, perhaps late; an empty one is never deleted.
        """

    async def read_file(self, path: str, *, length_bytes_max: int) -> bytes:
        """The bytes of a whole closed file. Raises FileMissing, CorruptFile (longer than `length_bytes_max`)."""

    def append_alignment_bytes(self, durability: Durability) -> int:
        """Appends have to end at a multiple of this, or the next append may damage their end (rule 27). 1: anywhere."""

    async def create_segment(
        self, path: str, *, holder: str, durability: Durability, segment_bytes: int
    ) -> SegmentWriter:
        """Create a file (no overwrite, no parents) whose writer is `holder`. On return its block and connections are ready.

        `segment_bytes`: its greatest length (HDFS: the block size). A file that could not be opened may be deleted, perhaps late.
        Raises AlreadyExists, FileMissing (fenced), StorageFull, LeaseHeld.
        """

    async def read(self, path: str, *, file_id: int, position: int, length_bytes: int) -> Buffer:
        """Read exactly these bytes of a closed or open file. The caller asks only for bytes known to be durable (rule 13).

        Raises FileMissing (also if the path now names another file), CorruptFile (the file is shorter).
        """

    async def locate(self, path: str) -> tuple[str, ...]:
        """`host:port` of each node that holds the file's bytes, sorted; () for an empty file, and in a local directory.

        Raises FileMissing.
        """

    def file_part(self, path: str, *, file_id: int, position: int, length_bytes: int) -> FilePart | None:
        """The bytes that `read` would return, for the operating system to send from its page cache; None: call `read`.

        A store that pads (`append_alignment_bytes`) returns None: padding between two batches would be sent too.
        """

    async def visible_length(self, path: str) -> int:
        """How many bytes of an open or closed file can be read now; at least those that were durable at the call.

        Not for the file's owner: bytes behind the durable ones may still vanish. Raises FileMissing.
        """

    async def count_replicas(self, path: str) -> int:
        """How many nodes confirm now that they hold all of a closed file, or a usable replica of an open one (rule 26).

        It is compared with `min.insync.replicas` for files that another owner wrote, because a NameNode lists dead nodes for
        minutes. `replicas_wanted` for an empty file, and in a store without replication. Raises FileMissing.
        """

    async def take_over(
        self, path: str, *, previous_holder: str | None, durability: Durability = Durability.HFLUSH
    ) -> int:
        """Close a file that `previous_holder` left open, stop that writer for good, and return the verified length (rules 3, 10).

        The file may be closed already. With HSYNC all of it is then on the disks of every replica, also if another process closed
        it (rule 26). `previous_holder` None: the writer is not known, so use the slow way that stops any (recoverLease). Raises
        LeaseHeld, FileMissing.
        """

    async def close(self) -> None:
        """Release connections, threads and locks."""
