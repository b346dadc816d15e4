"""The manifest: which parts of a partition's log are in closed files, and where. Small, immutable, written as a whole. Pure.

An owner writes one before it opens its first segment, and another whenever retention, deletion, a cut or a snapshot changes the
closed part of the log. In an epoch's directory the valid manifest with the highest number counts. The epoch's segments from
`next_roll` on come behind it and are found by listing the directory. Readers address extents (rule 13), never files.

The file is a container of checksummed parts:
    head  JSON: everything but the following
    abrt  aborted transactions of all extents, without those in files that the head names
    prod  producer state of everything below `end_offset`; if it is large, it is in the last extent's index instead
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import field, replace
from itertools import pairwise
from typing import Annotated, ClassVar, Final

from bmq.dataclass import dataclass
from bmq.log.aborted_transactions import AbortedTransactions
from bmq.log.checksummed_parts import CONTAINER_BYTES_MAX, CorruptParts, decode_parts, encode_parts
from bmq.log.json_adapter import ConfigDict, Field, TypeAdapter, ValidationError
from bmq.log.segment_index import NaturalNumber, SegmentIndex
from bmq.log.store import Buffer
from bmq.log.timers.run_reference import RunReference
from bmq.protocol.turns import at_once

MANIFEST_BYTES_MAX: Final = CONTAINER_BYTES_MAX
"""The longest manifest that any release can write: one that is too long to read would take its partition offline."""
_EXTENTS_PER_TURN: Final = 2_000  # extents encoded in one turn of the event loop: 3 ms
_NO_EXTENTS: Final = b'"extents":[]'
_EXTENTS_FIELD: Final = _NO_EXTENTS[:-1]
_BETWEEN_EXTENTS: Final = b"},{"
_SLICE_BYTES: Final = 256 * 1024  # bytes of extents decoded in one turn of the event loop: some 10 ms
PRODUCERS_INLINE_BYTES_MAX: Final = 16 * 1024
_MAGIC: Final = b"BMQMANI1"
_PARTS: Final = (b"head", b"abrt", b"prod")
_STRICT: Final = ConfigDict(strict=True, extra="forbid")


class CorruptManifest(CorruptParts):
    """A manifest that is not whole, or that contradicts itself."""


@dataclass(frozen=True, slots=True)
class Extent:
    """A run of whole batches in one closed file: bytes [position, position + length), offsets [base, end).

    The file is segment `roll` of `leader_epoch`, `file_bytes` long; the owner of `index_epoch` wrote its index.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    leader_epoch: NaturalNumber
    roll: NaturalNumber
    index_epoch: NaturalNumber
    file_id: int
    file_bytes: NaturalNumber
    position: NaturalNumber
    length: NaturalNumber
    base_offset: NaturalNumber
    end_offset: NaturalNumber
    max_timestamp_ms: int

    @classmethod
    def of(cls, index: SegmentIndex, index_epoch: int) -> Extent:
        """The extent of the whole segment that this index describes, up to its valid bytes."""
        summary = index.summary
        return cls(
            leader_epoch=summary.leader_epoch,
            roll=summary.roll,
            index_epoch=index_epoch,
            file_id=summary.file_id,
            file_bytes=summary.closed_bytes,
            position=0,
            length=summary.valid_bytes,
            base_offset=summary.base_offset,
            end_offset=summary.end_offset,
            max_timestamp_ms=summary.max_timestamp_ms,
        )

    @property
    def valid_bytes(self) -> int:
        """The position in the file where the extent ends."""
        return self.position + self.length


@dataclass(frozen=True, slots=True)
class Cut:
    """In segment `roll` of `leader_epoch`, nothing at or past `valid_bytes` belongs to the log (rule 4)."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    leader_epoch: NaturalNumber
    roll: NaturalNumber
    valid_bytes: NaturalNumber


@dataclass(frozen=True, slots=True)
class SnapshotReference:
    """A state machine's snapshot: file `snapshot.<number>` of `leader_epoch`'s directory (rule 16)."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    leader_epoch: NaturalNumber
    number: NaturalNumber
    next_offset: NaturalNumber
    length: NaturalNumber
    crc: Annotated[int, Field(ge=0, lt=2**32)]


