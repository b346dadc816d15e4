"""`bmq log dump`: what lies in the store, with or without a server: batches, records, manifests, indexes, snapshots."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from bmq.cli.kafka.record_lines import ReadRecord, json_line, table_cells
from bmq.cli.kafka.rows import Column, Output, cell_text, print_head, print_rows, printable
from bmq.cli.kafka.value_format import PLAIN_CODECS, BadValue, ValueFormat, compact_json
from bmq.cli.log_files import (
    OffsetBounds,
    StoredBatch,
    StoredPartition,
    UnknownFile,
    batch_row,
    file_kind,
    index_document,
    manifest_document,
    partition_of_path,
    read_index,
    read_manifest,
    read_snapshot,
    segment_at,
    stored_batches,
    stored_partitions,
    view_of,
)
from bmq.cli.setting_options import ConfigFile, Data, StoreUrl, load
from bmq.cli.state_records import STATE_TOPICS, StateRecord, decode_state_record, plain, snapshot_records
from bmq.dataclass import dataclass
from bmq.log.partition_view import PartitionView, SegmentView
from bmq.log.segment_reader import BadBatch
from bmq.log.store import CorruptFile, FileMissing, SegmentStore
from bmq.protocol.batch_records import Record, iterate_records
from bmq.protocol.control_batch import control_type_of, parse_end_transaction_marker
from bmq.protocol.errors import BmqError
from bmq.server.logs import configure_logs
from bmq.server.settings import Settings
from bmq.server.stores import opened_beside
from bmq.spark.jobs.time_text import text_of

_BATCH_HEADING: Final = [
    "partition",
    "offsets",
    "records",
    "epoch",
    "bytes",
    "codec",
    "time",
    "producer",
    "marks",
    "position",
]
_EXTENTS: Final = tuple(
    map(
        Column, ("leader_epoch", "roll", "base_offset", "end_offset", "position", "length", "file_bytes", "index_epoch")
    )
)
_ENTRIES: Final = (Column("offset"), Column("position"), Column("max_timestamp_ms", "time before", text_of))


class DumpContent(StrEnum):
    """What of a log to print."""

    BATCHES = "batches"
    RECORDS = "records"
    MANIFEST = "manifest"
    INDEXES = "indexes"
    SNAPSHOT = "snapshot"


class DamageSeen(BmqError):
    """Something could not be read. It is named on standard error."""


@dataclass(slots=True)
class Dump:
    """How entries are printed, and how many were. `damages`: what could not be read."""

    is_json: bool
    key_format: ValueFormat
    value_format: ValueFormat
    limit: int | None
    count: int = 0
    damages: int = 0

    @property
    def is_full(self) -> bool:
        return self.limit is not None and self.count >= self.limit

    def line(self, cells: Sequence[str]) -> None:
        sys.stdout.write("\t".join(map(printable, cells)) + "\n")

    def json(self, document: Mapping[str, Any]) -> None:
        sys.stdout.write(f"{compact_json(document)}\n")

    def damage(self, sentence: str) -> None:
        self.damages += 1
        sys.stderr.write(f"bmq: {sentence}\n")


def dump(
    what: Annotated[
        str, typer.Argument(metavar="TOPIC|FILE", help="A topic, or a file of the store: topics/ID/N/EPOCH/NAME")
    ],
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, metavar="N", help="Only this one")
    ] = None,
    has_records: Annotated[bool, typer.Option("--records", help="Records, not only their batches")] = False,
    has_manifest: Annotated[bool, typer.Option("--manifest", help="The newest manifest of each partition")] = False,
    has_indexes: Annotated[bool, typer.Option("--indexes", help="The index of each closed segment")] = False,
    has_snapshot: Annotated[
        bool, typer.Option("--snapshot", help="The newest snapshot of an internal topic's partitions")
    ] = False,
    from_offset: Annotated[int, typer.Option("--from-offset", min=0, metavar="N", help="Records from this offset")] = 0,
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", min=0, metavar="N", help="Records before this offset")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, metavar="N", help="At most N lines")] = None,
    key_format: Annotated[
        ValueFormat, typer.Option("--key-format", metavar="text|json|hex|base64", help="Format of keys")
    ] = ValueFormat.TEXT,
    value_format: Annotated[
        ValueFormat, typer.Option("--value-format", metavar="text|json|hex|base64", help="Format of values")
    ] = ValueFormat.TEXT,
    data: Data = None,
    store: StoreUrl = None,
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object on each line")] = False,
) -> None:
    """Show stored batches or records, manifests, indexes, snapshots. Records of internal topics are decoded."""
    asked = [
        content
        for content, is_so in zip(
            (DumpContent.RECORDS, DumpContent.MANIFEST, DumpContent.INDEXES, DumpContent.SNAPSHOT),
            (has_records, has_manifest, has_indexes, has_snapshot),
            strict=True,
        )
        if is_so
    ]
    if len(asked) > 1:
        raise typer.BadParameter("one of --records, --manifest, --indexes and --snapshot")
    if not {key_format, value_format} <= PLAIN_CODECS.keys():
        raise typer.BadParameter(
            "Avro and Protobuf values are shown by `bmq topic consume`", param_hint="--value-format"
        )
    settings = load(config, data=data, store=store).settings
    configure_logs("error", settings.log_format)  # what is wrong is said here
    bounds = OffsetBounds(from_offset) if to_offset is None else OffsetBounds(from_offset, to_offset)
    out = Dump(as_json, key_format, value_format, limit)
    asyncio.run(_dump(settings, what, partition, asked[0] if asked else DumpContent.BATCHES, bounds, out))
    if out.damages:
        raise DamageSeen("not everything could be read")


async def _dump(
    settings: Settings, what: str, partition: int | None, content: DumpContent, bounds: OffsetBounds, out: Dump
) -> None:
    async with opened_beside(settings) as store:
        try:
            if "/" in what:
                await dump_file(store, what.strip("/"), content, bounds, out)
                return
            for stored in await stored_partitions(store, what, partition):
                if not out.is_full:
                    await dump_partition(store, stored, content, bounds, out)
            if content is DumpContent.SNAPSHOT and not out.count:
                sys.stderr.write(f"bmq: {what} has no snapshot yet: all of its state is in its records\n")
        except FileMissing as error:
            raise UnknownFile(f"{error}; it may have been deleted or renamed meanwhile") from error


async def dump_file(store: SegmentStore, path: str, content: DumpContent, bounds: OffsetBounds, out: Dump) -> None:
    """A file by its path in the store, whatever `content` is if it is no segment. Raises UnknownFile, BmqError."""
    stored = await partition_of_path(store, path)
    match file_kind(path):
        case "manifest":
            _show_manifest(stored, manifest_document(await read_manifest(store, path)), out)
        case "index":
            _show_index(index_document(await read_index(store, path)), out)
        case "snapshot":
            _show_snapshot(stored, await read_snapshot(store, path), out)
        case _:
            segment = await segment_at(store, path)
            if not out.is_json and content is DumpContent.BATCHES:
                out.line(_BATCH_HEADING)
            await _dump_segment(store, stored, segment, content, bounds, out)


async def dump_partition(
    store: SegmentStore, stored: StoredPartition, content: DumpContent, bounds: OffsetBounds, out: Dump
) -> None:
    """Raises BmqError when the partition's manifest cannot be read; what cannot be read behind it is counted."""
    view = await view_of(store, stored)
    if view is None:
        return  # never written
    match content:
        case DumpContent.MANIFEST:
            if view.manifest is not None:
                _show_manifest(stored, manifest_document(view.manifest), out)
        case DumpContent.INDEXES:
            await _dump_indexes(store, view, bounds, out)
        case DumpContent.SNAPSHOT:
            await _dump_snapshot(store, stored, view, out)
        case _:
            if not out.is_json and content is DumpContent.BATCHES and not out.count:
                out.line(_BATCH_HEADING)
            for segment in view.segments:
                is_outside = segment.end_offset is not None and segment.end_offset <= bounds.start
                if segment.valid_bytes and not is_outside and not out.is_full:
                    await _dump_segment(store, stored, segment, content, bounds, out)


