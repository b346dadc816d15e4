"""How `bmq spark` shows progress and results: bars on a terminal, lines elsewhere, tables."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from bmq.cli.cluster_output import rate_text
from bmq.cli.terminal import add_row, print_table
from bmq.spark.jobs.time_text import text_of

if TYPE_CHECKING:
    from bmq.spark.jobs.find import FoundRecord
    from bmq.spark.jobs.ranges import OffsetRange
    from bmq.spark.jobs.stats_report import StatsReport
    from bmq.spark.jobs.verify_report import VerifyReport

_FINDINGS_SHOWN_MAX: Final = 50
_CONTENT_CHARACTERS_MAX: Final = 60


def bytes_text(count: int | None) -> str:
    """12.3 MB."""
    return "-" if count is None else rate_text(float(count))


def print_ranges(ranges: list[OffsetRange]) -> None:
    table = Table("partition", "from offset", "to offset", "offsets", box=None, pad_edge=False)
    for each in ranges:
        add_row(table, each.name, str(each.start_offset), str(each.end_offset), str(each.offset_count))
    print_table(table)
    sys.stdout.write(f"{sum(each.offset_count for each in ranges)} offsets in {len(ranges)} partitions\n")


def print_stats(report: StatsReport) -> None:
    names = ("partition", "records", "bytes", "keys", "no key", "no value", "stored", "codecs", "from", "to")
    for topic in report.to_json()["topics"]:
        sys.stdout.write(
            f"{topic['topic']}: about {topic['distinct_keys'] or 0} different keys; "
            f"the busiest partition has {topic['skew']:.2f} times the mean\n"
        )
        table = Table(*names, box=None, pad_edge=False)
        for each in topic["partitions"]:
            codecs = each["codecs"]
            stored = None if codecs is None else sum(counts["stored_bytes"] for counts in codecs.values())
            add_row(
                table,
                str(each["partition"]),
                str(each["records"]),
                bytes_text(each["bytes"]),
                str(each["distinct_keys"] or 0),
                str(each["records"] - each["keyed"]),
                str(each["tombstones"]),
                bytes_text(stored),
                "-" if codecs is None else " ".join(codecs) or "-",
                text_of(each["first_timestamp_ms"]),
                text_of(each["last_timestamp_ms"]),
            )
        print_table(table)
        hours = Table("hour", "records", "bytes", "skew", box=None, pad_edge=False)
        for hour in topic["hours"]:
            add_row(
                hours,
                text_of(hour["hour_ms"])[:16],
                str(sum(each["records"] for each in hour["partitions"])),
                bytes_text(sum(each["bytes"] for each in hour["partitions"])),
                f"{hour['skew']:.2f}",
            )
        print_table(hours)


def print_found(records: list[FoundRecord]) -> None:
    table = Table("partition", "offset", "time", "key", "value", "headers", box=None, pad_edge=False)
    for record in records:
        headers = " ".join(f"{name}={_content(value)}" for name, value in record.headers)
        add_row(
            table,
            f"{record.topic}-{record.partition}",
            str(record.offset),
            text_of(record.timestamp_ms),
            _content(record.key),
            _content(record.value),
            headers,
        )
    print_table(table)


def print_verified(report: VerifyReport) -> None:
    names = ("partition", "offsets", "segments", "batches", "records", "bytes", "replicas", "findings")
    table = Table(*names, box=None, pad_edge=False)
    for each in report.partitions:
        gone = f" ({each.gone} deleted meanwhile)" if each.gone else ""
        add_row(
            table,
            f"{each.topic}-{each.partition}",
            "-" if each.base_offset is None else f"[{each.base_offset}, {each.end_offset})",
            f"{each.segments}{gone}",
            str(each.batches),
            str(each.records),
            bytes_text(each.bytes),
            "-" if each.replicas is None else str(each.replicas),
            str(each.findings),
        )
    print_table(table)
    if report.is_clean:
        sys.stdout.write("nothing is wrong\n")
        return
    found = Table("what", "partition", "offset", "file", "at byte", "node", "why", box=None, pad_edge=False)
    for finding in report.findings[:_FINDINGS_SHOWN_MAX]:
        add_row(
            found,
            finding.kind.value,
            f"{finding.topic}-{finding.partition}",
            _number(finding.offset),
            finding.file,
            _number(finding.position_bytes),
            finding.node or "-",
            finding.reason,
        )
    print_table(found)
    if report.finding_count > _FINDINGS_SHOWN_MAX:
        sys.stdout.write(
            f"… and {report.finding_count - _FINDINGS_SHOWN_MAX} more; --json lists the first of each file\n"
        )


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _content(value: bytes | None) -> str:
    if value is None:
        return "-"
    text = value.decode("utf-8", "backslashreplace")
    return text if len(text) <= _CONTENT_CHARACTERS_MAX else f"{text[: _CONTENT_CHARACTERS_MAX - 1]}…"


def print_compaction_plan(planned: list[dict[str, Any]]) -> None:
    table = Table("partition", "segments", "bytes", "from offset", "dirty from", "to offset", box=None, pad_edge=False)
    for each in planned:
        add_row(
            table,
            f"{each['topic']}-{each['partition']}",
            str(each["segments"]),
            bytes_text(each["bytes"]),
            *(
                "-" if each[name] is None else str(each[name])
                for name in ("from_offset", "first_dirty_offset", "end_offset")
            ),
        )
    print_table(table)


def print_compacted(done: list[dict[str, Any]]) -> None:
    table = Table("partition", "records", "left", "bytes", "left", "clean up to", box=None, pad_edge=False)
    for each in done:
        add_row(
            table,
            f"{each['topic']}-{each['partition']}",
            *(str(each[name]) for name in ("records_read", "records_kept")),
            *(bytes_text(each[name]) for name in ("bytes_read", "bytes_kept")),
            str(each["first_dirty_offset"]) if each["groups"] else "nothing to do",
        )
    print_table(table)
