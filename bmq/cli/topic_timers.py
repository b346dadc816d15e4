"""`bmq topic timers`: records of a topic with delay that wait, and cancelling one, through the REST address of any node."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from bmq.cli.cluster_client import ClusterClient
from bmq.cli.cluster_output import quoted
from bmq.cli.kafka.completion import complete_topics
from bmq.cli.kafka.options import AsJson
from bmq.cli.kafka.rows import Column, Output, counted, print_head, print_rows, printable
from bmq.cli.paged_answers import all_pages
from bmq.cli.rest_options import DEFAULT_URL, Rest, with_login
from bmq.cli.terminal import print_json
from bmq.spark.jobs.time_text import milliseconds

timers_app = typer.Typer()
"""One command, of `bmq topic`."""
_PAGE: Final = 1_000
_PARTITIONS: Final = (
    Column("partition"),
    Column("pending"),
    Column("next_due", "next due"),
    Column("overdue_s", "overdue (s)"),
    Column("problem"),
)
_TIMERS: Final = (Column("id"), Column("offset"), Column("due"))

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic", autocompletion=complete_topics)]
Number = Annotated[
    int | None, typer.Option("--partition", "-p", min=0, metavar="P", help="List the records of this partition")
]
Limit = Annotated[int, typer.Option(min=1, max=1_000_000, help="Largest number of records that are listed")]
FromTime = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="Only records due from then on: 2026-11-24T10:00, or ms since 1970"),
]
Cancel = Annotated[
    str | None, typer.Option("--cancel", metavar="ID", help="Cancel this record of the partition: OFFSET,DUE as listed")
]


@timers_app.command("timers")
@with_login
def timers(
    topic: TopicName,
    partition: Number = None,
    limit: Limit = 100,
    from_time: FromTime = None,
    cancelled: Cancel = None,
    rest: Rest = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Show delayed records that wait: how many in each partition, when the next one is due; with --partition the records."""
    if partition is None and (cancelled is not None or from_time is not None):
        raise typer.BadParameter("--cancel and --from need --partition")
    with ClusterClient(rest) as client:
        if partition is None:
            _show_topic(client, topic, as_json=as_json)
        elif cancelled is not None:
            _cancel(client, topic, partition, cancelled, as_json=as_json)
        else:
            _show_partition(client, topic, partition, limit, from_time, as_json=as_json)


def _show_topic(client: ClusterClient, topic: str, *, as_json: bool) -> None:
    found = all_pages(client, f"/v1/topics/{quoted(topic)}/timers", "partitions")
    if as_json:
        print_json(found)
        return
    partitions = found["partitions"]
    known = [one for one in partitions if one["problem"] is None]
    print_head(
        (
            ("topic", printable(found["topic"])),
            ("delay", "on" if found["is_delay_enabled"] else "off (bmq.delay.enable)"),
            ("pending", sum(one["pending"] for one in known)),
            ("next due", min((one["next_due"] for one in known if one["pending"]), default=None, key=_moment)),
            ("overdue (s)", max((one["overdue_s"] for one in known), default=0)),
        )
    )
    sys.stdout.write("\n")
    print_rows(_PARTITIONS, partitions, Output.TABLE)


def _show_partition(
    client: ClusterClient, topic: str, partition: int, limit: int, from_time: str | None, *, as_json: bool
) -> None:
    path = f"/v1/topics/{quoted(topic)}/partitions/{partition}/timers"
    start = None if from_time is None else _iso(milliseconds(from_time, now_ms=int(time.time() * 1000)))
    pages = _pages(client, path, limit, start)
    found = next(pages)
    for more in pages:
        found["timers"] += more["timers"]
        found["next_after"] = more["next_after"]
    if as_json:
        print_json(found)
        return
    print_head(
        (
            ("topic", printable(found["topic"])),
            ("partition", found["partition"]),
            ("pending", found["pending"]),
            ("next due", found["next_due"]),
            ("overdue (s)", found["overdue_s"]),
        )
    )
    sys.stdout.write("\n")
    print_rows(_TIMERS, found["timers"], Output.TABLE)
    if found["next_after"] is not None:
        sys.stderr.write(f"there are more than {counted(len(found['timers']), 'record')}; see --limit and --from\n")


def _pages(client: ClusterClient, path: str, limit: int, start: str | None) -> Iterator[Any]:
    after, left = None, limit
    while left > 0:
        found = client.get(path, limit=min(left, _PAGE), after=after, from_time=start)
        yield found
        after, left = found["next_after"], left - len(found["timers"])
        if after is None:
            return


def _cancel(client: ClusterClient, topic: str, partition: int, timer_id: str, *, as_json: bool) -> None:
    path = f"/v1/topics/{quoted(topic)}/partitions/{partition}/timers/cancel"
    found = client.change("POST", path, {"id": timer_id})
    if as_json:
        print_json(found)
    else:
        sys.stdout.write(f"the record {found['id']} of {printable(topic)}-{partition} is cancelled\n")


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _iso(at_ms: int) -> str:
    """Raises typer.BadParameter."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()
    except (OverflowError, ValueError, OSError) as error:
        raise typer.BadParameter("--from is a time that no calendar has") from error
