"""`bmq group explain`: why members of a group get nothing, partition by partition."""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer
from rich.table import Table

from bmq.cli.cluster_client import ClusterClient
from bmq.cli.group_rest import explanation_at
from bmq.cli.kafka.options import AsJson
from bmq.cli.kafka.rows import Column, print_head, printable
from bmq.cli.rest_options import DEFAULT_URL, Rest, with_login
from bmq.cli.terminal import add_row, print_json, print_table

_FREE: Final = ("deliverable", "behind")
_PARTITIONS: Final = (
    Column("topic"),
    Column("partition"),
    Column("next_offset", "next"),
    Column("high_watermark", "end"),
    Column("lag"),
    Column("locked"),
)


@with_login
def explain(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="A share group or a consumer group")],
    topic: Annotated[str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="Only of this topic")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Largest number of partitions")] = 1_000,
    rest: Rest = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Say why a group gets no records: no members, nothing new, all locked and by whom, back-off, dead letters that wait, an open transaction, an owner
    away.
    """
    with ClusterClient(rest) as client:
        found = explanation_at(client, group, topic=topic, limit=limit)
    if as_json:
        print_json(found)
        return
    partitions = found["partitions"]
    print_head(
        (
            ("group", printable(found["group"])),
            ("kind", found["kind"]),
            ("state", found["state"]),
            ("subscription", found["subscription"]),
            ("members", len(found["members"])),
            ("partitions", found["partition_count"]),
            ("that get nothing", sum(one["reasons"][0]["code"] not in _FREE for one in partitions if one["reasons"])),
        )
    )
    sys.stdout.write("\n")
    table = Table("topic", "partition", "next", "end", "lag", "locked", "why", box=None, pad_edge=False)
    for one in partitions:
        cells = [printable(column.text(one[column.name])) for column in _PARTITIONS]
        add_row(table, *cells, printable("; ".join(reason["text"] for reason in one["reasons"])))
    print_table(table)
    if found["next_skip"] is not None:
        sys.stderr.write(f"there are more than these {len(partitions)}; see --limit and --topic\n")
