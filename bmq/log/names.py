"""Names of a partition's directories and files, and what a listing of them tells an owner (rule 1). Pure.

topics/<topic id>/<partition>/00000007          an epoch's directory, sealed
topics/<topic id>/<partition>/00000008.open     the epoch that writes; `N` and `N.open` sort next to each other
    owner.<name>                empty: who writes here, also the holder of all its files
    manifest.00000000           lists everything older; the highest valid number wins
    00000000.log                a segment, by roll
    00000000.index              its index
    00000007-00000003.index     the index of a segment of another epoch, rebuilt here (rule 2)
    1000000000.log              a segment that compaction made of others; only a manifest names it
    00000000.index.3            a draft of an index; once whole it is renamed to the final name (rule 21)
    snapshot.00000000           a state machine's snapshot, named by a manifest
    aborted.00000000            aborted transactions that a manifest has no room for, named by it
    timers.00000000             a run: delayed records in order of due time, named by a manifest
    delegated.<reservation>     a directory for a delegated compaction; no manifest names it
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from bmq.dataclass import dataclass
from bmq.log.partition_log import TopicPartition
from bmq.log.store import FileStatus

TOPICS_DIRECTORY: Final = "topics"
CLEANED_ROLL_MIN: Final = 1_000_000_000
"""First number of segments that compaction writes. A walk of a directory skips them: they do not follow its last segment."""
MERGED_ROLL_MIN: Final = 2_000_000_000
"""First number of segments that were merged of others: as those that compaction writes, but no offset is missing in them."""
_OWNER_PREFIX: Final = "owner."
_DELEGATED_PREFIX: Final = "delegated."
_OPEN_SUFFIX: Final = ".open"
_NUMBER: Final = r"(\d{8}|[1-9]\d{8,9})"
_EPOCH_DIRECTORY: Final = re.compile(_NUMBER + r"(\.open)?", re.ASCII)
_SEGMENT_FILE: Final = re.compile(_NUMBER + r"\.log", re.ASCII)
_INDEX_FILE: Final = re.compile(_NUMBER + r"\.index", re.ASCII)
_REBUILT_INDEX_FILE: Final = re.compile(_NUMBER + "-" + _NUMBER + r"\.index", re.ASCII)
_MANIFEST_FILE: Final = re.compile(r"manifest\." + _NUMBER, re.ASCII)
_ABORTED_FILE: Final = re.compile(r"aborted\." + _NUMBER, re.ASCII)
_RUN_FILE: Final = re.compile(r"timers\." + _NUMBER, re.ASCII)
_SNAPSHOT_FILE: Final = re.compile(r"snapshot\." + _NUMBER, re.ASCII)


def topic_directory(topic_id: object) -> str:
    """The directory of a topic's partitions. `topic_id`: its UUID; a topic that is created again gets a new one."""
    return f"{TOPICS_DIRECTORY}/{topic_id}"


def partition_directory(topic_partition: TopicPartition) -> str:
    return f"{topic_directory(topic_partition.topic_id)}/{topic_partition.partition}"


def sealed_name(leader_epoch: int) -> str:
    return f"{leader_epoch:08d}"


def open_name(leader_epoch: int) -> str:
    return f"{leader_epoch:08d}{_OPEN_SUFFIX}"


def owner_name(holder: str) -> str:
    return f"{_OWNER_PREFIX}{holder}"


def segment_name(roll: int) -> str:
    return f"{roll:08d}.log"


def index_name(roll: int) -> str:
    return f"{roll:08d}.index"


def rebuilt_index_name(segment_epoch: int, roll: int) -> str:
    return f"{segment_epoch:08d}-{roll:08d}.index"


def draft_name(name: str, attempt: int) -> str:
    """The name under which a file is written before it is renamed to `name`. No code parses it, so leftovers are ignored."""
    return f"{name}.{attempt}"


def delegated_name(reservation: str) -> str:
    """The directory of a delegated compaction, inside an epoch's directory."""
    return f"{_DELEGATED_PREFIX}{reservation}"


def is_delegated(entry: FileStatus) -> bool:
    return entry.is_directory and entry.name.startswith(_DELEGATED_PREFIX)


def manifest_name(number: int) -> str:
    return f"manifest.{number:08d}"


def snapshot_name(number: int) -> str:
    return f"snapshot.{number:08d}"


def aborted_name(number: int) -> str:
    return f"aborted.{number:08d}"


def run_name(number: int) -> str:
    return f"timers.{number:08d}"


def parse_epoch_directory(name: str) -> tuple[int, bool] | None:
    """(leader epoch, is it the open form); None for any other name."""
    match = _EPOCH_DIRECTORY.fullmatch(name)
    return (int(match[1]), match[2] is not None) if match else None


def parse_owner(name: str) -> str | None:
    """The holder that an owner file names; None for any other name."""
    return name.removeprefix(_OWNER_PREFIX) if name.startswith(_OWNER_PREFIX) else None


def parse_segment(name: str) -> int | None:
    """The roll of a segment that an owner appended to; None for any other name."""
    roll = _single_number(_SEGMENT_FILE, name)
    return None if roll is None or is_cleaned(roll) else roll


def parse_cleaned(name: str) -> int | None:
    """The roll of a segment that compaction wrote, or of the index beside it; None for any other name."""
    roll = _single_number(_SEGMENT_FILE, name)
    if roll is None:
        roll = parse_index(name)
    return roll if roll is not None and is_cleaned(roll) else None


