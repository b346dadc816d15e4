"""`bmq group redrive`: a group's dead letters are delivered again, through the REST address of any node."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

import typer

from bmq.cli.cluster import AsJson, DryRun, NoWait
from bmq.cli.cluster_client import ClusterClient
from bmq.cli.cluster_output import follow, state_text
from bmq.cli.kafka.completion import complete_groups
from bmq.cli.rest_options import DEFAULT_URL, Rest, with_login
from bmq.cli.terminal import print_json

redrive_app = typer.Typer()
"""One command, of `bmq group`."""
_PAGES: Final = "/v1/redrives"

GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group", autocompletion=complete_groups)]
To = Annotated[str | None, typer.Option("--to", metavar="TOPIC", help="The topic to write the records into")]
ToSource = Annotated[
    bool, typer.Option("--to-source", help="Into the topics they came from, where every group reads them again")
]
Letters = Annotated[
    str | None,
    typer.Option(
        "--letters", metavar="TOPIC", help="Topic of the dead letters [the one the group names, or dlq.GROUP]"
    ),
]
Reason = Annotated[str | None, typer.Option("--reason", help="Only of this reason: rejected or delivery-count")]
SourceTopic = Annotated[str | None, typer.Option("--topic", "-t", help="Only records of this topic")]
SourcePartition = Annotated[int | None, typer.Option("--partition", "-p", min=0, help="Only records of this partition")]
Key = Annotated[str | None, typer.Option("--key", help="Only records with this key")]
FromTime = Annotated[
    str | None, typer.Option("--from", metavar="TIME", help="Only dead letters from this time on (ISO)")
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Only dead letters before this time (ISO)")]
Rate = Annotated[int, typer.Option("--rate", min=1, max=100_000, metavar="N", help="Records a second at most")]
FromStart = Annotated[bool, typer.Option("--from-start", help="Also what was delivered again before")]
IsCancel = Annotated[bool, typer.Option("--cancel", help="End the redrive of this group that is running")]


@redrive_app.command("redrive")
@with_login
def redrive(
    group: GroupName,
    to: To = None,
    is_to_source: ToSource = False,
    letters: Letters = None,
    reason: Reason = None,
    topic: SourceTopic = None,
    partition: SourcePartition = None,
    key: Key = None,
    from_time: FromTime = None,
    until: Until = None,
    rate: Rate = 1_000,
    is_from_start: FromStart = False,
    is_cancel: IsCancel = False,
    is_dry_run: DryRun = False,
    no_wait: NoWait = False,
    rest: Rest = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Deliver a group's dead letters again. A redrive that has ended early goes on with the same command."""
    given = {
        "group": group,
        "to": to,
        "to_source": is_to_source or None,
        "letters": letters,
        "reason": reason,
        "topic": topic,
        "partition": partition,
        "key": key,
        "from_time": from_time,
        "to_time": until,
        "records_per_s": rate,
        "from_start": is_from_start or None,
    }
    with ClusterClient(rest) as client:
        if is_cancel:
            _cancel(client, group, as_json=as_json)
            return
        body = {name: value for name, value in given.items() if value is not None}
        begun = client.change("POST", _PAGES, body, is_dry_run=is_dry_run)
        if not no_wait:
            follow(client, begun, as_json=as_json)
        elif as_json:
            print_json(begun)
        else:
            sys.stdout.write(f"redrive {begun['id']} has begun; `bmq group redrive {group} --cancel` ends it\n")


def _cancel(client: ClusterClient, group: str, *, as_json: bool) -> None:
    ended: list[Any] = [
        client.change("DELETE", f"{_PAGES}/{each['id']}")
        for each in client.get(_PAGES)["tasks"]
        if each["subject"] == group and each["state"] == "running"
    ]
    if as_json:
        print_json(ended)
    elif not ended:
        sys.stdout.write(f"no redrive of group {group} is running\n")
    for each in () if as_json else ended:
        sys.stdout.write(f"redrive {each['id']}: {state_text(each)}\n")
