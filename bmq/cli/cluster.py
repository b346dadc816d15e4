"""`bmq cluster`: look at a running cluster and give it orders, through the REST address of any of its nodes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from bmq.cli.cluster_ca import ca_app
from bmq.cli.cluster_client import ClusterClient, ClusterUnreachable
from bmq.cli.cluster_output import (
    follow,
    history_table,
    ids_text,
    owner_text,
    print_plan,
    print_steps,
    print_terms,
    quoted,
    rate_text,
    state_text,
    when_text,
)
from bmq.cli.paged_answers import all_pages
from bmq.cli.rest_options import DEFAULT_URL, Rest, with_login
from bmq.cli.terminal import add_row, is_terminal, print_json, print_table
from bmq.election.zookeeper import ZooKeeperElection
from bmq.election.zookeeper_security import ZooKeeperSecurity
from bmq.server.settings import load_settings

cluster_app = typer.Typer(
    no_args_is_help=True, help="Show a running cluster, drain, move, scale, rebalance; certificates of its nodes."
)
cluster_app.add_typer(ca_app, name="ca")

_NO_NODE: Final = -1
_PAGE: Final = 500

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document instead of tables and bars")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Return as soon as the task has begun")]
TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic")]
PartitionNumber = Annotated[int, typer.Argument(metavar="N", min=0, help="Number of the partition")]
NodeId = Annotated[int, typer.Argument(metavar="ID", min=0, help="Id of the node")]


# -- ZooKeeper -----------------------------------------------------------------------------------------------------


@cluster_app.command("raise-epoch")
def raise_epoch(
    to: Annotated[int, typer.Option("--to", min=1, metavar="EPOCH", help="The epoch that the metadata log has seen")],
    zookeeper: Annotated[
        str, typer.Option("--zookeeper", metavar="HOSTS", help="As for bmq node: HOST:PORT, more after commas, /CHROOT")
    ],
    cluster_id: Annotated[str, typer.Option("--cluster-id", help="The cluster's id, from cluster.json of its root")],
) -> None:
    """After ZooKeeper lost its data: set the controller epoch to count from. The nodes report when that is needed.

    Authenticates as nodes do, by [zookeeper_security] of the settings file or the environment.
    """
    security = load_settings({}, None).settings.zookeeper_security
    counter = asyncio.run(_raise_epoch(zookeeper, cluster_id, to, security))
    sys.stdout.write(f"the next controller has epoch {counter + 1}; start the controllers again\n")


async def _raise_epoch(zookeeper: str, cluster_id: str, to: int, security: ZooKeeperSecurity) -> int:
    election = ZooKeeperElection(zookeeper, node_id=_NO_NODE, security=security)
    await election.start(cluster_id)
    try:
        return await election.raise_epoch(to)
    finally:
        await election.close()


# -- Looking -------------------------------------------------------------------------------------------------------


@cluster_app.command("status")
@with_login
def status(rest: Rest = DEFAULT_URL, as_json: AsJson = False) -> None:
    """The cluster in a few lines: controller, nodes, topics, partitions."""
    with ClusterClient(rest) as client:
        cluster = client.get("/v1/cluster")
        if as_json:
            print_json(cluster)
            return
        names = {node["node_id"]: node["rest"] for node in cluster["nodes"]}
        controller = cluster["controller_id"]
        where = f" at {names[controller]}" if names.get(controller) else ""
        table = Table(box=None, pad_edge=False, show_header=False)
        add_row(table, "cluster", cluster["cluster_id"])
        add_row(table, "controller", "none now" if controller not in names else f"node {controller}{where}")
        draining = sum(node["is_draining"] for node in cluster["nodes"])
        add_row(table, "nodes", f"{len(cluster['nodes'])}" + (f", {draining} draining" if draining else ""))
        add_row(table, "topics", f"{cluster['topics']}")
        without = cluster["partitions_without_leader"]
        add_row(table, "partitions", f"{cluster['partitions']}" + (f", {without} without an owner" if without else ""))
        add_row(table, "metadata offset", f"{cluster['metadata_offset']}")
        print_table(table)


@cluster_app.command("nodes")
@with_login
def nodes(rest: Rest = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Every live node: roles, addresses, partitions and load."""
    with ClusterClient(rest) as client:
        cluster = client.get("/v1/cluster")
    # Load is measured on the active controller, which may be another node than the one that was asked.
    found = cluster["nodes"]
    if cluster["controller_rest"]:
        with suppress(ClusterUnreachable), client.of_node(cluster["controller_rest"]) as controller:
            found = controller.get("/v1/nodes")
    if as_json:
        print_json(found)
        return
    table = Table("node", "roles", "rack", "clients", "REST", "leads", "in/s", "out/s", "", box=None, pad_edge=False)
    for node in found:
        load = node["load"]
        marks = [
            word for word, is_so in (("controller", node["is_controller"]), ("draining", node["is_draining"])) if is_so
        ]
        add_row(
            table,
            str(node["node_id"]),
            ",".join(node["roles"]),
            node["rack"] or "",
            "-" if node["port"] is None else f"{node['host']}:{node['port']}",
            node["rest"] or "",
            str(node["partitions_led"]),
            rate_text(load and load["bytes_in_s"]),
            rate_text(load and load["bytes_out_s"]),
            ", ".join(marks),
        )
    print_table(table)