@dataclass(frozen=True, slots=True)
class AbortedFile:
    """The file `aborted.<number>` of `leader_epoch`'s directory: `count` aborted transactions.

    Their markers lie at the offsets [first_marker, last_marker].
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    leader_epoch: NaturalNumber
    number: NaturalNumber
    count: NaturalNumber
    first_marker: NaturalNumber
    last_marker: NaturalNumber


@dataclass(frozen=True, slots=True)
class TimersReference:
    """Where the next owner finds pending delayed records: in `runs`, and by a replay of the log from `replay_from` on.

    Records held below `replay_from` are delivered or in one of the runs; records held from there on are in none. The position of
    deliveries at `replay_from`, or a later one, is (`due_ms`, `offset`). All half messages held below `half_from` are finished;
    no run has any, so the replay begins at `half_from` if that is lower. None: it is `replay_from`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    replay_from: NaturalNumber
    due_ms: int
    offset: int
    runs: tuple[RunReference, ...] = ()
    half_from: NaturalNumber | None = None

    @property
    def needed_from(self) -> int:
        """The offset from which the log is needed for a replay."""
        return self.replay_from if self.half_from is None else min(self.replay_from, self.half_from)

    def simplified(self) -> TimersReference:
        """The reference without a `half_from` that is not below `replay_from`."""
        return self if self.half_from is None or self.half_from < self.replay_from else replace(self, half_from=None)


@dataclass(frozen=True, slots=True)
class _Head:
    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    leader_epoch: NaturalNumber
    next_roll: NaturalNumber
    log_start_offset: NaturalNumber
    end_offset: NaturalNumber
    extents: tuple[Extent, ...]
    cuts: tuple[Cut, ...]
    epoch_history: tuple[tuple[int, int], ...]
    snapshots: tuple[SnapshotReference, ...]
    has_producers: bool
    first_dirty_offset: NaturalNumber = 0
    aborted_files: tuple[AbortedFile, ...] = ()
    timers: TimersReference | None = None


_HEAD: Final = TypeAdapter(_Head)
_EXTENTS: Final = TypeAdapter(tuple[Extent, ...])


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything older than segment `next_roll` of `leader_epoch`: the offsets below `end_offset`.

    `extents` are in the order of the log, without a gap. The first may begin below `log_start_offset`, which in turn may lie past
    `end_offset`, in a segment that follows. `cuts`: segments or tails that recovery found past the log's end, and torn tails of
    this epoch's own segments. `epoch_history`: (leader epoch, start offset).
    `aborted_files` have the oldest aborted transactions, in order, and `aborted` those behind them. A manifest that was read with
    its files (bmq.log.aborted_files) has all of them in `aborted`.
    `producers` None: the index of the last extent has the producer state. `first_dirty_offset`: how far compaction has come.
    `timers` None: no record was ever held. `log_start_offset` is never above `timers.needed_from`.
    """

    leader_epoch: int
    next_roll: int
    log_start_offset: int
    end_offset: int
    extents: tuple[Extent, ...] = ()
    cuts: tuple[Cut, ...] = ()
    epoch_history: tuple[tuple[int, int], ...] = ()
    snapshots: tuple[SnapshotReference, ...] = ()
    aborted: AbortedTransactions = field(default_factory=AbortedTransactions)
    producers: bytes | None = None
    first_dirty_offset: int = 0
    aborted_files: tuple[AbortedFile, ...] = ()
    timers: TimersReference | None = None

    def encode(self) -> bytes:
        """The file's bytes, in one go. For a manifest that may be large use `encoding`."""
        return at_once(self.encoding())

    def encoding(self) -> Generator[None, None, bytes]:
        """Encode as `encode` does, and yield whenever a turn of the event loop has been long enough."""
        head = _Head(
            leader_epoch=self.leader_epoch,
            next_roll=self.next_roll,
            log_start_offset=self.log_start_offset,
            end_offset=self.end_offset,
            extents=(),
            cuts=self.cuts,
            epoch_history=self.epoch_history,
            snapshots=self.snapshots,
            has_producers=self.producers is not None,
            first_dirty_offset=self.first_dirty_offset,
            aborted_files=self.aborted_files,
            timers=self.timers,
        )
        # Defaults are left out. So a release without compaction, files of aborted transactions or runs can read the manifest of a
        # log that has none of these, and refuses one that has some.
        encoded = _HEAD.dump_json(head, exclude_defaults=True)
        if self.extents:
            slices = []
            for start in range(0, len(self.extents), _EXTENTS_PER_TURN):
                if start:
                    yield
                slices.append(_EXTENTS.dump_json(self.extents[start : start + _EXTENTS_PER_TURN])[1:-1])
            encoded = encoded.replace(_NO_EXTENTS, b"".join((_NO_EXTENTS[:-1], b",".join(slices), b"]")), 1)
        return encode_parts(
            _MAGIC,
            {
                b"head": encoded,
                b"abrt": self.aborted.encode(),
                b"prod": self.producers or b"",
            },
        )

    @classmethod
    def decode(cls, data: Buffer) -> Manifest:
        """Decode a file in one go; for one that may be large use `decoding`. Raises CorruptManifest."""
        return at_once(cls.decoding(data))

    @classmethod
    def decoding(cls, data: Buffer) -> Generator[None, None, Manifest]:
        """Decode as `decode` does, and yield whenever a turn of the event loop has been long enough. Raises CorruptManifest."""
        parts = decode_parts(_MAGIC, data, _PARTS, CorruptManifest)
        try:
            head = yield from _head_of(bytes(parts[b"head"]))
        except ValidationError as error:
            raise CorruptManifest(f"the manifest's head has {error.error_count()} errors") from error
        if any(extent.valid_bytes > extent.file_bytes for extent in head.extents):
            raise CorruptManifest("an extent is longer than its file")
        if any(earlier.end_offset != later.base_offset for earlier, later in pairwise(head.extents)):
            raise CorruptManifest("the extents do not follow each other")
        if head.extents and head.extents[-1].end_offset != head.end_offset:
            raise CorruptManifest("the extents end elsewhere than the log")
        aborted = AbortedTransactions.decode(parts[b"abrt"], CorruptManifest)
        if not _are_in_order(head.aborted_files, aborted):
            raise CorruptManifest("the files of aborted transactions are out of order")
        return cls(
            leader_epoch=head.leader_epoch,
            next_roll=head.next_roll,
            log_start_offset=head.log_start_offset,
            end_offset=head.end_offset,
            extents=head.extents,
            cuts=head.cuts,
            epoch_history=head.epoch_history,
            snapshots=head.snapshots,
            aborted=aborted,
            producers=bytes(parts[b"prod"]) if head.has_producers else None,
            first_dirty_offset=head.first_dirty_offset,
            aborted_files=head.aborted_files,
            timers=head.timers,
        )

    def epochs_named(self) -> frozenset[int]:
        """The epochs whose directories have a file that this manifest names."""
        epochs = {epoch for extent in self.extents for epoch in (extent.leader_epoch, extent.index_epoch)}
        epochs.update(snapshot.leader_epoch for snapshot in self.snapshots)
        epochs.update(file.leader_epoch for file in self.aborted_files)
        if self.timers is not None:
            epochs.update(run.leader_epoch for run in self.timers.runs)
        return frozenset(epochs)


