"""`bmq topic consume` and `bmq topic produce`: records on a terminal and in pipes."""

from __future__ import annotations

import csv
import os
import stat
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final

import typer

from bmq.cli.kafka.completion import complete_topics
from bmq.cli.kafka.last_records import with_last_records
from bmq.cli.kafka.model import KafkaFailed, NotFound, Partition, Topic
from bmq.cli.kafka.offset_ranges import offset_ranges
from bmq.cli.kafka.options import (
    DEFAULT_BOOTSTRAP,
    AsCsv,
    Bootstrap,
    DryRun,
    KafkaSettings,
    connected,
    settings_of,
)
from bmq.cli.kafka.record_lines import (
    CSV_NAMES,
    LineForm,
    NewRecord,
    ReadRecord,
    csv_row,
    from_json_line,
    from_plain_line,
    json_line,
    numbered,
    place_of,
    table_cells,
)
from bmq.cli.kafka.rows import counted, printable
from bmq.cli.kafka.schema_codec import schema_codec
from bmq.cli.kafka.value_format import BadValue, Codec, ValueFormat
from bmq.cli.progress import JobProgress
from bmq.spark.jobs.time_text import milliseconds

if TYPE_CHECKING:
    pass

LINE_BYTES_MAX: Final = 64 << 20
_COMPLAINTS_MAX: Final = 10
_FORMATS: Final = "|".join(ValueFormat)
_SCHEMA_FILE: Final = "Avro schema (.avsc), or protoc's descriptor set"

Topics = Annotated[list[str], typer.Argument(metavar="TOPIC…", help="Names of topics", autocompletion=complete_topics)]
TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic", autocompletion=complete_topics)]
KeyFormat = Annotated[ValueFormat, typer.Option("--key-format", metavar=_FORMATS, help="Format of keys")]
ValuesFormat = Annotated[ValueFormat, typer.Option("--value-format", metavar=_FORMATS, help="Format of values")]
KeySchema = Annotated[Path | None, typer.Option("--key-schema", metavar="FILE", help=_SCHEMA_FILE)]
ValueSchema = Annotated[Path | None, typer.Option("--value-schema", metavar="FILE", help=_SCHEMA_FILE)]
KeyMessage = Annotated[str, typer.Option("--key-message", metavar="NAME", help="Of Protobuf: full name of the message")]
ValueMessage = Annotated[
    str, typer.Option("--value-message", metavar="NAME", help="Of Protobuf: full name of the message")
]


