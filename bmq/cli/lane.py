"""`bmq lane`: which swimlanes of a group are taken, through the REST address of any node."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.table import Table

from bmq.cli.cluster_client import ClusterClient
from bmq.cli.cluster_output import quoted
from bmq.cli.kafka.options import AsJson
from bmq.cli.kafka.rows import printable
from bmq.cli.rest_options import DEFAULT_URL, Rest, with_login
from bmq.cli.terminal import add_row, print_json, print_table

lane_app = typer.Typer(no_args_is_help=True, help="Swimlanes: consumers that take the records of one lane.")


@lane_app.callback()
def lanes() -> None:
    """Swimlanes: consumers that take the records of one lane."""


@lane_app.command("list")
@with_login
def list_lanes(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The base group, without @ and a lane")],
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Largest number of intervals")] = 1_000,
    rest: Rest = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """The offsets in which each lane is taken, what its group has had, how much was copied, and why a lane is not taken."""
    with ClusterClient(rest) as client:
        found = client.get(f"/v1/groups/{quoted(group)}/lanes", limit=limit)
    if as_json:
        print_json(found)
        return
    table = Table("topic", "partition", "lane", "start", "end", "kept", "copies", box=None, pad_edge=False)
    for one in found["intervals"]:
        cells = [one["topic"], one["partition"], one["lane"], one["start"], one["end"], one["kept"]]
        add_row(table, *("-" if cell is None else printable(str(cell)) for cell in cells), str(one["copied_records"]))
    print_table(table)
    for one in found["untaken"]:
        place = f"{one['topic']}-{one['partition']}"
        sys.stdout.write(printable(f"the lane {one['lane']} is not taken in {place}: {one['reason']}") + "\n")
    if found["count"] > len(found["intervals"]):
        sys.stderr.write(f"there are more than these {limit} intervals; see --limit\n")
