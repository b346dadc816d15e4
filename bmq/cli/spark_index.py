"""`bmq spark index`: the job that fills an index. It is the job of tables, which lays an index out for lookups."""

from __future__ import annotations

from typing import Annotated

import typer

from bmq.cli.job import job
from bmq.cli.kafka.options import DEFAULT_BOOTSTRAP, Bootstrap
from bmq.cli.rest_options import DEFAULT_URL, Rest, with_login
from bmq.cli.spark_tables import (
    BatchesAsJson,
    Checkpoints,
    Conf,
    Jars,
    Master,
    MaxOffsets,
    MergeEvery,
    SourceFormat,
    SourceOptions,
    TriggerS,
    Warehouse,
    place_words,
    run_job,
    spark_words,
    stream_words,
)
from bmq.spark.tables.job_lines import OutputForm

spark_index_app = typer.Typer()


def check_day(text: str) -> None:
    """Raises typer.BadParameter."""
    from bmq.spark.tables.day import day_of

    try:
        if text:
            day_of(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--rebuild-day") from None


@spark_index_app.command("index")
@with_login
def index_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the index, which the cluster has")],
    warehouse: Warehouse,
    checkpoints: Checkpoints,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    rest: Rest = DEFAULT_URL,
    source: SourceFormat = "kafka",
    options: SourceOptions = None,
    trigger_s: TriggerS = 10.0,
    is_available_now: Annotated[
        bool, typer.Option("--available-now", help="End when the index has all there is now")
    ] = False,
    max_offsets: MaxOffsets = None,
    merge_every: MergeEvery = None,
    is_taken_over: Annotated[bool, typer.Option("--take-over", help="Write an index that another job had")] = False,
    rebuild_day: Annotated[
        str,
        typer.Option(
            "--rebuild-day",
            metavar="YYYY-MM-DD",
            help="Only write this day (UTC) anew from the topic, and end; the index's job may run meanwhile",
        ),
    ] = "",
    jars: Jars = "",
    master: Master = "",
    conf: Conf = None,
    as_json: BatchesAsJson = False,
) -> None:
    """Keep one index of the cluster: write its topic's records into it until Ctrl-C. Exit codes: docs/TABLES_JOB.md."""
    check_day(rebuild_day)
    with job():
        arguments = [
            *place_words(warehouse, checkpoints, None, name),
            *stream_words(source, options, trigger_s, max_offsets, merge_every, is_available_now=is_available_now),
            *spark_words(jars, master, conf),
            *(["--take-over"] if is_taken_over else []),
            *(["--rebuild-day", rebuild_day] if rebuild_day else []),
            *("--table", name, "--rest", rest, "--bootstrap", bootstrap),
            *("--output", OutputForm.JSON if as_json else OutputForm.TEXT),
        ]
        run_job(arguments)
