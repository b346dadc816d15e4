"""The commands of `bmq`; those that run a server are here, and modules a server does not need are imported late."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

import typer

from bmq.cli.late_groups import WithLateGroups
from bmq.cli.profiles import PROFILE_VARIABLE, put_in_force
from bmq.cli.setting_options import ConfigFile, Data, Listen, Rest, StoreUrl, load
from bmq.cli.shell_completion import Shell, script
from bmq.protocol.errors import BmqError

app = typer.Typer(
    cls=WithLateGroups,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A Kafka-compatible message queue on HDFS.",
)


_WITHOUT_PROFILE: Final = frozenset(
    {"standalone", "node", "gateway", "dev", "profile", "completion", "man", "plan", None}
)
"""Commands that connect to no cluster that a user chooses: a broken file of profiles must not keep a server from starting."""


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version  # late: a start does without it

        typer.echo(f"bmq {version('bmq')}")
        raise typer.Exit


def _name_profile(context: typer.Context, name: str) -> str:
    """Names that a shell completes come from the profile's cluster; no command is run then."""
    if context.resilient_parsing:
        with suppress(BmqError):
            put_in_force(name or "")
    return name


@app.callback()
def every_command(
    context: typer.Context,
    profile: Annotated[
        str,
        typer.Option(
            "--profile",
            envvar=PROFILE_VARIABLE,
            metavar="NAME",
            callback=_name_profile,
            help="Profile to use, of `bmq profile`; also behind the command [the current one]",
        ),
    ] = "",
    is_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand not in _WITHOUT_PROFILE:
        context.call_on_close(put_in_force(profile))


@app.command()
def standalone(
    listen: Listen = None,
    rest: Rest = None,
    data: Data = None,
    store: StoreUrl = None,
    config: ConfigFile = None,
) -> None:
    """Run a whole Kafka in one process: all roles, over the embedded store."""
    # Imported late so that `bmq --help` and `bmq config show` stay quick.
    from bmq.server.process import run_standalone

    loaded = load(config, listen=listen, rest=rest, data=data, store=store)
    run_standalone(loaded.settings)


@app.command()
def node(
    roles: Annotated[
        str | None, typer.Option(metavar="ROLE[,ROLE]", help="proxy, broker, coordinator, controller [all]")
    ] = None,
    node_id: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="This node's id, stable for its address")
    ] = None,
    store: StoreUrl = None,
    zookeeper: Annotated[
        str | None, typer.Option(metavar="HOSTS", help="ZooKeeper: HOST:PORT[,HOST:PORT] and a /CHROOT")
    ] = None,
    listen: Listen = None,
    internal: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Address for other nodes [127.0.0.1:9093]")
    ] = None,
    rest: Rest = None,
    rack: Annotated[str | None, typer.Option(metavar="RACK", help="Rack or zone of this node")] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Supervise N nodes with consecutive ids and ports [0: one node]"),
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Run one node of a cluster: any roles, over HDFS, found through ZooKeeper."""
    from bmq.server.node_process import run_node

    loaded = load(
        config,
        roles=roles,
        node_id=node_id,
        store=store,
        zookeeper=zookeeper,
        listen=listen,
        internal=internal,
        rest=rest,
        rack=rack,
        workers=workers,
    )
    run_node(loaded.settings)


@app.command()
def verify(
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC…]", help="Names of topics; none: all")] = None,
    replicas: Annotated[bool, typer.Option(help="Compare the replicas of each block on HDFS")] = True,
    parallel: Annotated[
        int | None, typer.Option("--parallel", min=1, metavar="N", help="Segments at once [one for each processor]")
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="DIR", help="Directory for checkpoints; rerun the command to resume"),
    ] = None,
    is_dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be read, and read nothing")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document instead of tables")] = False,
    data: Data = None,
    store: StoreUrl = None,
    config: ConfigFile = None,
) -> None:
    """Read every stored segment: checksums, records, offsets, indexes, replicas. Needs no server. Exit code 3: damage."""
    from bmq.cli.verify import run_verify

    run_verify(
        load(config, data=data, store=store).settings,
        topics or (),
        has_replicas=replicas,
        thread_count=parallel,
        state=state,
        is_dry_run=is_dry_run,
        as_json=as_json,
    )


@app.command()
def completion(shell: Annotated[Shell, typer.Argument(help="Shell of the script")]) -> None:
    """Print a script that completes commands, options, topics and groups: source <(bmq completion bash)."""
    typer.echo(script(shell))