# -- Segments ----------------------------------------------------------------------------------------------------------


async def _dump_segment(
    store: SegmentStore,
    stored: StoredPartition,
    segment: SegmentView,
    content: DumpContent,
    bounds: OffsetBounds,
    out: Dump,
) -> None:
    try:
        async for batch in stored_batches(store, segment, bounds):
            if out.is_full:
                return
            if content is DumpContent.RECORDS:
                _show_records(stored, batch, bounds, out)
            else:
                _show_batch(batch_row(stored.partition, batch), out)
    except BadBatch as error:
        if segment.is_open:
            sys.stderr.write(f"bmq: {error}; the file is open, and its last batch may be under way\n")
        else:
            out.damage(str(error))
    except CorruptFile as error:
        out.damage(str(error))


def _show_batch(row: Mapping[str, Any], out: Dump) -> None:
    out.count += 1
    if out.is_json:
        out.json(row)
        return
    producer = "-" if row["producer_id"] is None else f"{row['producer_id']}/{row['producer_epoch']}"
    if row["base_sequence"] is not None:
        producer += f" #{row['base_sequence']}"
    marks = [word for word in ("transactional", "control") if row[f"is_{word}"]]
    out.line(
        [
            str(row["partition"]),
            f"[{row['base_offset']}, {row['last_offset'] + 1})",
            str(row["records"]),
            str(row["leader_epoch"]),
            str(row["bytes"]),
            row["codec"],
            text_of(row["max_timestamp_ms"]),
            producer,
            ",".join(marks) or "-",
            f"{row['path']}:{row['position']}",
        ]
    )


