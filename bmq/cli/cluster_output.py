"""How `bmq cluster` shows the REST API's answers: tables, JSON, and tasks while they run."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from bmq.cli.cluster_client import ClusterClient, TaskFailed
from bmq.cli.terminal import add_row, console, is_terminal, print_json, print_table
from bmq.metadata.image import NO_LEADER

_MOVES_SHOWN_MAX: Final = 20


def follow(client: ClusterClient, begun: Any, *, as_json: bool) -> None:
    """Show the task's steps until it has ended. Raises TaskFailed with its sentence."""
    if as_json:
        ended = last_of(client.follow(begun))
        print_json(ended)
    elif is_terminal():
        ended = follow_with_bar(client, begun)
    else:
        ended, shown = begun, 0
        for ended in client.follow(begun):
            shown = print_steps(ended, shown)
    if ended["state"] == "failed":
        raise TaskFailed(f"task {ended['id']} ({ended['kind']} {ended['subject']}) failed: {ended['error']}")
    if not as_json:
        sys.stdout.write(f"{state_text(ended)}\n")


def follow_with_bar(client: ClusterClient, begun: Any) -> Any:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    ended, shown = begun, 0
    with Progress(*columns, console=console()) as progress:
        bar = progress.add_task(f"{begun['kind']} {begun['subject']}", total=1.0)
        for ended in client.follow(begun):
            progress.update(bar, completed=ended["progress"])
            shown = print_steps(ended, shown)
    return ended


def last_of(states: Iterable[Any]) -> Any:
    return deque(states, maxlen=1).pop()


def print_steps(task: Any, shown: int) -> int:
    """Print the steps numbered `shown` and higher; the number of the next one."""
    for step in task["steps"]:
        if step["number"] >= shown:
            sys.stdout.write(f"{when_text(step['at'])}  {step['text']}\n")
            shown = step["number"] + 1
    sys.stdout.flush()
    return shown


def print_plan(plan: Any) -> None:
    sys.stdout.write(f"{plan['summary']}\n")
    for what, node_ids in (("start", plan["start"]), ("stop", plan["stop"])):
        if node_ids:
            sys.stdout.write(f"{what}: {ids_text(node_ids)}\n")
    if not plan["moves"]:
        return
    table = Table("partition", "from", "to", "because", box=None, pad_edge=False)
    for move in plan["moves"][:_MOVES_SHOWN_MAX]:
        name = f"{move['topic']}-{move['partition']}"
        add_row(table, name, owner_text(move["from_node"]), owner_text(move["to_node"]), move["reason"])
    print_table(table)
    if plan["move_count"] > _MOVES_SHOWN_MAX:
        sys.stdout.write(f"… and {plan['move_count'] - _MOVES_SHOWN_MAX} more moves; --json lists them\n")


def history_table(changes: Sequence[Any], *, has_partition: bool) -> Table:
    names = ("at", "partition", "owner", "epoch", "because") if has_partition else ("at", "owner", "epoch", "because")
    table = Table(*names, box=None, pad_edge=False)
    for change in changes:
        partition = (f"{change['topic']}-{change['partition']}",) if has_partition else ()
        add_row(
            table,
            when_text(change["at"]),
            *partition,
            owner_text(change["leader"]),
            str(change["leader_epoch"]),
            change["reason"],
        )
    return table


def print_terms(found: Any, shown_max: int) -> None:
    """A partition's owners over time, newest first."""
    head = Table(box=None, pad_edge=False, show_header=False)
    add_row(head, "partition", f"{found['topic']}-{found['partition']}")
    add_row(head, "owner", owner_text(found["owner"]))
    add_row(head, "without an owner", span_text(found["without_owner_ms"]))
    if found["earlier_epochs"]:
        add_row(head, "earlier epochs", f"{found['earlier_epochs']}, not kept")
    print_table(head)
    sys.stdout.write("\n")
    table = Table("since", "owner", "epoch", "lasted", "without an owner before", "because", box=None, pad_edge=False)
    for term in found["terms"][:shown_max]:
        add_row(
            table,
            "-" if term["since"] is None else when_text(term["since"]),
            owner_text(term["leader"]),
            str(term["leader_epoch"]),
            "-" if term["lasted_ms"] is None else span_text(term["lasted_ms"]),
            span_text(term["without_owner_ms"]) if term["without_owner_ms"] else "",
            term["reason"],
        )
    print_table(table)
    if len(found["terms"]) > shown_max:
        sys.stderr.write(f"there are more than these {shown_max}; see --limit\n")


def state_text(task: Any) -> str:
    done = f"{task['progress']:.0%} done"
    text = f"task {task['id']} ({task['kind']} {task['subject']}) {task['state']}, {done}"
    return text if task["error"] is None else f"{text}: {task['error']}"


def when_text(at: str) -> str:
    """The time in UTC, to the millisecond."""
    moment = datetime.fromisoformat(at).astimezone(UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03}Z"


def duration_text(seconds: int) -> str:
    """In the largest unit that fits: 45 s, 12 min, 3 h, 2 d."""
    for unit, size_s in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size_s:
            return f"{seconds // size_s} {unit}"
    return f"{seconds} s"


def span_text(span_ms: int) -> str:
    """Below a minute in seconds with milliseconds, else as `duration_text`."""
    return f"{span_ms / 1_000:.3f} s" if span_ms < 60_000 else duration_text(span_ms // 1_000)


def owner_text(node_id: int) -> str:
    return "nobody" if node_id == NO_LEADER else f"node {node_id}"


def ids_text(node_ids: Sequence[int]) -> str:
    return ", ".join(str(node_id) for node_id in node_ids) or "none"


def rate_text(bytes_s: float | None) -> str:
    if bytes_s is None:
        return "-"
    for unit in ("B", "kB", "MB"):
        if bytes_s < 1_000:
            return f"{bytes_s:.0f} {unit}"
        bytes_s /= 1_000
    return f"{bytes_s:.1f} GB"


def quoted(name: str) -> str:
    return quote(name, safe="")
