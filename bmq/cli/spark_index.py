"""`bmq spark index`: the job that fills an index. It is the job of tables, which lays an index out for lookups."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from bmq.cli.job import job
from bmq.cli.kafka.options import DEFAULT_BOOTSTRAP, Bootstrap, settings_of
from bmq.cli.rest_options import DEFAULT_URL, Rest, current_login, with_login

spark_index_app = typer.Typer()


@spark_index_app.command("index")
@with_login
def index_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the index, which the cluster has")],
    warehouse: Annotated[
        str,
        typer.Option("--warehouse", envvar="BMQ_TABLES_WAREHOUSE", metavar="URL", help="A directory for tables"),
    ],
    checkpoints: Annotated[
        str,
        typer.Option(
            "--checkpoints",
            envvar="BMQ_TABLES_CHECKPOINTS",
            metavar="URL",
            help="A directory for checkpoints; each index has its own in it, by its name",
        ),
    ],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    rest: Rest = DEFAULT_URL,
    source: Annotated[str, typer.Option("--source", metavar="FORMAT", help="Format of the stream")] = "kafka",
    options: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="KEY=VALUE|@FILE", help="Of the source: kafka.security.protocol …; or a file"),
    ] = None,
    trigger_s: Annotated[float, typer.Option("--trigger-s", min=0, metavar="S", help="A batch so often")] = 10.0,
    is_available_now: Annotated[
        bool, typer.Option("--available-now", help="End when the index has all there is now")
    ] = False,
    max_offsets: Annotated[
        int | None,
        typer.Option("--max-offsets-per-trigger", min=1, metavar="N", help="At most so many records a batch"),
    ] = None,
    merge_every: Annotated[
        int | None,
        typer.Option("--merge-every", min=0, metavar="N", help="Commits between merges of files; 0: never [60]"),
    ] = None,
    is_taken_over: Annotated[bool, typer.Option("--take-over", help="Write an index that another job had")] = False,
    master: Annotated[
        str, typer.Option("--master", metavar="URL", help="Spark's master, outside of spark-submit [local[*]]")
    ] = "",
    conf: Annotated[list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark")] = None,
) -> None:
    """Keep one index of the cluster: write its topic's records into it until Ctrl-C. Exit codes: docs/TABLES_JOB.md."""
    arguments = [
        *("--table", name, "--rest", rest, "--bootstrap", bootstrap, "--warehouse", warehouse),
        *("--checkpoint", f"{checkpoints.rstrip('/')}/{name}", "--source", source),
        *(word for each in options or () for word in ("--option", each)),
        *(["--available-now"] if is_available_now else ["--trigger-s", f"{trigger_s:g}"]),
        *([] if max_offsets is None else ["--max-offsets-per-trigger", str(max_offsets)]),
        *([] if merge_every is None else ["--merge-every", str(merge_every)]),
        *(["--take-over"] if is_taken_over else []),
    ]
    settings = settings_of(conf, "--conf")
    with job():
        from bmq.spark.jobs.session import open_session
        from bmq.spark.tables.__main__ import main
        from bmq.spark.tables.stop_signals import receive_interrupts

        receive_interrupts()
        open_session(f"bmq index {name}", master=master, conf=settings)
        code = main(arguments, current_login())
    sys.stdout.flush()
    raise typer.Exit(code)