def _show_records(stored: StoredPartition, batch: StoredBatch, bounds: OffsetBounds, out: Dump) -> None:
    try:
        for record in iterate_records(batch.data, batch.place):
            if bounds.start <= record.offset < bounds.end and not out.is_full:
                out.count += 1
                _show_record(stored, batch, record, out)
    except BadValue as error:
        out.damage(str(error))
    except BmqError as error:
        out.damage(f"{batch.path} at {batch.position}: {error}")


def _show_record(stored: StoredPartition, batch: StoredBatch, record: Record, out: Dump) -> None:
    read = ReadRecord(
        stored.topic,
        stored.partition,
        record.offset,
        None if record.timestamp_ms < 0 else record.timestamp_ms,
        record.key,
        record.value,
        record.headers,
    )
    if batch.header.is_control:
        _show_state(read, _control_record(batch, record), out)
    elif stored.topic in STATE_TOPICS:
        _show_state(read, decode_state_record(stored.topic, record.key, record.value), out)
    else:
        keys, values = PLAIN_CODECS[out.key_format], PLAIN_CODECS[out.value_format]
        if out.is_json:
            sys.stdout.write(f"{json_line(read, keys, values)}\n")
        else:
            out.line(table_cells(read, keys, values))


def _control_record(batch: StoredBatch, record: Record) -> StateRecord:
    """Raises CorruptRecords."""
    kind = control_type_of(record)
    marker = parse_end_transaction_marker(batch.data, batch.place)
    name = "Control" if kind is None else f"Control {kind.name}"
    owner = {"producer_id": batch.header.producer_id, "producer_epoch": batch.header.producer_epoch}
    return StateRecord(name, owner, None if marker is None else {"coordinator_epoch": marker.coordinator_epoch})


def _show_state(read: ReadRecord, record: StateRecord, out: Dump) -> None:
    if out.is_json:
        out.json(
            {
                "topic": read.topic,
                "partition": read.partition,
                "offset": read.offset,
                "timestamp_ms": read.timestamp_ms,
                **record._asdict(),
            }
        )
        return
    place = [f"{read.topic}-{read.partition}", str(read.offset), text_of(read.timestamp_ms)]
    out.line([*place, *_state_cells(record)])


def _state_cells(record: StateRecord) -> list[str]:
    return [record.kind, *("-" if each is None else compact_json(each) for each in (record.key, record.value))]


# -- Other files -------------------------------------------------------------------------------------------------------


