"""`bmq spark table` and `bmq spark tables`: the job of one table, and what keeps the jobs of all tables running."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from bmq.cli.job import job
from bmq.cli.kafka.options import DEFAULT_BOOTSTRAP, Bootstrap
from bmq.cli.rest_options import DEFAULT_URL, Rest, current_login, with_login
from bmq.rest_client.login import CONFIG_VARIABLE, NAMES, PREFIX, RestLogin
from bmq.spark.jobs.outcome import JobFailed
from bmq.spark.tables.catalog_options import checked_options
from bmq.spark.tables.errors import TableMismatch
from bmq.spark.tables.job_lines import OutputForm
from bmq.spark.tables.option_pairs import NoOptions, option_pairs

if TYPE_CHECKING:
    from bmq.spark.supervisor.effects import Say

commands = typer.Typer()
"""Part of `bmq spark`."""

_CHECKOUT_JARS: Final = Path(__file__).resolve().parents[2] / ".cache" / "jars" / "spark"
"""Where `make jars` puts them."""
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
_SUBMIT_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"
_JOB: Final = (sys.executable, "-P", "-m", "bmq.spark.tables")
"""-P: modules come from the installation, not from the present directory."""

Warehouse = Annotated[
    str, typer.Option("--warehouse", envvar="BMQ_TABLES_WAREHOUSE", metavar="URL", help="A directory for tables")
]
Checkpoints = Annotated[
    str,
    typer.Option(
        "--checkpoints",
        envvar="BMQ_TABLES_CHECKPOINTS",
        metavar="URL",
        help="A directory for checkpoints; each table or index has its own in it, by its name",
    ),
]
CatalogOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--catalog-option",
        metavar="KEY=VALUE|@FILE",
        help="Of Iceberg's catalog, in place of --warehouse: type, uri …; or a file of them, for passwords",
    ),
]
SourceFormat = Annotated[str, typer.Option("--source", metavar="FORMAT", help="Format of the stream")]
SourceOptions = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE|@FILE", help="Of the source: kafka.security.protocol …; or a file"),
]
TriggerS = Annotated[float, typer.Option("--trigger-s", min=0, metavar="S", help="A batch so often")]
MaxOffsets = Annotated[
    int | None, typer.Option("--max-offsets-per-trigger", min=1, metavar="N", help="At most so many records a batch")
]
MergeEvery = Annotated[
    int | None, typer.Option("--merge-every", min=0, metavar="N", help="Commits between merges of files; 0: never [60]")
]
Jars = Annotated[
    str,
    typer.Option(
        "--jars",
        envvar="BMQ_SPARK_JARS",
        metavar="DIR|FILE,…",
        help="Jars of Iceberg and of Spark's Kafka connector [those of `make jars`]",
    ),
]
Master = Annotated[
    str, typer.Option("--master", metavar="URL", help="Spark's master, outside of spark-submit [local[*]]")
]
Conf = Annotated[list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark")]
BatchesAsJson = Annotated[bool, typer.Option("--json", help="A line of JSON for each batch")]


@commands.command("table")
@with_login
def table_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the table, which the cluster has")],
    warehouse: Warehouse = "",
    checkpoints: Checkpoints = "",
    catalog_options: CatalogOptions = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    rest: Rest = DEFAULT_URL,
    source: SourceFormat = "kafka",
    source_options: SourceOptions = None,
    trigger_s: TriggerS = 10.0,
    is_available_now: Annotated[
        bool, typer.Option("--available-now", help="End when the table has all there is now")
    ] = False,
    max_offsets: MaxOffsets = None,
    merge_every: MergeEvery = None,
    is_taken_over: Annotated[bool, typer.Option("--take-over", help="Write a table that another job had")] = False,
    is_rollback_accepted: Annotated[
        bool, typer.Option("--accept-rollback", help="Go on without the rows that a rollback removed")
    ] = False,
    jars: Jars = "",
    master: Master = "",
    conf: Conf = None,
    as_json: BatchesAsJson = False,
) -> None:
    """Keep one table of the cluster: write its topic into Iceberg until Ctrl-C. Exit codes: docs/TABLES_JOB.md."""
    with job():
        arguments = [
            *place_words(warehouse, checkpoints, catalog_options, name),
            *stream_words(
                source, source_options, trigger_s, max_offsets, merge_every, is_available_now=is_available_now
            ),
            *spark_words(jars, master, conf),
            *(["--take-over"] if is_taken_over else []),
            *(["--accept-rollback"] if is_rollback_accepted else []),
            *("--table", name, "--rest", rest, "--bootstrap", bootstrap),
            *("--output", OutputForm.JSON if as_json else OutputForm.TEXT),
        ]
        run_job(arguments)


@commands.command("tables")
@with_login
def tables_command(
    warehouse: Warehouse = "",
    checkpoints: Checkpoints = "",
    catalog_options: CatalogOptions = None,
    prefix: Annotated[str, typer.Option(help="Only tables whose names begin so")] = "",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    rest: Rest = DEFAULT_URL,
    source: SourceFormat = "kafka",
    source_options: SourceOptions = None,
    trigger_s: TriggerS = 10.0,
    max_offsets: MaxOffsets = None,
    merge_every: MergeEvery = None,
    starts_max: Annotated[
        int, typer.Option("--starts", min=1, max=100, metavar="N", help="So many jobs start at the same time")
    ] = 2,
    look_s: Annotated[
        float, typer.Option("--look-s", min=0.1, max=3_600, metavar="S", help="Ask for the cluster's tables so often")
    ] = 5.0,
    jars: Jars = "",
    master: Master = "",
    conf: Conf = None,
    as_json: Annotated[bool, typer.Option("--json", help="A line of JSON for each change of a state")] = False,
) -> None:
    """Keep all tables of the cluster: a job for each, started again when it ends, until SIGTERM or Ctrl-C."""
    with job():
        shared = [
            *stream_words(source, source_options, trigger_s, max_offsets, merge_every, is_available_now=False),
            *spark_words(jars, master, conf),
            *("--rest", rest, "--bootstrap", bootstrap, "--output", OutputForm.STATES, "--end-with-parent"),
        ]
        place_words(warehouse, checkpoints, catalog_options, "NAME")
        login = current_login()
        environment = {"PYSPARK_PYTHON": sys.executable, **os.environ, **_login_variables(login)}

        def command(name: str) -> list[str]:
            place = place_words(warehouse, checkpoints, catalog_options, name)
            return [*_JOB, "--table", name, *place, *shared]

        _supervise(command, environment, rest, login, prefix, starts_max, look_s, Shown(as_json=as_json))


def _supervise(
    command: Any,
    environment: Mapping[str, str],
    rest: str,
    login: RestLogin,
    prefix: str,
    starts_max: int,
    look_s: float,
    shown: Shown,
) -> None:
    from bmq.rest_client.client import NoUrl, RestClient
    from bmq.spark.release import SparkTooOld, require_spark
    from bmq.spark.supervisor.cluster_tables import ClusterTables
    from bmq.spark.supervisor.effects import WantedTable
    from bmq.spark.supervisor.job_process import JobProcess
    from bmq.spark.supervisor.table_jobs import Limits, TableJobs
    from bmq.spark.supervisor.table_supervisor import JobEvents, TableSupervisor

    def start(table: WantedTable, events: JobEvents) -> JobProcess:
        return JobProcess(
            command(table.name),
            environment,
            on_alive=events.alive,
            on_line=lambda line: shown.line(table.name, line),
            on_end=events.ended,
        )

    try:
        require_spark("a table")
        clients = [RestClient(rest, login, timeout=10.0) for _ in range(2)]
    except SparkTooOld as error:
        raise JobFailed(str(error)) from error
    except NoUrl as error:
        raise JobFailed(f"{rest} is no address of a node: {error}") from None
    listing, reporting = (ClusterTables(client, prefix) for client in clients)
    jobs = TableJobs(Limits(starts_max=starts_max))
    supervisor = TableSupervisor(jobs, start, listing, reporting, shown, time.monotonic, look_s)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: supervisor.ask_to_stop())
    try:
        supervisor.run()
    finally:
        for client in clients:
            client.close()


def run_job(arguments: Sequence[str]) -> NoReturn:
    """Run the job of a table or an index in this process. Raises typer.Exit with its exit code."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from bmq.spark.tables.__main__ import main
    from bmq.spark.tables.stop_signals import receive_interrupts

    receive_interrupts()
    raise typer.Exit(main(arguments, current_login()))


