"""How far a table is in its topic, and what a batch therefore has to write. Decisions only.

The offsets are a property of the table that changes in the commit that adds the rows, so they match the rows when a job
dies, a batch is replayed, snapshots expire, or files are merged. They name that commit's snapshot, since a rollback
keeps properties (snapshot_chain.py). A batch is a range of offsets per partition. Its offsets below the table's are
already written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bmq.spark.tables.errors import TableMismatch, TableTaken

OFFSETS_PROPERTY: Final = "bmq.offsets."
"""Followed by the table's name: a dead-letter table may serve several tables."""
WRITER_PROPERTY: Final = "bmq.writer."


@dataclass(frozen=True, slots=True)
class TableOffsets:
    """`next_offsets`: each partition's first offset that has not been written.

    `definition`: the definition, as JSON, that was used for the last rows; only a dead-letter table keeps it.
    `snapshot_id`: of the commit that set these offsets; None before the commit, and in offsets of earlier releases.
    """

    topic: str
    topic_id: str
    next_offsets: Mapping[int, int]
    definition: str | None = None
    snapshot_id: int | None = None

    def to_json(self) -> str:
        return json.dumps(
            {
                "topic": self.topic,
                "topic_id": self.topic_id,
                "next": {str(partition): self.next_offsets[partition] for partition in sorted(self.next_offsets)},
                **({} if self.definition is None else {"definition": self.definition}),
                **({} if self.snapshot_id is None else {"snapshot": self.snapshot_id}),
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> TableOffsets:
        """Raises TableMismatch: something else wrote the property."""
        try:
            form = json.loads(text)
            next_offsets = {int(partition): int(offset) for partition, offset in form["next"].items()}
            snapshot_id = None if form.get("snapshot") is None else int(form["snapshot"])
            return cls(str(form["topic"]), str(form["topic_id"]), next_offsets, form.get("definition"), snapshot_id)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise TableMismatch(f"the table's property with its offsets is damaged: {text[:200]}") from None

    def moved_to(self, end_offsets: Mapping[int, int], definition: str | None = None) -> TableOffsets:
        """The offsets after a batch that ends there; they never move back."""
        moved = {p: max(self.next_offsets.get(p, 0), end) for p, end in end_offsets.items()}
        return TableOffsets(self.topic, self.topic_id, {**self.next_offsets, **moved}, definition)

    def is_ahead_of(self, other: TableOffsets) -> bool:
        """Whether a commit here has no matching commit in `other` yet."""
        return any(offset > other.next_offsets.get(p, 0) for p, offset in self.next_offsets.items())


@dataclass(frozen=True, slots=True)
class Writer:
    """The owner of a table: the job with this checkpoint, in this run."""

    checkpoint: str
    run: str

    def to_json(self) -> str:
        return json.dumps({"checkpoint": self.checkpoint, "run": self.run}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Writer:
        """Raises TableMismatch."""
        try:
            form = json.loads(text)
            return cls(str(form["checkpoint"]), str(form["run"]))
        except (ValueError, KeyError, TypeError):
            raise TableMismatch(f"the table's property with its writer is damaged: {text[:200]}") from None


def unwritten(offsets: TableOffsets, end_offsets: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """Each partition's range of a batch with these ends that the table lacks; empty for a replay.

    A range begins where the table ends, even if the batch, or the log, begins later.
    """
    starts = {partition: offsets.next_offsets.get(partition, 0) for partition in end_offsets}
    return {p: (starts[p], end) for p, end in end_offsets.items() if starts[p] < end}


def dead_letter_offsets(found: TableOffsets | None, offsets: TableOffsets) -> TableOffsets:
    """The dead letters' offsets for a table with these ones. `found`: those stored in the dead-letter table.

    The dead-letter table outlives the table. Once the table was made again for another topic, the old offsets do not apply.
    """
    if found is not None and (found.topic, found.topic_id) == (offsets.topic, offsets.topic_id):
        return found
    return TableOffsets(offsets.topic, offsets.topic_id, {})


def definition_for(offsets: TableOffsets, dead_letters: TableOffsets, current: str) -> str:
    """The definition for a batch, as JSON: the current one, except for the rest of a batch that had begun.

    Records that did not fit are committed first. If only that happened, the same definition must find those that fit.
    """
    is_begun = dead_letters.definition is not None and dead_letters.is_ahead_of(offsets)
    return str(dead_letters.definition) if is_begun else current


def all_fit(ranges: Mapping[int, tuple[int, int]], rows: int) -> bool:
    """Whether `rows` prove that no record of the ranges is missing: there is at most one row per offset."""
    return rows == sum(end - start for start, end in ranges.values())


def first_offsets_by_partition(offsets: TableOffsets, partitions: int) -> list[int]:
    """A list of the first offset to take, indexed by partition."""
    count = max([partitions, *(partition + 1 for partition in offsets.next_offsets)])
    return [offsets.next_offsets.get(partition, 0) for partition in range(count)]


def claim(current: Writer | None, wanted: Writer, table: str, *, take_over: bool) -> Writer:
    """The new writer. A restarted job may claim a table of its earlier run; another job has to take over. Raises TableTaken."""
    if current is None or current.checkpoint == wanted.checkpoint or take_over:
        return wanted
    raise TableTaken(
        f"table {table} is written by the job with checkpoint {current.checkpoint}; start that one again, or take the "
        "table over: it goes on from its own offsets, and the other job stops at its next commit"
    )


def check_writer(current: Writer | None, own: Writer, table: str) -> None:
    """Raises TableTaken once another job, or another run of this one, has claimed the table."""
    if current != own:
        who = "nobody" if current is None else f"the job with checkpoint {current.checkpoint}"
        raise TableTaken(f"table {table} was taken over by {who}; this job stops, and has written nothing since")


def check_topic(offsets: TableOffsets, topic: str, topic_id: str, table: str) -> None:
    """Raises TableMismatch."""
    if offsets.topic != topic:
        raise TableMismatch(f"table {table} is made of topic {offsets.topic}, not of {topic}")
    if offsets.topic_id != topic_id:
        raise TableMismatch(
            f"topic {topic} was deleted and made again since table {table} was written (its id was {offsets.topic_id} "
            f"and is {topic_id}); make a new table of it"
        )


def check_planned(checkpoint: str, planned: Mapping[str, object], topic: str, table: str) -> None:
    """`planned`: the checkpoint's topics. Raises TableMismatch when one is another topic."""
    other = next((name for name in planned if name != topic), None)
    if other is not None:
        raise TableMismatch(f"checkpoint {checkpoint} is of topic {other}, and table {table} is made of {topic}")


def check_committed(checkpoint: str, committed: Mapping[int, int], offsets: TableOffsets | None, table: str) -> None:
    """`committed`: offsets per partition up to which the checkpoint considers the table written.

    Raises TableMismatch when the table ends before that: the records between would never be written.
    """
    next_offsets = {} if offsets is None else offsets.next_offsets
    for partition, offset in sorted(committed.items()):
        if offset > next_offsets.get(partition, 0):
            raise TableMismatch(
                f"table {table} ends at offset {next_offsets.get(partition, 0)} of partition {partition}, and checkpoint "
                f"{checkpoint} is at {offset} already: the table was made again or rolled back; start with a new "
                "checkpoint, which goes on from the table's own offsets"
            )


def starting_offsets(offsets: TableOffsets | None, topic: str, partitions: int, otherwise: str) -> str:
    """The option `startingOffsets` for a new checkpoint: `otherwise` for a new table, else the table's end."""
    if offsets is None:
        return otherwise
    # -2 is "earliest": nothing of an added partition is in the table.
    starts = {str(p): offsets.next_offsets.get(p, -2) for p in range(partitions)}
    return json.dumps({topic: starts}, separators=(",", ":"))