def is_cleaned(roll: int) -> bool:
    """Whether compaction or a merge wrote this segment. If so, its batches may have many leader epochs (and see `may_have_gaps`)."""
    return roll >= CLEANED_ROLL_MIN


def may_have_gaps(roll: int) -> bool:
    """Whether offsets may be missing in this segment because compaction dropped records."""
    return CLEANED_ROLL_MIN <= roll < MERGED_ROLL_MIN


def parse_index(name: str) -> int | None:
    """The roll of the segment that an index file beside it describes; None for any other name."""
    return _single_number(_INDEX_FILE, name)


def parse_rebuilt_index(name: str) -> tuple[int, int] | None:
    """(segment's epoch, roll) of an index rebuilt by a later epoch; None for any other name."""
    match = _REBUILT_INDEX_FILE.fullmatch(name)
    return (int(match[1]), int(match[2])) if match else None


def parse_manifest(name: str) -> int | None:
    return _single_number(_MANIFEST_FILE, name)


def parse_snapshot(name: str) -> int | None:
    return _single_number(_SNAPSHOT_FILE, name)


def parse_aborted(name: str) -> int | None:
    return _single_number(_ABORTED_FILE, name)


def parse_run(name: str) -> int | None:
    return _single_number(_RUN_FILE, name)


def renamed_path(path: str) -> str:
    """The path of the same file under the other name of its epoch's directory: sealed for open, open for sealed."""
    directory, _, name = path.rpartition("/")
    partition, _, epoch = directory.rpartition("/")
    other = epoch.removesuffix(_OPEN_SUFFIX) if epoch.endswith(_OPEN_SUFFIX) else f"{epoch}{_OPEN_SUFFIX}"
    return f"{partition}/{other}/{name}"


def _single_number(pattern: re.Pattern[str], name: str) -> int | None:
    match = pattern.fullmatch(name)
    return int(match[1]) if match else None


@dataclass(frozen=True, slots=True)
class PartitionPaths:
    """Paths of one partition as one owner sees them: its own epoch's directory is open, every other one is sealed."""

    partition: str
    leader_epoch: int

    def epoch(self, leader_epoch: int) -> str:
        name = open_name(leader_epoch) if leader_epoch == self.leader_epoch else sealed_name(leader_epoch)
        return f"{self.partition}/{name}"

    @property
    def own(self) -> str:
        return self.epoch(self.leader_epoch)

    @property
    def own_sealed(self) -> str:
        return f"{self.partition}/{sealed_name(self.leader_epoch)}"

    def file(self, leader_epoch: int, name: str) -> str:
        return f"{self.epoch(leader_epoch)}/{name}"

    def owner(self, holder: str) -> str:
        """The owner file in our own directory."""
        return self.file(self.leader_epoch, owner_name(holder))

    def segment(self, leader_epoch: int, roll: int) -> str:
        return self.file(leader_epoch, segment_name(roll))

    def index(self, leader_epoch: int, roll: int, index_epoch: int) -> str:
        """The index of segment `roll` of `leader_epoch`, as written by the owner of `index_epoch`."""
        name = index_name(roll) if index_epoch == leader_epoch else rebuilt_index_name(leader_epoch, roll)
        return self.file(index_epoch, name)

    def manifest(self, number: int) -> str:
        return self.file(self.leader_epoch, manifest_name(number))

    def snapshot(self, leader_epoch: int, number: int) -> str:
        return self.file(leader_epoch, snapshot_name(number))

    def aborted(self, leader_epoch: int, number: int) -> str:
        return self.file(leader_epoch, aborted_name(number))

    def run(self, leader_epoch: int, number: int) -> str:
        return self.file(leader_epoch, run_name(number))


@dataclass(frozen=True, slots=True)
class EpochListing:
    """The epochs in a listing of a partition's directory, in both forms. An epoch may appear in both."""

    open_epochs: frozenset[int]
    sealed_epochs: frozenset[int]

    @classmethod
    def of(cls, entries: Iterable[FileStatus]) -> EpochListing:
        opened: set[int] = set()
        sealed: set[int] = set()
        for entry in entries:
            parsed = parse_epoch_directory(entry.name) if entry.is_directory else None
            if parsed is not None:
                (opened if parsed[1] else sealed).add(parsed[0])
        return cls(frozenset(opened), frozenset(sealed))

    def fencing_epoch(self, leader_epoch: int) -> int | None:
        """The epoch that fences a claimer of `leader_epoch`: the highest one above, or its own if that is sealed, or None."""
        highest = max(self.open_epochs | self.sealed_epochs, default=leader_epoch)
        if highest > leader_epoch:
            return highest
        return leader_epoch if leader_epoch in self.sealed_epochs else None

    def to_seal(self, leader_epoch: int) -> tuple[int, ...]:
        """Older epochs whose open directory is to be renamed, ascending."""
        return tuple(sorted(epoch for epoch in self.open_epochs - self.sealed_epochs if epoch < leader_epoch))

    def leftovers(self, leader_epoch: int) -> tuple[int, ...]:
        """Older epochs with both an open and a sealed directory: the open one is left of a failed claim and may be deleted."""
        return tuple(sorted(epoch for epoch in self.open_epochs & self.sealed_epochs if epoch < leader_epoch))

    def older_epochs(self, leader_epoch: int) -> tuple[int, ...]:
        """Every older epoch, in either form, newest first."""
        epochs = self.open_epochs | self.sealed_epochs
        return tuple(sorted((epoch for epoch in epochs if epoch < leader_epoch), reverse=True))
