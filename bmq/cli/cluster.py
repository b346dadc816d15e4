"""`bmq cluster`: look at a running cluster and give it orders, through the REST address of any of its nodes."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from bmq.cli.cluster_client import ClusterClient, ClusterUnreachable, TaskFailed
from bmq.election.zookeeper import ZooKeeperElection

cluster_app = typer.Typer(no_args_is_help=True, help="Look at a running cluster, and drain, move, scale, rebalance.")

DEFAULT_URL: Final = "http://127.0.0.1:8080"
_MOVES_SHOWN_MAX: Final = 20
_PAGE: Final = 500
_LINE_CHARACTERS_MAX: Final = 250
_NOBODY: Final = -1

Rest = Annotated[
    str, typer.Option("--rest", envvar="BMQ_REST_URL", metavar="URL", help="REST address of any node of the cluster")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document instead of tables and bars")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first, as happens on a terminal")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Return once it has begun")]
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
    cluster_id: Annotated[str, typer.Option("--cluster-id", help="The cluster's id, as its root says it")],
) -> None:
    """After ZooKeeper lost its data: let it count controller epochs from here on. The nodes say when that is needed."""
    counter = asyncio.run(_raise_epoch(zookeeper, cluster_id, to))
    sys.stdout.write(f"the next controller has epoch {counter + 1}; start the controllers again\n")


async def _raise_epoch(zookeeper: str, cluster_id: str, to: int) -> int:
    election = ZooKeeperElection(zookeeper, node_id=_NOBODY)
    await election.start(cluster_id)
    try:
        return await election.raise_epoch(to)
    finally:
        await election.close()


# -- Looking -------------------------------------------------------------------------------------------------------


@cluster_app.command("status")
def status(rest: Rest = DEFAULT_URL, as_json: AsJson = False) -> None:
    """The cluster in a few lines: controller, nodes, topics, partitions."""
    with ClusterClient(rest) as client:
        cluster = client.get("/v1/cluster")
        if as_json:
            _print_json(cluster)
            return
        names = {node["node_id"]: node["rest"] for node in cluster["nodes"]}
        controller = cluster["controller_id"]
        where = f" at {names[controller]}" if names.get(controller) else ""
        table = Table(box=None, pad_edge=False, show_header=False)
        _add(table, "cluster", cluster["cluster_id"])
        _add(table, "controller", "none now" if controller not in names else f"node {controller}{where}")
        draining = sum(node["is_draining"] for node in cluster["nodes"])
        _add(table, "nodes", f"{len(cluster['nodes'])}" + (f", {draining} draining" if draining else ""))
        _add(table, "topics", f"{cluster['topics']}")
        without = cluster["partitions_without_leader"]
        _add(table, "partitions", f"{cluster['partitions']}" + (f", {without} without an owner" if without else ""))
        _add(table, "metadata offset", f"{cluster['metadata_offset']}")
        _print(table)


@cluster_app.command("nodes")
def nodes(rest: Rest = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Every live node: roles, addresses, what it leads and does."""
    with ClusterClient(rest) as client:
        cluster = client.get("/v1/cluster")
    # Load is measured on the active controller, which may be another node than the one that was asked.
    found = cluster["nodes"]
    if cluster["controller_rest"]:
        with suppress(ClusterUnreachable), ClusterClient(cluster["controller_rest"]) as client:
            found = client.get("/v1/nodes")
    if as_json:
        _print_json(found)
        return
    table = Table("node", "roles", "rack", "clients", "REST", "leads", "in/s", "out/s", "", box=None, pad_edge=False)
    for node in found:
        load = node["load"]
        marks = [
            word for word, is_so in (("controller", node["is_controller"]), ("draining", node["is_draining"])) if is_so
        ]
        _add(
            table,
            str(node["node_id"]),
            ",".join(node["roles"]),
            node["rack"] or "",
            "-" if node["port"] is None else f"{node['host']}:{node['port']}",
            node["rest"] or "",
            str(node["partitions_led"]),
            _rate(load and load["bytes_in_s"]),
            _rate(load and load["bytes_out_s"]),
            ", ".join(marks),
        )
    _print(table)