@cluster_app.command("topics")
@with_login
def topics(
    prefix: Annotated[str, typer.Option(help="Only names with this prefix")] = "",
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Largest number of entries")] = 1_000,
    rest: Rest = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Topics in the order of their names."""
    found: list[Any] = []
    after: str | None = ""
    with ClusterClient(rest) as client:
        while after is not None and len(found) < limit:
            page = client.get("/v1/topics", prefix=prefix, after=after, limit=min(_PAGE, limit - len(found)))
            found += page["topics"]
            after = page["next_after"]
    if as_json:
        print_json(found)
        return
    table = Table("topic", "partitions", "replication", "id", box=None, pad_edge=False)
    for topic in found:
        name = f"{topic['name']} (internal)" if topic["is_internal"] else topic["name"]
        add_row(table, name, str(topic["partitions"]), str(topic["replication_factor"]), topic["topic_id"])
    print_table(table)
    if after is not None:
        sys.stderr.write(f"there are more than these {len(found)}; see --limit and --prefix\n")


@cluster_app.command("partition")
@with_login
def partition(topic: TopicName, number: PartitionNumber, rest: Rest = DEFAULT_URL, as_json: AsJson = False) -> None:
    """One partition: its owner, who may own it, and who owned it before."""
    with ClusterClient(rest) as client:
        found = client.get(f"/v1/topics/{quoted(topic)}/partitions/{number}")
    if as_json:
        print_json(found)
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    add_row(table, "partition", f"{found['topic']}-{found['partition']}")
    add_row(table, "owner", owner_text(found["owner"]))
    add_row(table, "leader epoch", str(found["leader_epoch"]))
    add_row(table, "may own it", ids_text(found["replicas"]))
    add_row(table, "of them alive", ids_text(found["isr"]))
    known = found["high_watermark"]
    add_row(table, "high watermark", f"at least {found['high_watermark_floor']}" if known is None else str(known))
    print_table(table)
    if found["history"]:
        sys.stdout.write("\n")
        print_table(history_table(found["history"], has_partition=False))


@cluster_app.command("segments")
@with_login
def segments(
    topic: TopicName,
    number: PartitionNumber,
    limit: Annotated[
        int, typer.Option(min=1, max=100_000, help="Largest number of segments, the oldest first")
    ] = 1_000,
    rest: Rest = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """The files that hold a partition, and the DataNodes that hold the files."""
    path = f"/v1/topics/{quoted(topic)}/partitions/{number}/segments"
    with ClusterClient(rest) as client:
        found = all_pages(client, path, "segments", limit=limit, page_rows=_PAGE)["segments"]
    if as_json:
        print_json(found)
        return
    table = Table("epoch", "roll", "offsets", "bytes", "state", "DataNodes", "file", box=None, pad_edge=False)
    for segment in found:
        base = "-" if segment["base_offset"] is None else segment["base_offset"]
        end = "…" if segment["end_offset"] is None else segment["end_offset"]
        add_row(
            table,
            str(segment["leader_epoch"]),
            str(segment["roll"]),
            f"[{base}, {end})",
            str(segment["valid_bytes"]),
            "open" if segment["is_open"] else "closed",
            " ".join(segment["nodes"]),
            segment["path"],
        )
    print_table(table)


@cluster_app.command("history")
@with_login
def history(
    of_topic: Annotated[str | None, typer.Argument(metavar="[TOPIC]", help="Only this topic")] = None,
    of_number: Annotated[
        int | None, typer.Argument(metavar="[N]", min=0, help="Only this partition, with the times without an owner")
    ] = None,
    topic: Annotated[str | None, typer.Option(metavar="NAME", help="Only this topic")] = None,
    number: Annotated[int | None, typer.Option("--partition", metavar="N", min=0, help="Only this partition")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Largest number of entries")] = 50,
    rest: Rest = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """The owners of partitions over time, with the reasons; newest first."""
    if of_topic is not None and (topic is not None or number is not None):
        raise typer.BadParameter("name the topic once: TOPIC and N, or --topic and --partition")
    with ClusterClient(rest) as client:
        if of_topic is not None and of_number is not None:
            terms = client.get(f"/v1/topics/{quoted(of_topic)}/partitions/{of_number}/history")
            print_json(terms) if as_json else print_terms(terms, limit)
            return
        topic = topic or of_topic
        found = client.get("/v1/history", topic=topic, partition=number, limit=limit)
    if as_json:
        print_json(found)
    else:
        print_table(history_table(found["changes"], has_partition=True))


@cluster_app.command("tasks")
@with_login
def tasks(
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Largest number of entries")] = 20,
    rest: Rest = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Tasks (moves, drains, …) and their progress, newest first."""
    with ClusterClient(rest) as client:
        found = client.get("/v1/tasks", limit=limit)
    if as_json:
        print_json(found)
        return
    table = Table("task", "what", "state", "done", "since", "error", box=None, pad_edge=False)
    for each in found["tasks"]:
        add_row(
            table,
            each["id"],
            f"{each['kind']} {each['subject']}",
            each["state"],
            f"{each['progress']:.0%}",
            when_text(each["started_at"]),
            each["error"] or "",
        )
    print_table(table)


@cluster_app.command("task")
@with_login
def task(
    task_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the task")],
    is_followed: Annotated[bool, typer.Option("--follow", "-f", help="Wait until the task has ended")] = False,
    rest: Rest = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """One task and its steps. With --follow exit code 1 when it fails."""
    with ClusterClient(rest) as client:
        found = client.get(f"/v1/tasks/{quoted(task_id)}")
        if is_followed:
            follow(client, found, as_json=as_json)
        elif as_json:
            print_json(found)
        else:
            print_steps(found, 0)
            sys.stdout.write(f"{state_text(found)}\n")


# -- Orders --------------------------------------------------------------------------------------------------------


@cluster_app.command("drain")
@with_login
def drain(
    node_id: NodeId,
    rest: Rest = DEFAULT_URL,
    is_dry_run: DryRun = False,
    is_sure: Yes = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Move every partition away from a node; it gets none until it is undrained."""
    _order(f"/v1/nodes/{node_id}/drain", None, rest, is_dry_run, is_sure, no_wait, as_json)


@cluster_app.command("undrain")
@with_login
def undrain(
    node_id: NodeId,
    rest: Rest = DEFAULT_URL,
    is_dry_run: DryRun = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Let a drained node own partitions again."""
    _order(f"/v1/nodes/{node_id}/undrain", None, rest, is_dry_run, True, no_wait, as_json)


@cluster_app.command("rebalance")
@with_login
def rebalance(
    rest: Rest = DEFAULT_URL,
    is_dry_run: DryRun = False,
    is_sure: Yes = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Spread the partitions over the brokers."""
    _order("/v1/rebalance", None, rest, is_dry_run, is_sure, no_wait, as_json)


@cluster_app.command("scale")
@with_login
def scale(
    brokers: Annotated[int, typer.Argument(metavar="N", min=1, help="Number of brokers afterwards")],
    rest: Rest = DEFAULT_URL,
    is_dry_run: DryRun = False,
    is_sure: Yes = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Start or stop nodes until there are N brokers; stopping nodes hand their partitions over first."""
    _order("/v1/scale", {"brokers": brokers}, rest, is_dry_run, is_sure, no_wait, as_json)


@cluster_app.command("move")
@with_login
def move(
    topic: TopicName,
    number: PartitionNumber,
    to: Annotated[int, typer.Option("--to", metavar="ID", min=0, help="Id of the new owner")],
    rest: Rest = DEFAULT_URL,
    is_dry_run: DryRun = False,
    is_sure: Yes = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Move one partition to a node."""
    path = f"/v1/topics/{quoted(topic)}/partitions/{number}/move"
    _order(path, {"to": to}, rest, is_dry_run, is_sure, no_wait, as_json)


def _order(
    path: str,
    body: Mapping[str, Any] | None,
    rest: str,
    is_dry_run: bool,
    is_sure: bool,
    no_wait: bool,
    as_json: bool,
) -> None:
    with ClusterClient(rest) as client:
        is_asked = not is_sure and not as_json and is_terminal()
        if is_dry_run or is_asked:
            plan = client.order(path, body, is_dry_run=True)
            if as_json:
                print_json(plan)
            else:
                print_plan(plan)
            if is_dry_run:
                return
            typer.confirm("Go ahead?", abort=True)
        begun = client.order(path, body)
        if not no_wait:
            follow(client, begun, as_json=as_json)
        elif as_json:
            print_json(begun)
        else:
            sys.stdout.write(
                f"task {begun['id']} has begun; follow it with `bmq cluster task {begun['id']} --follow`\n"
            )


# -- Printing ------------------------------------------------------------------------------------------------------
