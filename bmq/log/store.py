"""The only port to storage: what a log needs from HDFS, a local directory or the in-memory fake.

Paths are relative to the cluster's root, parts separated by "/". Every store passes tests/unit/log_store/contract.py.
Rules 1, 2, 3, 7, 9, 10, 15 and 19 of docs/FENCING.md are promises of this port.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Protocol

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.parts import FilePart

Buffer = bytes | bytearray | memoryview


class Durability(StrEnum):
    """When an append counts: in the memory of every replica, or on their disks (group-committed)."""

    HFLUSH = "hflush"
    HSYNC = "hsync"


class StoreError(BmqError):
    """Base of what a store raises."""

    code: ClassVar[ErrorCode] = ErrorCode.KAFKA_STORAGE_ERROR


class FileMissing(StoreError):
    """The file or directory, or the parent to make it in, does not exist (renamed away: fenced; deleted: gone)."""


class AlreadyExists(StoreError):
    """The target of a create or rename is there already."""


class LeaseHeld(StoreError):
    """A writer that may be alive holds the file and cannot be displaced (local store: another live process)."""


class FencedWriter(StoreError):
    """This handle lost its file to a newer owner. Nothing more may be acknowledged through it."""

    code = ErrorCode.NOT_LEADER_OR_FOLLOWER


class WriterBroken(StoreError):
    """Appends failed for a reason that is not fencing. `mend()` says how much of them is durable."""


class StorageFull(WriterBroken):
    """No space. Reads go on; writes work again when there is space."""


class StorageUnavailable(StoreError):
    """The store does not answer now; worth a retry."""


class CorruptFile(StoreError):
    """The store's own checksums, or its lengths, do not agree."""


@dataclass(frozen=True, slots=True)
class FileStatus:
    """One entry of a directory.

    `file_id`: survives renames, and no other file or directory of the store ever has it. `modified_ms`: when its last bytes
    were written, by the store's clock; -1: it does not say.
    """

    name: str
    is_directory: bool
    length_bytes: int
    file_id: int
    is_open: bool  # a writer has it, or had it and never closed it; the length may still be unknown
    modified_ms: int = -1


class Appended(Protocol):
    """The pending result of an append. An asyncio.Future fits; asyncio is not imported here, so users stay pure."""

    def done(self) -> bool: ...

    def cancelled(self) -> bool: ...

    def result(self) -> int:
        """The file's durable length after the append. Raises the append's error."""

    def exception(self) -> BaseException | None: ...

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None: ...

    def __await__(self) -> Generator[Any, None, int]: ...


class SegmentWriter(Protocol):
    """The sole writer of one new file. Not shared; all calls come from one event loop."""

    path: str
    file_id: int

    @property
    def replicas(self) -> int:
        """How many nodes hold every byte of the file: those it was opened on, or after `mend` those left.

        Compared with `min.insync.replicas`. A store without replication says `replicas_wanted`: 1.
        """

    @property
    def accepted_bytes(self) -> int:
        """Bytes handed to `append` so far, durable or not."""

    def append(self, buffers: Sequence[Buffer]) -> Appended:
        """Write `buffers` behind what was appended before; the result is the file's durable length after them.

        Any number may be outstanding; they resolve in order. Buffers must not change until then. The future may be
        done already. Fails with FencedWriter, WriterBroken or StorageFull, and then so does every later one. A
        writer that only knows that its connections broke fails with WriterBroken; `mend` then shows whether a newer
        owner caused that. Never raises itself.
        """

    async def prove_ownership(self) -> None:
        """One round trip, begun now, that only the current owner can make (rule 15). Raises FencedWriter, StoreError.

        After WriterBroken, a look at our own directory decides.
        """

    async def mend(self) -> int:
        """After WriterBroken: close the file at a length that every replica has, and return it (rules 7, 9, 10).

        At least the last durable length. Raises FencedWriter when the file is no longer ours; StorageUnavailable: call
        again.
        """

    async def close(self) -> int:
        """Close after all appends are durable; the verified length. Raises FencedWriter, WriterBroken (then `mend`).

        Closing again gives the same length, or is refused.
        """

    def abandon(self) -> None:
        """Let go of local resources and touch nothing in the store (we are fenced or dying)."""