@cluster_app.command("topics")
def topics(
    prefix: Annotated[str, typer.Option(help="Only names that begin so")] = "",
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many at most")] = 1_000,
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
        _print_json(found)
        return
    table = Table("topic", "partitions", "replication", "id", box=None, pad_edge=False)
    for topic in found:
        name = f"{topic['name']} (internal)" if topic["is_internal"] else topic["name"]
        _add(table, name, str(topic["partitions"]), str(topic["replication_factor"]), topic["topic_id"])
    _print(table)
    if after is not None:
        sys.stderr.write(f"there are more than these {len(found)}; see --limit and --prefix\n")


@cluster_app.command("partition")
def partition(topic: TopicName, number: PartitionNumber, rest: Rest = DEFAULT_URL, as_json: AsJson = False) -> None:
    """One partition: its owner, who may own it, and who owned it before."""
    with ClusterClient(rest) as client:
        found = client.get(f"/v1/topics/{_quoted(topic)}/partitions/{number}")
    if as_json:
        _print_json(found)
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    _add(table, "partition", f"{found['topic']}-{found['partition']}")
    _add(table, "owner", _owner(found["owner"]))
    _add(table, "leader epoch", str(found["leader_epoch"]))
    _add(table, "may own it", _ids(found["replicas"]))
    _add(table, "of them alive", _ids(found["isr"]))
    known = found["high_watermark"]
    _add(table, "high watermark", f"at least {found['high_watermark_floor']}" if known is None else str(known))
    _print(table)
    if found["history"]:
        sys.stdout.write("\n")
        _print(_history_table(found["history"], has_partition=False))


@cluster_app.command("segments")
def segments(
    topic: TopicName,
    number: PartitionNumber,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many at most, the oldest first")] = 1_000,
    rest: Rest = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """The files that hold a partition, and the DataNodes that hold the files."""
    found: list[Any] = []
    skip: int | None = 0
    with ClusterClient(rest) as client:
        while skip is not None and len(found) < limit:
            path = f"/v1/topics/{_quoted(topic)}/partitions/{number}/segments"
            page = client.get(path, skip=skip, limit=min(_PAGE, limit - len(found)))
            found += page["segments"]
            skip = page["next_skip"]
    if as_json:
        _print_json(found)
        return
    table = Table("epoch", "roll", "offsets", "bytes", "state", "DataNodes", "file", box=None, pad_edge=False)
    for segment in found:
        base = "-" if segment["base_offset"] is None else segment["base_offset"]
        end = "…" if segment["end_offset"] is None else segment["end_offset"]
        _add(
            table,
            str(segment["leader_epoch"]),
            str(segment["roll"]),
            f"[{base}, {end})",
            str(segment["valid_bytes"]),
            "open" if segment["is_open"] else "closed",
            " ".join(segment["nodes"]),
            segment["path"],
        )
    _print(table)


@cluster_app.command("history")
def history(
    topic: Annotated[str | None, typer.Option(metavar="NAME", help="Only this topic")] = None,
    number: Annotated[int | None, typer.Option("--partition", metavar="N", min=0, help="Only this partition")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="How many at most")] = 50,
    rest: Rest = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Which node led which partition from when on, and why; newest first."""
    with ClusterClient(rest) as client:
        found = client.get("/v1/history", topic=topic, partition=number, limit=limit)
    if as_json:
        _print_json(found)
    else:
        _print(_history_table(found["changes"], has_partition=True))


@cluster_app.command("tasks")
def tasks(
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="How many at most")] = 20,
    rest: Rest = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """What was ordered, newest first, as the active controller knows it."""
    with ClusterClient(rest) as client:
        found = client.get("/v1/tasks", limit=limit)
    if as_json:
        _print_json(found)
        return
    table = Table("task", "what", "state", "done", "since", "error", box=None, pad_edge=False)
    for each in found["tasks"]:
        _add(
            table,
            each["id"],
            f"{each['kind']} {each['subject']}",
            each["state"],
            f"{each['progress']:.0%}",
            _when(each["started_at"]),
            each["error"] or "",
        )
    _print(table)


@cluster_app.command("task")
def task(
    task_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the task")],
    is_followed: Annotated[bool, typer.Option("--follow", "-f", help="Stay until it has ended")] = False,
    rest: Rest = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """One task and its steps. With --follow exit code 1 when it fails."""
    with ClusterClient(rest) as client:
        found = client.get(f"/v1/tasks/{_quoted(task_id)}")
        if is_followed:
            _follow(client, found, as_json=as_json)
        elif as_json:
            _print_json(found)
        else:
            _print_steps(found, 0)
            sys.stdout.write(f"{_state(found)}\n")


# -- Orders --------------------------------------------------------------------------------------------------------


@cluster_app.command("drain")
def drain(
    node_id: NodeId,
    rest: Rest = DEFAULT_URL,
    is_dry_run: DryRun = False,
    is_sure: Yes = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Take every partition away from a node; it gets none until it is undrained."""
    _order(f"/v1/nodes/{node_id}/drain", None, rest, is_dry_run, is_sure, no_wait, as_json)


@cluster_app.command("undrain")
def undrain(
    node_id: NodeId,
    rest: Rest = DEFAULT_URL,
    is_dry_run: DryRun = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Let a drained node take partitions on again."""
    _order(f"/v1/nodes/{node_id}/undrain", None, rest, is_dry_run, True, no_wait, as_json)


@cluster_app.command("rebalance")
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
def scale(
    brokers: Annotated[int, typer.Argument(metavar="N", min=1, help="How many brokers there shall be")],
    rest: Rest = DEFAULT_URL,
    is_dry_run: DryRun = False,
    is_sure: Yes = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Start or stop nodes until there are N brokers; those that stop give their partitions away first."""
    _order("/v1/scale", {"brokers": brokers}, rest, is_dry_run, is_sure, no_wait, as_json)


@cluster_app.command("move")
def move(
    topic: TopicName,
    number: PartitionNumber,
    to: Annotated[int, typer.Option("--to", metavar="ID", min=0, help="Id of the node that shall own it")],
    rest: Rest = DEFAULT_URL,
    is_dry_run: DryRun = False,
    is_sure: Yes = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Give one partition to a node."""
    path = f"/v1/topics/{_quoted(topic)}/partitions/{number}/move"
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
        is_asked = not is_sure and not as_json and _is_terminal()
        if is_dry_run or is_asked:
            plan = client.order(path, body, is_dry_run=True)
            if as_json:
                _print_json(plan)
            else:
                _print_plan(plan)
            if is_dry_run:
                return
            typer.confirm("Go ahead?", abort=True)
        begun = client.order(path, body)
        if not no_wait:
            _follow(client, begun, as_json=as_json)
        elif as_json:
            _print_json(begun)
        else:
            sys.stdout.write(
                f"task {begun['id']} has begun; follow it with `bmq cluster task {begun['id']} --follow`\n"
            )


def _follow(client: ClusterClient, begun: Any, *, as_json: bool) -> None:
    """Show what happens until the task has ended. Raises TaskFailed with its sentence."""
    if as_json:
        ended = _last(client.follow(begun))
        _print_json(ended)
    elif _is_terminal():
        ended = _follow_with_bar(client, begun)
    else:
        ended, shown = begun, 0
        for ended in client.follow(begun):
            shown = _print_steps(ended, shown)
    if ended["state"] == "failed":
        raise TaskFailed(f"task {ended['id']} ({ended['kind']} {ended['subject']}) failed: {ended['error']}")
    if not as_json:
        sys.stdout.write(f"{_state(ended)}\n")


def _follow_with_bar(client: ClusterClient, begun: Any) -> Any:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    ended, shown = begun, 0
    with Progress(*columns, console=_console()) as progress:
        bar = progress.add_task(f"{begun['kind']} {begun['subject']}", total=1.0)
        for ended in client.follow(begun):
            progress.update(bar, completed=ended["progress"])
            shown = _print_steps(ended, shown)
    return ended


def _last(states: Iterable[Any]) -> Any:
    return deque(states, maxlen=1).pop()


# -- Printing ------------------------------------------------------------------------------------------------------


def _print_steps(task: Any, shown: int) -> int:
    """Print the steps numbered `shown` and higher; the number of the next one."""
    for step in task["steps"]:
        if step["number"] >= shown:
            sys.stdout.write(f"{_when(step['at'])}  {step['text']}\n")
            shown = step["number"] + 1
    sys.stdout.flush()
    return shown


def _print_plan(plan: Any) -> None:
    sys.stdout.write(f"{plan['summary']}\n")
    for what, node_ids in (("start", plan["start"]), ("stop", plan["stop"])):
        if node_ids:
            sys.stdout.write(f"{what}: {_ids(node_ids)}\n")
    if not plan["moves"]:
        return
    table = Table("partition", "from", "to", "because", box=None, pad_edge=False)
    for move in plan["moves"][:_MOVES_SHOWN_MAX]:
        name = f"{move['topic']}-{move['partition']}"
        _add(table, name, _owner(move["from_node"]), _owner(move["to_node"]), move["reason"])
    _print(table)
    if plan["move_count"] > _MOVES_SHOWN_MAX:
        sys.stdout.write(f"… and {plan['move_count'] - _MOVES_SHOWN_MAX} more moves; --json lists them\n")


def _history_table(changes: Sequence[Any], *, has_partition: bool) -> Table:
    names = ("at", "partition", "owner", "epoch", "because") if has_partition else ("at", "owner", "epoch", "because")
    table = Table(*names, box=None, pad_edge=False)
    for change in changes:
        partition = (f"{change['topic']}-{change['partition']}",) if has_partition else ()
        _add(
            table,
            _when(change["at"]),
            *partition,
            _owner(change["leader"]),
            str(change["leader_epoch"]),
            change["reason"],
        )
    return table


def _state(task: Any) -> str:
    done = f"{task['progress']:.0%} done"
    text = f"task {task['id']} ({task['kind']} {task['subject']}) {task['state']}, {done}"
    return text if task["error"] is None else f"{text}: {task['error']}"


def _when(at: str) -> str:
    """UTC, to the millisecond."""
    moment = datetime.fromisoformat(at).astimezone(UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03}Z"


def _owner(node_id: int) -> str:
    return "nobody" if node_id == _NOBODY else f"node {node_id}"


def _ids(node_ids: Sequence[int]) -> str:
    return ", ".join(str(node_id) for node_id in node_ids) or "none"


def _rate(bytes_s: float | None) -> str:
    if bytes_s is None:
        return "-"
    for unit in ("B", "kB", "MB"):
        if bytes_s < 1_000:
            return f"{bytes_s:.0f} {unit}"
        bytes_s /= 1_000
    return f"{bytes_s:.1f} GB"


def _add(table: Table, *cells: str) -> None:
    """As they are: what others wrote may look like markup."""
    table.add_row(*(Text(cell) for cell in cells))


def _print_json(document: Any) -> None:
    sys.stdout.write(f"{json.dumps(document, indent=2)}\n")


def _print(table: Table) -> None:
    _console().print(table)


def _console() -> Console:
    # A line belongs to a node or a file, however narrow the terminal is; a pipe has no width at all.
    return Console(soft_wrap=True) if _is_terminal() else Console(width=_LINE_CHARACTERS_MAX, soft_wrap=True)


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _quoted(name: str) -> str:
    return quote(name, safe="")