# -- Arguments of the job ------------------------------------------------------------------------------------------


def place_words(warehouse: str, checkpoints: str, catalog_options: Sequence[str] | None, name: str) -> list[str]:
    """Arguments of the job of tables: where its table and its positions are. Raises typer.BadParameter."""
    if bool(warehouse) == bool(catalog_options):
        raise typer.BadParameter("name --warehouse or --catalog-option, one of them", param_hint="--warehouse")
    if not checkpoints:
        raise typer.BadParameter(
            "name a directory beside the warehouse, not in it: the jobs keep their positions there",
            param_hint="--checkpoints",
        )
    if catalog_options:
        _check_catalog(catalog_options)
    catalog = [word for each in catalog_options or () for word in ("--catalog-option", each)]
    place = ["--warehouse", warehouse] if warehouse else catalog
    return [*place, "--checkpoint", f"{checkpoints.rstrip('/')}/{name}"]


def _check_catalog(given: Sequence[str]) -> None:
    """Raises typer.BadParameter."""
    try:
        checked_options(dict(pair for each in given for pair in option_pairs(each)))
    except (NoOptions, TableMismatch) as error:
        raise typer.BadParameter(str(error), param_hint="--catalog-option") from None


def stream_words(
    source: str,
    options: Sequence[str] | None,
    trigger_s: float,
    max_offsets: int | None,
    merge_every: int | None,
    *,
    is_available_now: bool,
) -> list[str]:
    """Arguments of the job of tables: its stream, and how often it commits and merges."""
    words = ["--source", source]
    words += [word for each in options or () for word in ("--option", each)]
    words += ["--available-now"] if is_available_now else ["--trigger-s", f"{trigger_s:g}"]
    words += [] if max_offsets is None else ["--max-offsets-per-trigger", str(max_offsets)]
    return words + ([] if merge_every is None else ["--merge-every", str(merge_every)])