def _head_of(encoded: bytes) -> Generator[None, None, _Head]:
    """Parse the head; many extents are parsed in slices, which is possible because they contain no arrays.

    Raises ValidationError.
    """
    start = encoded.find(_EXTENTS_FIELD) + len(_EXTENTS_FIELD)
    end = encoded.find(b"]", start)
    if start < len(_EXTENTS_FIELD) or end - start <= _SLICE_BYTES:
        return _HEAD.validate_json(encoded)
    extents: list[Extent] = []
    while start < end:
        if extents:
            yield
        between = encoded.find(_BETWEEN_EXTENTS, start + _SLICE_BYTES, end)
        stop = end if between < 0 else between + 1
        extents += _EXTENTS.validate_json(b"".join((b"[", encoded[start:stop], b"]")))
        start = stop + 1
    yield
    before = encoded.find(_EXTENTS_FIELD) + len(_EXTENTS_FIELD)
    return replace(_HEAD.validate_json(encoded[:before] + encoded[end:]), extents=tuple(extents))


def filed_to(files: Sequence[AbortedFile]) -> int:
    """The offset below which the markers of aborted transactions are in `files`; 0 without files."""
    return files[-1].last_marker + 1 if files else 0


def _are_in_order(files: Sequence[AbortedFile], behind: AbortedTransactions) -> bool:
    if any(not file.count or file.first_marker > file.last_marker for file in files):
        return False
    if any(earlier.last_marker >= later.first_marker for earlier, later in pairwise(files)):
        return False
    return not len(behind) or behind.first_marker >= filed_to(files)


def cuts_by_segment(cuts: Iterable[Cut]) -> dict[tuple[int, int], int]:
    """(leader epoch, roll) -> valid bytes."""
    return {(cut.leader_epoch, cut.roll): cut.valid_bytes for cut in cuts}