class SegmentStore(Protocol):
    """A tree of files with single writers. Every method may raise StorageUnavailable.

    After StorageUnavailable a change may have happened, may happen later, or never (rule 21). So callers do not reuse a
    name after its creation, rename or deletion ended that way, unless a late effect is harmless.
    """

    @property
    def replicas_wanted(self) -> int:
        """On how many nodes a file should lie; fewer are used while fewer are healthy. A local directory: 1."""

    @property
    def is_reserving(self) -> bool:
        """Whether an open segment reserves space for its full length (HDFS: a block on every DataNode)."""

    async def make_directory(self, path: str) -> None:
        """Make one directory, parents excluded; fine when it exists. Raises FileMissing (no parent)."""

    async def make_directories(self, path: str) -> None:
        """Make a directory and its parents. For roots and new topics, never inside a partition's directory."""

    async def list_directory(self, path: str) -> tuple[FileStatus, ...]:
        """Entries sorted by name. Raises FileMissing."""

    async def status(self, path: str) -> FileStatus | None:
        """A look that began after the call (rule 7); None when nothing is there."""

    async def prove(self, path: str) -> FileStatus | None:
        """As `status`, but never answered by a server that was replaced and does not know it (rule 15).

        For looks that prove ownership; a plain `status` may come from a replaced NameNode's memory. May cost a disk
        write.
        """

    async def rename(self, source: str, target: str) -> None:
        """Rename without overwrite, never into a directory. Raises AlreadyExists, FileMissing, LeaseHeld. Durable."""

    async def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Remove; False when nothing was there."""

    async def write_file(self, path: str, data: Buffer, *, holder: str) -> None:
        """Create (no overwrite, no parents), write, make durable on disk, close. Raises AlreadyExists, FileMissing.

        An unfinished file may be removed, perhaps late; an empty one never is.
        """

    async def read_file(self, path: str, *, length_bytes_max: int) -> bytes:
        """A whole closed file. Raises FileMissing, CorruptFile (longer than allowed)."""

    def append_alignment_bytes(self, durability: Durability) -> int:
        """Appends have to end at a multiple of this, or the next append may damage their end (rule 27); 1: anywhere."""

    async def create_segment(
        self, path: str, *, holder: str, durability: Durability, segment_bytes: int
    ) -> SegmentWriter:
        """Create (no overwrite, no parents) a file whose writer is `holder`; usable at once, block and connections up.

        `segment_bytes`: its greatest length (HDFS: the block size). A file that could not be opened may be removed,
        perhaps late. Raises AlreadyExists, FileMissing (fenced), StorageFull, LeaseHeld.
        """

    async def read(self, path: str, *, file_id: int, position: int, length_bytes: int) -> Buffer:
        """Exactly these bytes of a closed or open file; the caller stays below what it knows to be durable (rule 13).

        Raises FileMissing (also when the path now names another file), CorruptFile (shorter than asked).
        """

    async def locate(self, path: str) -> tuple[str, ...]:
        """`host:port` of each node that holds the file's bytes, sorted; empty for a local directory and an empty file.

        Raises FileMissing.
        """

    def file_part(self, path: str, *, file_id: int, position: int, length_bytes: int) -> FilePart | None:
        """The same bytes as `read`, for the kernel to send from its page cache; None: call `read`.

        Not for a store that pads (`append_alignment_bytes`): the padding between two batches would be sent too.
        """

    async def visible_length(self, path: str) -> int:
        """How many bytes of an open or closed file can be read now; at least what was durable when we asked.

        For onlookers only: bytes behind the durable ones may still vanish. Raises FileMissing.
        """

    async def count_replicas(self, path: str) -> int:
        """How many nodes say now that they hold all of a closed file, or a usable replica of an open one (rule 26).

        Compared with `min.insync.replicas` for files that another owner wrote: a NameNode's lists name dead nodes for
        minutes. For a store without replication, or an empty file: `replicas_wanted`. Raises FileMissing.
        """

    async def take_over(
        self, path: str, *, previous_holder: str | None, durability: Durability = Durability.HFLUSH
    ) -> int:
        """Close a file left open by `previous_holder` and stop that writer for good; the verified length (rules 3, 10).

        Fine for a file already closed. With HSYNC all of it is then on the disks of every replica, no matter who closed
        it (rule 26). None as holder: the strong, slow way (recoverLease). Raises LeaseHeld, FileMissing.
        """

    async def close(self) -> None:
        """Release connections, threads and locks."""