def consume(
    context: typer.Context,
    topics: Topics,
    partitions: Annotated[
        list[int] | None, typer.Option("--partition", "-p", min=0, metavar="N", help="Only these; may be repeated")
    ] = None,
    from_time: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Records from this time: 2026-11-24T10:00, milliseconds, -2h")
    ] = "",
    to_time: Annotated[str, typer.Option("--to", metavar="TIME", help="Records before this time")] = "",
    from_offset: Annotated[
        int | None, typer.Option("--from-offset", min=0, metavar="N", help="Records from this offset")
    ] = None,
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", min=0, metavar="N", help="Records before this offset")
    ] = None,
    last: Annotated[
        int | None, typer.Option("--last", min=0, metavar="N", help="Only the last N records of each partition")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, metavar="N", help="At most N records")] = None,
    is_followed: Annotated[bool, typer.Option("--follow", "-f", help="Wait at the end for new records")] = False,
    group: Annotated[
        str,
        typer.Option(
            "--group", "-g", metavar="NAME", help="Read as a member of this group, and commit the shown offsets"
        ),
    ] = "",
    is_uncommitted: Annotated[
        bool, typer.Option("--uncommitted", help="Include records of open and aborted transactions")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object on each line; `produce --json` takes it")
    ] = False,
    as_csv: AsCsv = False,
    as_values: Annotated[bool, typer.Option("--values", help="Only values, each on a line of its own")] = False,
    as_raw: Annotated[bool, typer.Option("--raw", help="Only values, byte by byte, with nothing between")] = False,
    key_format: KeyFormat = ValueFormat.TEXT,
    value_format: ValuesFormat = ValueFormat.TEXT,
    key_schema: KeySchema = None,
    value_schema: ValueSchema = None,
    key_message: KeyMessage = "",
    value_message: ValueMessage = "",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    kafka: KafkaSettings = None,
) -> None:
    """Show all present records, or a range of offsets or times. A group continues at its committed offsets."""
    if as_json + as_csv + as_values + as_raw > 1:
        raise typer.BadParameter("one of --json, --csv, --values and --raw")
    has_range = bool(from_time or to_time) or (from_offset, to_offset, last) != (None, None, None)
    if group and (has_range or partitions):
        raise typer.BadParameter(
            "a group has its own offsets and partitions; see `bmq group reset`", param_hint="--group"
        )
    if last is not None and (from_time or from_offset is not None):
        raise typer.BadParameter("it says where to begin; so do --from and --from-offset", param_hint="--last")
    if is_followed and (to_time or to_offset is not None):
        raise typer.BadParameter("there is nothing to wait for with an end", param_hint="--follow")
    keys = schema_codec(key_format, key_schema, key_message, None, "--key")
    values = schema_codec(value_format, value_schema, value_message, None, "--value")
    client = connected(context, bootstrap, kafka)
    found = client.topics(topics)
    if missing := [name for name in topics if name not in found]:
        raise NotFound(f"there is no topic {', '.join(map(repr, missing))}")
    from bmq.cli.kafka.reading import read_as_member, read_ranges

    output = _Output(_shower(keys, values, as_json=as_json, as_csv=as_csv, as_values=as_values, as_raw=as_raw))
    if group:
        reading = read_as_member(
            client, list(found), group, is_committed=not is_uncommitted, is_followed=is_followed, limit=limit
        )
        with closing(reading):
            for records in reading:
                output.show(records)
    else:
        wanted = chosen_partitions(found.values(), partitions)
        now_ms = _now_ms()
        ranges = offset_ranges(
            client,
            wanted,
            from_ms=milliseconds(from_time, now_ms=now_ms) if from_time else None,
            to_ms=milliseconds(to_time, now_ms=now_ms) if to_time else None,
            from_offset=from_offset,
            to_offset=to_offset,
            is_committed=not is_uncommitted,
        )
        if last is not None:
            ranges = with_last_records(
                ranges, last, lambda windows: _offsets_of(read_ranges(client, windows, is_committed=not is_uncommitted))
            )
        bounds = {at: (start, None if is_followed else end) for at, (start, end) in ranges.items()}
        total = sum(max(0, end - start) for start, end in ranges.values())
        reading = read_ranges(client, bounds, is_committed=not is_uncommitted, limit=limit)
        with closing(reading), _progress("consume", is_shown=not is_followed and limit is None) as show_progress:
            for records in reading:
                output.show(records)
                show_progress(min(output.count, total), total, "offsets")
    if output.bad_count:
        raise KafkaFailed(f"{counted(output.bad_count, 'fault')} in {counted(output.count, 'record')}")


