"""Describes a loss before an operator accepts it: the damaged files, and what is left of the log and its state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final
from uuid import UUID

from bmq.coordinator.offsets.offset_columns import PackedOffsets
from bmq.coordinator.offsets.pending_offsets import OpenTransaction
from bmq.coordinator.snapshot import decode_snapshot
from bmq.dataclass import dataclass
from bmq.log.damage import Damage, end_damage, is_accepted
from bmq.log.damage_report import DamageReport, accepted_losses, report_damage
from bmq.log.names import TOPICS_DIRECTORY, parse_epoch_directory
from bmq.log.segment_reader import SegmentReader
from bmq.log.store import FileMissing, SegmentStore, StoreError
from bmq.metadata.image import (
    METADATA_TOPIC_ID,
    METADATA_TOPIC_NAME,
    OFFSETS_TOPIC_NAME,
    TRANSACTIONS_TOPIC_NAME,
    MetadataImage,
)
from bmq.metadata.state import MetadataState
from bmq.metadata.stored_image import stored_image
from bmq.protocol.batch_records import Record, decode_records
from bmq.protocol.errors import BmqError
from bmq.protocol.group_records import GroupMetadataKey, OffsetCommitKey, decode_key
from bmq.protocol.metadata_records import decode_record

NAMES_SHOWN_MAX: Final = 20


class NoSuchPartition(BmqError):
    """The directory does not exist, or is not a partition's."""


class NoSuchEnd(BmqError):
    """The log does not end there."""


@dataclass(frozen=True, slots=True)
class Loss:
    """`damages`: the damages to accept. `lines`: their consequences, for the operator."""

    damages: tuple[Damage, ...]
    lines: list[str]


async def describe_loss(store: SegmentStore, partition: str, end_offset: int | None = None) -> Loss:
    """Describe the loss of the partition in that directory; changes nothing. Raises NoSuchPartition, BmqError.

    `end_offset`: where the log ends too early, according to an error: include that in the loss.
    """
    topic_id, topic_name = await _topic_of(store, partition)
    is_state = topic_name in (METADATA_TOPIC_NAME, OFFSETS_TOPIC_NAME, TRANSACTIONS_TOPIC_NAME)
    try:
        # Without the metadata the topic's name is unknown; a snapshot among the files also shows a state machine.
        report = await report_damage(store, partition, is_state=is_state or await _has_snapshots(store, partition))
    except FileMissing as error:
        raise NoSuchPartition(f"there is no partition in {partition} of the store") from error
    damages = list(report.damages)
    if end_offset is not None:
        if not 0 <= end_offset <= report.end_offset:
            raise NoSuchEnd(
                f"the log in {partition} holds offsets [{report.log_start_offset}, {report.end_offset}): no {end_offset}"
            )
        end = end_damage(partition, end_offset, "and what others have seen behind that is lost")
        damages += [] if await is_accepted(store, end) else [end]
    lines = [f"{topic_name or topic_id}: {damage.sentence}" for damage in damages]
    lines += [f"accepted before: {name}" for name in await accepted_losses(store, partition)]
    if not damages:
        held = f"holds offsets [{report.log_start_offset}, {report.end_offset})"
        return Loss((), [*lines, f"nothing is damaged in {partition}, which {held}: there is no loss to accept"])
    lines.append(f"without that the log holds offsets [{report.log_start_offset}, {report.end_offset})")
    if report.log_start_offset:
        kept = "" if report.snapshot is None else f", but for the state at offset {report.snapshot.next_offset}"
        lines.append(f"everything below offset {report.log_start_offset} is lost{kept}")
    if topic_name == METADATA_TOPIC_NAME:
        lines.append(f"topics that are left: {_listed(await _topics_left(store, report))}")
    elif topic_name == OFFSETS_TOPIC_NAME:
        lines.append(f"groups that are left: {_listed(await _groups_left(store, report))}")
    return Loss(tuple(damages), lines)


async def _topic_of(store: SegmentStore, partition: str) -> tuple[UUID, str]:
    """The topic's id and name; the name is empty if the metadata does not have it."""
    top, _, rest = partition.partition("/")
    identity, _, number = rest.partition("/")
    try:
        topic_id = UUID(identity)
    except ValueError:
        topic_id = None
    if top != TOPICS_DIRECTORY or topic_id is None or not number.isdigit():
        raise NoSuchPartition(
            f"{partition!r} is no partition's directory: those are called topics/<topic id>/<partition>"
        )
    if topic_id == METADATA_TOPIC_ID:
        return topic_id, METADATA_TOPIC_NAME
    image = MetadataImage()
    with suppress(StoreError):
        image = await stored_image(store)
    topic = image.topics_by_id.get(topic_id)
    return topic_id, "" if topic is None else topic.name


async def _has_snapshots(store: SegmentStore, partition: str) -> bool:
    for entry in await store.list_directory(partition):
        if entry.is_directory and parse_epoch_directory(entry.name) is not None:
            names = [file.name for file in await store.list_directory(f"{partition}/{entry.name}")]
            if any(name.startswith("snapshot.") for name in names):
                return True
    return False


async def _records(store: SegmentStore, report: DamageReport) -> list[Record]:
    """All records that are left, in order."""
    records: list[Record] = []
    first = report.log_start_offset if report.snapshot is None else report.snapshot.next_offset
    for extent in report.files.extents:
        location = report.files.location_in(extent, 0)
        reader = SegmentReader(
            store, location.path, file_id=location.file_id, position=0, valid_bytes=location.valid_bytes
        )
        while (run := await reader.next_run()) is not None:
            for position, header in run.batches:
                if not header.is_control:
                    records += [record for record in decode_records(run.data, position) if record.offset >= first]
    return records


async def _topics_left(store: SegmentStore, report: DamageReport) -> list[str]:
    state = MetadataState("", -1, {})
    if report.snapshot is not None:
        state.replay_snapshot(report.snapshot.data)
    for record in await _records(store, report):
        # Records that change lost state cannot be applied.
        with suppress(BmqError):
            state.replay(decode_record(record.value or b""))
    return sorted(state.image_at(report.end_offset).topics)


async def _groups_left(store: SegmentStore, report: DamageReport) -> list[str]:
    groups: dict[str, None] = {}
    if report.snapshot is not None:
        for part in decode_snapshot(report.snapshot.data):
            match part:
                case PackedOffsets(group=group):
                    groups[group] = None
                case OpenTransaction():
                    pass  # uncommitted records do not belong to a group yet
                case key, _:
                    groups |= dict.fromkeys(_group_of(key))
    for record in await _records(store, report):
        groups |= dict.fromkeys(_group_of(record.key or b""))
    return sorted(groups)


def _group_of(key: bytes) -> Iterator[str]:
    with suppress(BmqError):
        named = decode_key(key)
        if isinstance(named, OffsetCommitKey | GroupMetadataKey):
            yield named.group


def _listed(names: list[str]) -> str:
    if not names:
        return "none"
    shown = ", ".join(names[:NAMES_SHOWN_MAX])
    return f"{len(names)} ({shown})" if len(names) <= NAMES_SHOWN_MAX else f"{len(names)} ({shown}, …)"
