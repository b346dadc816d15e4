"""`bmq databus`: channels, and the agents that take records for them."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Any, Final

import typer
from rich.table import Table

from bmq.cli.cluster import AsJson
from bmq.cli.cluster_client import ClusterClient, ClusterRefused, ClusterUnreachable
from bmq.cli.cluster_output import duration_text
from bmq.cli.databus_channel import channel_app
from bmq.cli.databus_run import run, tail
from bmq.cli.rest_options import DEFAULT_URL, Rest, with_login
from bmq.cli.terminal import add_row, print_json, print_table

databus_app = typer.Typer(no_args_is_help=True, help="Databus: hand records to an agent on the same host, and go on.")
databus_app.add_typer(channel_app, name="channel")
databus_app.command("run")(run)
databus_app.command("tail")(tail)

_PAGE: Final = 1_000


@databus_app.command("agents")
@with_login
def agents(rest: Rest = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Agents that asked any node for channels within the last hour, and the version each of them uses."""
    newest: dict[str, Any] = {}
    version = 0
    with ClusterClient(rest) as client, ExitStack() as others:
        for node, asked in _nodes(client, others):
            try:
                page = _all(asked)
            except (ClusterUnreachable, ClusterRefused) as error:
                if node is None:
                    raise
                sys.stderr.write(f"node {node} does not say which agents it knows: {error}\n")
                continue
            version = max(version, page["version"])
            for agent in page["agents"]:
                known = newest.get(agent["id"])
                if known is None or agent["seen_ms_ago"] < known["seen_ms_ago"]:
                    newest[agent["id"]] = {**agent, "node_id": page["node_id"]}
    found = [newest[name] for name in sorted(newest)]
    if as_json:
        print_json({"version": version, "agents": found})
        return
    table = Table("agent", "address", "version", "", "asked", "node", box=None, pad_edge=False)
    for agent in found:
        applied = agent["applied_version"]
        behind = "" if applied == version else "behind" if applied is not None and applied < version else "?"
        seen = "waits" if agent["is_waiting"] else f"{duration_text(agent['seen_ms_ago'] // 1000)} ago"
        cells = ("-" if applied is None else str(applied), behind, seen, str(agent["node_id"]))
        add_row(table, agent["id"], agent["address"], *cells)
    print_table(table)
    sys.stdout.write(f"version of all channels: {version}\n")


def _nodes(client: ClusterClient, others: ExitStack) -> list[tuple[int | None, ClusterClient]]:
    """Clients of all nodes with their ids; of the asked one alone, without an id, where it does not name them."""
    try:
        nodes = client.get("/v1/nodes")
    except ClusterRefused as error:
        sys.stderr.write(f"only one node is asked for agents, since it does not name the others: {error}\n")
        return [(None, client)]
    found: list[tuple[int | None, ClusterClient]] = [
        (node["node_id"], others.enter_context(client.of_node(f"{client.scheme}://{node['rest']}")))
        for node in nodes
        if node["rest"]
    ]
    return found or [(None, client)]


def _all(client: ClusterClient) -> Any:
    page = client.get("/v1/channels/agents", limit=_PAGE)
    agents = list(page["agents"])
    after = page["next_after"]
    while after is not None:
        more = client.get("/v1/channels/agents", limit=_PAGE, after=after)
        agents += more["agents"]
        after = more["next_after"]
    return {**page, "agents": agents}
