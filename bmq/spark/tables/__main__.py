"""The job as a command, for `spark-submit` and for `python -m bmq.spark.tables`.

    spark-submit --jars … bmq/spark/tables/__main__.py --table orders --rest http://HOST:8080 --bootstrap HOST:9092
        --warehouse hdfs://…/warehouse --checkpoint hdfs://…/checkpoints/orders

With `--rest` the cluster provides the definition, and gets reports: progress, that the job runs, and how it ended. Without it
the definition is a file. The job prints a line of JSON after each batch. `bmq spark table` runs it too, and `bmq spark tables` runs
one for each table of the cluster. Exit code 0: it was stopped, or the table has
everything that the topic had. 1: the cluster, the table or Spark failed, so the same command may succeed later. 2: the user
has to change something first. 130: interrupted while Spark started.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from bmq.rest_client.login import CONFIG, LoginUnusable, RestLogin, login_of
from bmq.spark.jvm import remembered_interrupt, start_session
from bmq.spark.release import SparkTooOld, require_spark
from bmq.spark.tables.catalog_options import REDACTED
from bmq.spark.tables.cluster_tables import ClusterTable
from bmq.spark.tables.day import Day, day_of
from bmq.spark.tables.day_rebuild import DayRebuild
from bmq.spark.tables.ending import ending_of
from bmq.spark.tables.errors import ChangeNeeded, TableJobError, TableMismatch, TableTaken
from bmq.spark.tables.heartbeat import heartbeat
from bmq.spark.tables.iceberg import Catalog
from bmq.spark.tables.job import TRIGGER_S_DEFAULT, TableJobOptions, start_table
from bmq.spark.tables.job_lines import OutputForm, batch_line, ended_line, running_line
from bmq.spark.tables.jvm_errors import first_line, innermost
from bmq.spark.tables.maintenance_policy import MaintenancePolicy
from bmq.spark.tables.option_pairs import NoOptions, option_pair, option_pairs
from bmq.spark.tables.parent_watch import ParentWatch
from bmq.spark.tables.progress import TableProgress
from bmq.spark.tables.stop_signals import receive_interrupts, stop_at_signals
from bmq.table_definitions.definition import InvalidDefinition, TableDefinition
from bmq.table_definitions.progress import REPORT_EVERY_S

FAILED = 1
REFUSED = 2
INTERRUPTED = 130


class NoSpark(Exception):
    """Spark cannot be started; the message is one sentence."""


_KNOWN: Final = (TableJobError, InvalidDefinition, SparkTooOld, NoSpark, OSError)
"""Failures that are one sentence."""


def definition_file(path: Path) -> Callable[[], TableDefinition]:
    """Reads the file at each call, so a new definition takes effect with the next batch. Raises InvalidDefinition."""
    return lambda: TableDefinition.from_json(path.read_bytes())


def _pair(text: str) -> tuple[str, str]:
    try:
        return option_pair(text)
    except NoOptions as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _pairs(text: str) -> list[tuple[str, str]]:
    try:
        return option_pairs(text)
    except NoOptions as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _count(least: int) -> Callable[[str], int]:
    def count(text: str) -> int:
        if not (text.isascii() and text.isdigit()) or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is no number from {least} on")
        return int(text)

    return count


def _day(text: str) -> Day:
    try:
        return day_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds")
    return seconds


def parser() -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(prog="bmq.spark.tables", description="Write a table of a topic into Iceberg.")
    table = arguments.add_mutually_exclusive_group(required=True)
    table.add_argument("--definition", type=Path, metavar="FILE", help="the table, as JSON")
    table.add_argument("--table", metavar="NAME", help="a table that the cluster has; needs --rest")
    arguments.add_argument("--rest", metavar="URL", help="of any node: asked for the table, and told of progress")
    arguments.add_argument(
        "--rest-config",
        metavar="FILE",
        help="how to log in there, as TOML; else BMQ_REST_CONFIG, BMQ_REST_TOKEN_FILE …",
    )
    arguments.add_argument("--bootstrap", required=True, metavar="HOST:PORT", help="the cluster's address")
    arguments.add_argument("--checkpoint", required=True, metavar="URL", help="a directory of this table's alone")
    place = arguments.add_mutually_exclusive_group(required=True)
    place.add_argument("--warehouse", metavar="URL", help="a directory for tables")
    place.add_argument(
        "--catalog-option",
        type=_pairs,
        action="extend",
        metavar="KEY=VALUE|@FILE",
        help="of Iceberg's catalog: type, uri …; or a file of them",
    )
    arguments.add_argument("--source", default="kafka", metavar="FORMAT", help="of the stream [kafka]")
    arguments.add_argument(
        "--option",
        type=_pairs,
        action="extend",
        default=[],
        metavar="KEY=VALUE|@FILE",
        help="of the source: kafka.security.protocol …; or a file of them",
    )
    often = arguments.add_mutually_exclusive_group()
    often.add_argument(
        "--trigger-s", type=_seconds, default=TRIGGER_S_DEFAULT, metavar="S", help="a batch so often [10]"
    )
    often.add_argument("--available-now", action="store_true", help="end when the table has all there is now")
    arguments.add_argument(
        "--max-offsets-per-trigger", type=_count(1), metavar="N", help="at most so many records a batch"
    )
    arguments.add_argument("--take-over", action="store_true", help="write a table that another job had")
    arguments.add_argument(
        "--accept-rollback", action="store_true", help="go on without the rows that a rollback removed"
    )
    arguments.add_argument(
        "--rebuild-day",
        type=_day,
        metavar="YYYY-MM-DD",
        help="only write this day of an index (UTC) anew, and end; its job may run meanwhile",
    )
    arguments.add_argument(
        "--conf", type=_pair, action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark"
    )
    arguments.add_argument(
        "--output", type=OutputForm, choices=list(OutputForm), default=OutputForm.JSON, help="form of the lines [json]"
    )
    arguments.add_argument(
        "--end-with-parent", action="store_true", help="stop when standard input ends, as that of a dead parent does"
    )
    arguments.add_argument(
        "--merge-every",
        type=_count(0),
        default=MaintenancePolicy().every_commits,
        metavar="N",
        help="commits; 0: never [60]",
    )
    return arguments


def how_to_run(given: argparse.Namespace, on_progress: Callable[[TableProgress], None]) -> TableJobOptions:
    """Convert the arguments for `run_table`."""
    how = TableJobOptions(
        bootstrap=given.bootstrap,
        checkpoint=given.checkpoint,
        source=given.source,
        source_options=dict(given.option),
        trigger_s=None if given.available_now else given.trigger_s,
        take_over=given.take_over,
        accept_rollback=given.accept_rollback,
        maintenance=MaintenancePolicy(every_commits=given.merge_every),
        on_progress=on_progress,
    )
    how["catalog"] = _catalog(given)
    if given.max_offsets_per_trigger is not None:
        how["max_offsets_per_trigger"] = given.max_offsets_per_trigger
    return how


def _catalog(given: argparse.Namespace) -> Catalog:
    if given.warehouse is not None:
        return Catalog.in_warehouse(given.warehouse)
    return Catalog.of_options(dict(given.catalog_option))


def _session(name: str, settings: Mapping[str, str]) -> SparkSession:
    """Raises NoSpark."""
    try:
        return start_session(name, {"spark.redaction.regex": REDACTED, **settings})
    except PySparkException as error:
        raise NoSpark(f"Spark cannot be started (it needs Java 17 or later): {first_line(error)}") from error
    except Py4JJavaError as error:  # before the first session exceptions of Java are not made Spark's own
        raise NoSpark(f"Spark cannot be started as it was asked for: {innermost(error.java_exception)}") from error


def main(arguments: Sequence[str] | None = None, login: RestLogin | None = None) -> int:
    """`login`: at the REST address, in place of `--rest-config` and variables. Returns the exit code."""
    options = parser()
    given = options.parse_args(arguments)
    if (given.table is None) != (given.rest is None):
        options.error("--table and --rest go together")
    if given.rebuild_day is not None:
        return _rebuild_day(given, login)
    cluster: ClusterTable | None = None
    watch = _watch(given)

    def on_progress(progress: TableProgress) -> None:
        _say(batch_line(given.output, progress))
        if cluster is not None:
            cluster.report(progress)

    failure: Exception | None = None
    is_interrupted = False
    name = given.table or str(given.definition)
    try:
        require_spark("a table")
        cluster = None if given.table is None else ClusterTable(given.rest, given.table, login or _login(given))
        read = definition_file(given.definition) if cluster is None else cluster.definition
        name = read().name
        spark = _session(f"bmq table {name}", dict(given.conf))
        with remembered_interrupt():
            job = start_table(spark, read, **how_to_run(given, on_progress))
        stop_at_signals(job.stop)
        if watch is not None:
            watch.stop_by(job.stop)
        _say(running_line(given.output, name, is_first=True))
        # Only now: a job that is refused says nothing of the one that has the table.
        beat = Beat(job.is_active, cluster, lambda: _say(running_line(given.output, name, is_first=False)))
        with heartbeat(beat, REPORT_EVERY_S) if cluster is not None else nullcontext():
            job.wait()
    except _KNOWN as error:
        failure = error
        sys.stderr.write(f"bmq: {error}\n")
        sys.stderr.flush()
    except KeyboardInterrupt:
        is_interrupted = True
    except Exception as error:
        failure = error
        raise
    finally:
        tell_end(cluster, failure)
        _say(ended_line(given.output, name, ending_of(failure), None if failure is None else sentence_of(failure)))
    return INTERRUPTED if is_interrupted else exit_code(failure)


def _rebuild_day(given: argparse.Namespace, login: RestLogin | None) -> int:
    """Nothing is reported to the cluster: the job of the index, which may run, does that. Returns the exit code."""
    try:
        require_spark("a table")
        read = (
            definition_file(given.definition)
            if given.table is None
            else ClusterTable(given.rest, given.table, login or _login(given)).definition
        )
        definition = read()
        spark = _session(f"bmq index {definition.name}, {given.rebuild_day.text}", dict(given.conf))
        options = {"kafka.bootstrap.servers": given.bootstrap, **dict(given.option)}
        rebuild = DayRebuild(spark, definition, _catalog(given), given.source, options)
        with remembered_interrupt():
            rebuilt = rebuild.run(given.rebuild_day, time.time_ns() // 1_000_000)
    except _KNOWN as error:
        sys.stderr.write(f"bmq: {error}\n")
        sys.stderr.flush()
        return exit_code(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    _say(rebuilt.to_text() if given.output is OutputForm.TEXT else rebuilt.to_json())
    return 0


def _login(given: argparse.Namespace) -> RestLogin:
    """Raises TableMismatch."""
    try:
        return login_of({CONFIG: given.rest_config}, os.environ)
    except LoginUnusable as error:
        raise TableMismatch(str(error)) from None


def tell_end(cluster: ClusterTable | None, failure: Exception | None) -> None:
    """Report how the job ended to the cluster, unless the table now belongs to another job, which reports itself."""
    if cluster is not None and not isinstance(failure, TableTaken):
        cluster.ended(None if failure is None else sentence_of(failure))


def sentence_of(failure: Exception) -> str:
    return str(failure) or type(failure).__name__


class Beat:
    """A sign of life, only while Spark's JVM answers: a job whose JVM hangs is silent. Raises nothing."""

    def __init__(self, is_active: Callable[[], bool], cluster: ClusterTable | None, say: Callable[[], object]) -> None:
        self._is_active = is_active
        self._cluster = cluster
        self._say = say

    def __call__(self) -> None:
        try:
            self._is_active()
        except Exception:  # noqa: BLE001 the JVM has ended, and with it the job, which says so
            return
        self._say()
        if self._cluster is not None:
            self._cluster.beat()


def _watch(given: argparse.Namespace) -> ParentWatch | None:
    if not given.end_with_parent:
        return None
    watch = ParentWatch()
    watch.start()
    return watch


_OUTPUT: Final = threading.Lock()


def _say(line: str | None) -> None:
    if line is not None:
        with _OUTPUT:  # batches and signs of life come from different threads
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()


def exit_code(failure: Exception | None) -> int:
    if failure is None:
        return 0
    return FAILED if isinstance(failure, TableJobError) and not isinstance(failure, ChangeNeeded) else REFUSED


if __name__ == "__main__":
    receive_interrupts()
    sys.exit(main())
