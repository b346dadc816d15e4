"""`bmq topic half`: half messages that are undecided, and decisions about them, through the REST address of any node."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

import typer

from bmq.cli.cluster import AsJson
from bmq.cli.cluster_client import ClusterClient
from bmq.cli.kafka.completion import complete_topics
from bmq.cli.rest_options import DEFAULT_URL, Rest, with_login
from bmq.cli.terminal import print_json

half_app = typer.Typer()
"""One command, of `bmq topic`."""
_PAGE: Final = 1_000

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic", autocompletion=complete_topics)]
Partition = Annotated[int | None, typer.Option("--partition", "-p", min=0, help="Only this partition [all]")]
Commit = Annotated[
    list[int] | None,
    typer.Option(
        "--commit", metavar="OFFSET", min=0, help="Deliver the half message at this offset; may be repeated; needs -p"
    ),
]
Rollback = Annotated[
    list[int] | None,
    typer.Option(
        "--rollback",
        metavar="OFFSET",
        min=0,
        help="Never deliver the half message at this offset; may be repeated; needs -p",
    ),
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=100_000, metavar="N", help="Show N messages at most")]


@half_app.command("half")
@with_login
def half(
    topic: TopicName,
    partition: Partition = None,
    commit: Commit = None,
    rollback: Rollback = None,
    limit: Limit = 100,
    rest: Rest = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Show undecided half messages. --commit and --rollback decide the named ones, all of them or none."""
    with ClusterClient(rest) as client:
        if not commit and not rollback:
            _show(client, topic, partition, limit, as_json=as_json)
            return
        if partition is None or (commit and rollback):
            raise typer.BadParameter("name the --partition, and either --commit or --rollback")
        outcome = "commit" if commit else "rollback"
        path = f"/v1/topics/{topic}/partitions/{partition}/half/{outcome}"
        decided = client.change("POST", path, {"offsets": commit or rollback})
        if as_json:
            print_json(decided)
        else:
            done = "committed" if commit else "rolled back"
            sys.stdout.write(f"{done}: {', '.join(map(str, decided['offsets']))}\n")


def _show(client: ClusterClient, topic: str, partition: int | None, limit: int, *, as_json: bool) -> None:
    numbers = [partition]
    if partition is None:
        numbers = [one["partition"] for one in client.get(f"/v1/topics/{topic}")["partitions"]]
    found: list[Any] = []
    left = limit
    for number in numbers:
        page = _of_partition(client, f"/v1/topics/{topic}/partitions/{number}/half", left)
        found.append(page)
        left -= len(page["messages"])
        if left <= 0:
            break
    if as_json:
        print_json(found)
        return
    for page in found:
        for one in page["messages"]:
            sys.stdout.write(f"{page['partition']}  {one['offset']}  {one['held_at']}  {one['check_id']}\n")
    undecided = sum(page["undecided"] for page in found)
    sys.stdout.write(f"{undecided} undecided in {len(found)} partition{'' if len(found) == 1 else 's'}\n")


def _of_partition(client: ClusterClient, path: str, limit: int) -> Any:
    found = client.get(path, limit=min(limit, _PAGE))
    while found["next_from"] is not None and len(found["messages"]) < limit:
        left = limit - len(found["messages"])
        more = client.get(path, **{"from": found["next_from"], "limit": min(left, _PAGE)})
        found["messages"] += more["messages"]
        found["next_from"] = more["next_from"]
    return found