def spark_words(jars: str, master: str, conf: Sequence[str] | None) -> list[str]:
    """Arguments of the job of tables: Spark's settings. Under spark-submit its own settings hold, and `conf` is added. Raises typer.BadParameter."""
    settings: list[str] = []
    if jars:
        settings.append(f"spark.jars={_jar_files(jars)}")
    elif not _has_jars() and _CHECKOUT_JARS.is_dir():
        settings.append(f"spark.jars={_jar_files(str(_CHECKOUT_JARS))}")
    if _SUBMITTED not in os.environ:
        if master or _SUBMIT_ARGUMENTS not in os.environ:
            settings.append(f"spark.master={master or 'local[*]'}")
        settings += ["spark.ui.enabled=false", "spark.ui.showConsoleProgress=false", "spark.log.level=ERROR"]
    for each in conf or ():
        if not each.partition("=")[1] or each.startswith("="):
            raise typer.BadParameter(f"{each!r} is not NAME=VALUE", param_hint="--conf")
    return [word for each in (*settings, *(conf or ())) for word in ("--conf", each)]


def _has_jars() -> bool:
    return _SUBMITTED in os.environ or "--jars" in os.environ.get(_SUBMIT_ARGUMENTS, "")


def _jar_files(given: str) -> str:
    """Raises typer.BadParameter."""
    if not Path(given).is_dir():
        return given
    found = sorted(str(jar) for jar in Path(given).glob("*.jar"))
    if not found:
        raise typer.BadParameter(f"there are no jars in {given}", param_hint="--jars")
    return ",".join(found)


def _login_variables(login: RestLogin) -> dict[str, str]:
    """Names of files, no secrets. They replace those of the environment as a whole."""
    return {
        CONFIG_VARIABLE: "",
        **{PREFIX + name.upper(): getattr(login, name) for name in NAMES},
    }


# -- Printing ------------------------------------------------------------------------------------------------------


class Shown:
    """The supervisor's output: a line for each change of a table's state, and troubles on standard error."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def state(self, said: Say) -> None:
        sys.stdout.write(f"{state_json(said) if self._as_json else state_text(said)}\n")
        sys.stdout.flush()

    def trouble(self, sentence: str) -> None:
        self._complain(f"bmq: {sentence}")

    def line(self, name: str, line: str) -> None:
        """Pass on a line of the job's standard error."""
        self._complain(f"{name} | {line}")

    def _complain(self, line: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def state_text(said: Say) -> str:
    error = f": {said.error}" if said.error else ""
    again = "" if said.again_in_s is None else f"; again in {said.again_in_s:.0f} s"
    what = "written by another job" if said.state == "taken" else said.state.value
    return f"{said.table.name}: {what}{error}{again}"


def state_json(said: Say) -> str:
    return json.dumps(
        {
            "table": said.table.name,
            "state": said.state.value,
            "error": said.error,
            "again_in_s": said.again_in_s,
            "version": said.table.version,
        }
    )