def produce(
    context: typer.Context,
    topic: TopicName,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A record on each line [standard input]", show_default=False)
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Lines are JSON objects as `consume --json` writes them")
    ] = False,
    as_whole: Annotated[bool, typer.Option("--whole", help="The whole input is one value")] = False,
    key: Annotated[str | None, typer.Option("--key", "-k", metavar="TEXT", help="Key of all records")] = None,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-K", metavar="TEXT", help="Lines are KEY, TEXT, VALUE")
    ] = None,
    null_value: Annotated[
        str | None,
        typer.Option("--null-value", metavar="TEXT", help="Text that means no value (a tombstone)"),
    ] = None,
    headers: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="Header of all records; may be repeated"),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition", "-p", min=0, metavar="N", help="Write all records into this partition [by the key's hash]"
        ),
    ] = None,
    keeps_partitions: Annotated[
        bool, typer.Option("--keep-partitions", help="With --json: into the partitions that the lines name")
    ] = False,
    timestamp: Annotated[str, typer.Option("--timestamp", metavar="TIME", help="Timestamp of all records [now]")] = "",
    key_format: KeyFormat = ValueFormat.TEXT,
    value_format: ValuesFormat = ValueFormat.TEXT,
    key_schema: KeySchema = None,
    value_schema: ValueSchema = None,
    key_message: KeyMessage = "",
    value_message: ValueMessage = "",
    key_schema_id: Annotated[
        int | None,
        typer.Option(
            "--key-schema-id", min=0, max=2**31 - 1, metavar="N", help="With --key-format avro-id or protobuf-id"
        ),
    ] = None,
    value_schema_id: Annotated[
        int | None,
        typer.Option(
            "--value-schema-id", min=0, max=2**31 - 1, metavar="N", help="With --value-format avro-id or protobuf-id"
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    is_dry_run: DryRun = False,
    kafka: KafkaSettings = None,
) -> None:
    """Write records, each acknowledged by all replicas. With --dry-run the input is only read and checked."""
    if as_json + as_whole > 1:
        raise typer.BadParameter("--json or --whole, not both")
    if key_separator is not None and (as_json or as_whole or key is not None or not key_separator):
        raise typer.BadParameter(
            "it separates keys in plain lines, which have no --key then", param_hint="--key-separator"
        )
    if keeps_partitions and not as_json:
        raise typer.BadParameter("only lines of --json name partitions", param_hint="--keep-partitions")
    form = LineForm(
        keys=schema_codec(key_format, key_schema, key_message, key_schema_id, "--key", is_written=True),
        values=schema_codec(value_format, value_schema, value_message, value_schema_id, "--value", is_written=True),
        key_separator=key_separator,
        key=key,
        null_value=null_value,
        headers=[(name, value.encode("utf-8", "surrogateescape")) for name, value in _headers(headers)],
        partition=partition,
        timestamp_ms=milliseconds(timestamp, now_ms=_now_ms()) if timestamp else None,
        keeps_partitions=keeps_partitions,
    )
    client = connected(context, bootstrap, kafka)
    if topic not in client.topics([topic]):
        raise NotFound(f"there is no topic {topic!r}; `bmq topic create {topic}` makes it")
    with _opened(file) as (source, size_bytes), _progress("produce", is_shown=size_bytes is not None) as show_progress:
        read_bytes = 0

        def seen(line: bytes) -> bytes:
            nonlocal read_bytes
            read_bytes += len(line)
            show_progress(read_bytes, size_bytes or 0, "bytes")
            return line

        lines = _whole(source) if as_whole else _lines(source)
        records = _records(map(seen, lines), from_json_line if as_json else from_plain_line, form, is_whole=as_whole)
        if is_dry_run:
            sys.stdout.write(f"{counted(sum(1 for _ in records), 'record')} could be written to {topic}\n")
            return
        from bmq.cli.kafka.writing import Writer

        writer = Writer(client, topic)
        try:
            for record in records:
                writer.write(record)
            writer.flush()
        except KafkaFailed as error:
            _settle(writer)
            raise KafkaFailed(f"{error}; {writer.written_count} written before", error.code) from error
    sys.stdout.write(f"{counted(writer.written_count, 'record')} written to {topic}\n")


# -- What is shown -----------------------------------------------------------------------------------------------------


class _Output:
    """Shows records, and complains on standard error about what is wrong with some. `count`: with those."""

    def __init__(self, show: Callable[[ReadRecord], None]) -> None:
        self._show = show
        self.count = 0
        self.bad_count = 0

    def show(self, records: Sequence[ReadRecord]) -> None:
        for record in records:
            self.count += 1
            if record.fault:
                self._complain(f"{place_of(record)}: {record.fault}")
            try:
                self._show(record)
            except BadValue as error:
                self._complain(str(error))
        if records:
            sys.stdout.flush()

    def _complain(self, sentence: str) -> None:
        self.bad_count += 1
        if self.bad_count <= _COMPLAINTS_MAX:
            sys.stderr.write(f"bmq: {sentence}\n")


def _shower(
    keys: Codec, values: Codec, *, as_json: bool, as_csv: bool, as_values: bool, as_raw: bool
) -> Callable[[ReadRecord], None]:
    write = sys.stdout.write
    if as_json:
        return lambda record: _written(write(f"{json_line(record, keys, values)}\n"))
    if as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(CSV_NAMES)
        return lambda record: _written(writer.writerow(csv_row(record, keys, values)))
    if as_raw:
        sys.stdout.flush()
        return lambda record: _written(sys.stdout.buffer.write(record.value or b""))
    if as_values:
        return lambda record: _written(
            write(f"{table_cells(record, keys, values)[4] if record.value is not None else ''}\n")
        )
    return lambda record: _written(write("\t".join(map(printable, table_cells(record, keys, values))) + "\n"))


def _written(_: object) -> None:
    return None


@contextmanager
def _progress(what: str, *, is_shown: bool) -> Iterator[Callable[[int, int, str], None]]:
    """A bar where it does not get between the records: they go elsewhere, and somebody looks at standard error."""
    if not is_shown or sys.stdout.isatty() or not sys.stderr.isatty():
        yield lambda done, total, unit: None
        return
    with JobProgress(what) as progress:
        yield progress.show


# -- What is read ------------------------------------------------------------------------------------------------------


def chosen_partitions(topics: Iterable[Topic], wanted: Sequence[int] | None) -> list[Partition]:
    """All of each topic, or these numbers of each, in order. Raises NotFound."""
    found = []
    for topic in topics:
        numbers = {each.partition for each in topic.partitions}
        if missing := sorted(set(wanted or ()) - numbers):
            raise NotFound(f"topic {topic.name!r} has no partition {missing[0]}; it has {len(numbers)}")
        found += [(topic.name, number) for number in sorted(set(wanted) if wanted else numbers)]
    return found


def _offsets_of(reading: Generator[list[ReadRecord], None, None]) -> Iterator[tuple[Partition, int]]:
    with closing(reading):
        for records in reading:
            yield from (((record.topic, record.partition), record.offset) for record in records)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


# -- What is written ---------------------------------------------------------------------------------------------------


@contextmanager
def _opened(file: Path | None) -> Iterator[tuple[IO[bytes], int | None]]:
    """The input, and its size if it is a file. Raises KafkaFailed."""
    if file is None or str(file) == "-":
        yield sys.stdin.buffer, None
        return
    try:
        opened = file.open("rb")
    except OSError as error:
        raise KafkaFailed(f"cannot read {file}: {error.strerror or error}") from None
    with opened:
        status = os.fstat(opened.fileno())
        yield opened, status.st_size if stat.S_ISREG(status.st_mode) else None


def _lines(source: IO[bytes]) -> Iterator[bytes]:
    """Raises BadValue for a line that is too long to hold."""
    number = 0
    while line := source.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > LINE_BYTES_MAX:
            raise BadValue(f"line {number} has more than {LINE_BYTES_MAX} bytes")
        yield line


def _whole(source: IO[bytes]) -> Iterator[bytes]:
    data = source.read(LINE_BYTES_MAX + 1)
    if len(data) > LINE_BYTES_MAX:
        raise BadValue(f"the input has more than {LINE_BYTES_MAX} bytes")
    yield data


def _records(
    lines: Iterable[bytes], parse: Callable[[bytes, LineForm], NewRecord], form: LineForm, *, is_whole: bool
) -> Iterator[NewRecord]:
    """Raises BadValue, which names the line."""
    for number, line in enumerate(lines, 1) if is_whole else numbered(lines):
        try:
            yield parse(line, form)
        except BadValue as error:
            raise BadValue(str(error) if is_whole else f"line {number}: {error}") from None


def _headers(pairs: Sequence[str] | None) -> list[tuple[str, str]]:
    """As given: a name may come more than once."""
    return [each for pair in pairs or () for each in settings_of([pair], "--header").items()]


def _settle(writer: Any) -> None:
    """Wait for what is on its way, so that the number of written records is true."""
    try:
        writer.flush()
    except KafkaFailed:
        return
