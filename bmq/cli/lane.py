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
from bmq.log.lanes.record_lane import DEFAULT_HEADER

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
    for one in found["intervals"]:
        if one.get("waits"):
            place = f"{one['topic']}-{one['partition']}"
            sys.stdout.write(printable(f"the lane {one['lane']} waits in {place}: {one['waits']}") + "\n")
    for one in found["untaken"]:
        place = f"{one['topic']}-{one['partition']}"
        sys.stdout.write(printable(f"the lane {one['lane']} is not taken in {place}: {one['reason']}") + "\n")
    if found["count"] > len(found["intervals"]):
        sys.stderr.write(f"there are more than these {limit} intervals; see --limit\n")


@lane_app.command("explain")
@with_login
def explain_lane(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The base group, without @ and a lane")],
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic that the record is in")],
    headers: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header of the record")
    ] = None,
    lane: Annotated[str | None, typer.Option("--lane", help="Short for --header x-lane=LANE")] = None,
    partition: Annotated[int, typer.Option(min=0, help="The partition that the record is in")] = 0,
    offset: Annotated[int | None, typer.Option(min=0, help="Where the record is [the next one]")] = None,
    rest: Rest = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Say which group gets a record with these headers, and why."""
    named = [(DEFAULT_HEADER, lane)] if lane is not None else []
    for text in headers or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"{text[:100]} is not NAME=VALUE", param_hint="--header")
        named.append((name, value))
    body = {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "headers": [{"name": name, "value": value} for name, value in named],
    }
    with ClusterClient(rest) as client:
        found = client.change("POST", f"/v1/groups/{quoted(group)}/lanes/explain", body)
    if as_json:
        print_json(found)
        return
    for name, said in (
        ("lane", found["lane"] or "none"),
        ("group", f"{found['group']} in {found['topic']}"),
        ("why", found["why"]),
    ):
        sys.stdout.write(f"{name:5}  {printable(said)}\n")