def _show_manifest(stored: StoredPartition, document: Mapping[str, Any], out: Dump) -> None:
    out.count += 1
    if out.is_json:
        out.json({"topic": stored.topic, "partition": stored.partition, **document})
        return
    producers = document["producers"]
    _blank_between(out)
    print_head(
        (
            ("partition", f"{stored.topic}-{stored.partition}"),
            ("leader epoch", document["leader_epoch"]),
            ("offsets", f"[{document['log_start_offset']}, {document['end_offset']})"),
            ("next roll", document["next_roll"]),
            ("epochs", [f"{each['leader_epoch']} from {each['start_offset']}" for each in document["epoch_history"]]),
            ("producers", "in the last index" if producers is None else len(producers)),
            (
                "aborted transactions",
                len(document["aborted"]) + sum(each["count"] for each in document["aborted_files"]),
            ),
            *(
                [("files of these", [json.dumps(each) for each in document["aborted_files"]])]
                if document["aborted_files"]
                else []
            ),
            ("cuts", [json.dumps(cut) for cut in document["cuts"]]),
            ("snapshots", [json.dumps(each) for each in document["snapshots"]]),
        )
    )
    if document["extents"]:
        sys.stdout.write("\n")
        print_rows(_EXTENTS, document["extents"], Output.TABLE)


async def _dump_indexes(store: SegmentStore, view: PartitionView, bounds: OffsetBounds, out: Dump) -> None:
    extents = view.manifest.extents if view.manifest is not None else ()
    index_epochs = {(extent.leader_epoch, extent.roll): extent.index_epoch for extent in extents}
    for segment in view.segments:
        key = segment.leader_epoch, segment.roll
        if out.is_full or segment.end_offset is None or segment.end_offset <= bounds.start:
            continue
        path = view.paths.index(*key, index_epochs.get(key, segment.leader_epoch))
        try:
            document = index_document(await read_index(store, path))
        except CorruptFile as error:
            out.damage(f"{path}: {error}")
        except FileMissing:
            out.damage(f"{path} is not there; an owner makes it again from the segment")
        else:
            out.count += 1
            _show_index({"path": path, **document}, out)


def _show_index(document: Mapping[str, Any], out: Dump) -> None:
    if out.is_json:
        out.json(document)
        return
    _blank_between(out)
    summary, producers = document["summary"], document["producers"]
    shown = {
        "index": document.get("path"),
        "segment": f"epoch {summary['leader_epoch']}, roll {summary['roll']}",
        "offsets": f"[{summary['base_offset']}, {summary['end_offset']})",
        "bytes": f"{summary['valid_bytes']} of {summary['closed_bytes']}",
        "greatest time": f"{text_of(summary['max_timestamp_ms'])} at {summary['max_timestamp_position']}",
        "aborted transactions": len(document["aborted"]),
        "producers": None if producers is None else len(producers),
    }
    print_head((name, cell_text(value)) for name, value in shown.items() if value is not None)
    sys.stdout.write("\n")
    print_rows(_ENTRIES, document["entries"], Output.TABLE)


async def _dump_snapshot(store: SegmentStore, stored: StoredPartition, view: PartitionView, out: Dump) -> None:
    snapshots = view.manifest.snapshots if view.manifest is not None else ()
    if not snapshots:
        return
    newest = max(snapshots, key=lambda snapshot: snapshot.next_offset)
    _show_snapshot(stored, await read_snapshot(store, view.paths.snapshot(newest.leader_epoch, newest.number)), out)


def _show_snapshot(stored: StoredPartition, data: bytes, out: Dump) -> None:
    if stored.topic not in STATE_TOPICS:
        raise UnknownFile(f"{stored.topic} is no internal topic, whose snapshots could be decoded")
    try:
        for record in snapshot_records(stored.topic, data):
            if out.is_full:
                return
            out.count += 1
            if out.is_json:
                out.json({"topic": stored.topic, "partition": stored.partition, **plain(record)})
            else:
                out.line([f"{stored.topic}-{stored.partition}", *_state_cells(record)])
    except BmqError as error:
        out.damage(f"the snapshot of {stored.topic}-{stored.partition}: {error}")


def _blank_between(out: Dump) -> None:
    if out.count > 1:
        sys.stdout.write("\n")
