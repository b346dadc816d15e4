"""`bmq log`: shows the content of the store, without a server."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bmq.cli.log_dump import dump
from bmq.cli.log_files import stored_partitions
from bmq.cli.loss import describe_loss
from bmq.cli.operator_holder import operator_holder
from bmq.cli.setting_options import ConfigFile, Data, StoreUrl, load
from bmq.dataclass import dataclass
from bmq.log.copied_root import adopt_root
from bmq.log.damage import accept
from bmq.log.partition_view import SegmentView, locate_segments, view_partition
from bmq.log.root import read_root
from bmq.log.store import FileMissing, SegmentStore
from bmq.server.logs import configure_logs
from bmq.server.settings import Settings
from bmq.server.stores import opened_beside

log_app = typer.Typer(
    no_args_is_help=True,
    help="Show the log in the store, with or without a server; accept the loss of damaged files, or a copied root.",
)

log_app.command("dump")(dump)

_LINE_CHARACTERS_MAX = 200  # each segment keeps its own line, however narrow the terminal is


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """One line of `bmq log segments`. `nodes`: `host:port` of each DataNode that holds it; none on a local directory."""

    partition: int
    leader_epoch: int
    roll: int
    base_offset: int | None
    end_offset: int | None
    valid_bytes: int
    file_bytes: int
    is_open: bool
    path: str
    nodes: tuple[str, ...]


@log_app.command("segments")
def segments(
    topic: Annotated[str, typer.Argument(help="Name of the topic")],
    partition: Annotated[int | None, typer.Option(help="Only this partition")] = None,
    data: Data = None,
    store: StoreUrl = None,
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document instead of a table")] = False,
) -> None:
    """Each segment of a topic: offsets, size, and the DataNodes that hold it."""
    settings = load(config, data=data, store=store).settings
    rows = asyncio.run(_segments(settings, topic, partition))
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        _print(rows)


@log_app.command("accept-loss")
def accept_loss(
    partition: Annotated[str, typer.Argument(help="Directory of the partition, as the error names it: topics/ID/N")],
    end: Annotated[
        int | None,
        typer.Option(min=0, metavar="OFFSET", help="Accept this end of the log, though later offsets were seen"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be lost, and change nothing")] = False,
    data: Data = None,
    store: StoreUrl = None,
    config: ConfigFile = None,
) -> None:
    """Accept the loss of damaged files that keep a partition offline (rule 25 of docs/FENCING.md)."""
    settings = load(config, data=data, store=store).settings
    configure_logs("error", settings.log_format)  # findings are in the report
    for line in asyncio.run(_accept_loss(settings, partition.strip("/"), end, is_dry_run=dry_run)):
        typer.echo(line)


@log_app.command("adopt-copy")
def adopt_copy(
    data: Data = None,
    store: StoreUrl = None,
    config: ConfigFile = None,
) -> None:
    """Make a copied root servable: name its files by their new ids. Before any server starts on the copy."""
    settings = load(config, data=data, store=store).settings
    configure_logs("error", settings.log_format)
    typer.echo(asyncio.run(_adopt_copy(settings)))


async def _adopt_copy(settings: Settings) -> str:
    async with opened_beside(settings) as store:
        await read_root(store)
        holder = operator_holder()
        partitions = files = indexes = 0
        async for adopted in adopt_root(store, holder=holder):
            partitions += 1
            files += adopted.files
            indexes += adopted.indexes
    return f"{partitions} partitions: {files} files have new ids in manifests, and {indexes} indexes were written anew"


async def _accept_loss(settings: Settings, partition: str, end_offset: int | None, *, is_dry_run: bool) -> list[str]:
    async with opened_beside(settings) as store:
        report = await describe_loss(store, partition, end_offset)
        if is_dry_run or not report.damages:
            return report.lines
        holder = operator_holder()
        for damage in report.damages:
            await accept(store, damage, holder=holder, now_ms=time.time_ns() // 1_000_000)
    return [
        *report.lines,
        f"accepted, and written down in {partition}: {', '.join(damage.name for damage in report.damages)}",
        "start the server again; in a cluster give the partition a new leader epoch instead: "
        "kafka-leader-election.sh --election-type unclean --topic TOPIC --partition N "
        "(controllers try the metadata log again by themselves)",
    ]


async def _segments(settings: Settings, name: str, partition: int | None) -> list[SegmentRow]:
    async with opened_beside(settings) as store:
        rows: list[SegmentRow] = []
        for stored in await stored_partitions(store, name, partition):
            try:
                view = await view_partition(store, stored.directory)
            except FileMissing:
                continue  # assigned but never written
            rows += await _rows(store, stored.partition, view.segments)
        return rows


async def _rows(store: SegmentStore, partition: int, views: tuple[SegmentView, ...]) -> list[SegmentRow]:
    return [
        SegmentRow(
            partition,
            view.leader_epoch,
            view.roll,
            view.base_offset,
            view.end_offset,
            view.valid_bytes,
            view.file_bytes,
            view.is_open,
            view.path,
            nodes,
        )
        for view, nodes in zip(views, await locate_segments(store, views), strict=True)
    ]


def _print(rows: list[SegmentRow]) -> None:
    table = Table("partition", "epoch", "roll", "offsets", "bytes", "state", box=None, pad_edge=False)
    table.add_column("DataNodes", no_wrap=True)
    for row in rows:
        base = "-" if row.base_offset is None else str(row.base_offset)
        end = "…" if row.end_offset is None else str(row.end_offset)
        cut = f" ({row.file_bytes - row.valid_bytes} cut)" if row.file_bytes > row.valid_bytes else ""
        table.add_row(
            str(row.partition),
            str(row.leader_epoch),
            str(row.roll),
            f"[{base}, {end})".replace("[", "\\["),
            f"{row.valid_bytes}{cut}",
            "open" if row.is_open else "closed",
            " ".join(row.nodes) or "(this directory)",
        )
    Console(width=_LINE_CHARACTERS_MAX).print(table)
