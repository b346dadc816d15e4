"""`bmq index`: indexes of topics, and queries on them. An index is a table with a layout for lookups, so most goes to `/v1/tables`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from bmq.cli import table
from bmq.cli.cluster import AsJson, DryRun
from bmq.cli.cluster_client import ClusterClient
from bmq.cli.cluster_output import quoted, when_text
from bmq.cli.index_output import print_answer, print_explanation
from bmq.cli.kafka.options import DEFAULT_BOOTSTRAP, Bootstrap, KafkaSettings, cluster_settings, settings_of
from bmq.cli.rest_options import DEFAULT_URL, Rest, current_login, with_login
from bmq.cli.table_file import read_definition
from bmq.cli.terminal import add_row, print_json, print_table
from bmq.extras import install_command
from bmq.protocol.errors import BmqError
from bmq.server.logs import configure_logs
from bmq.spark.jobs.outcome import JobFailed
from bmq.spark.jobs.time_text import milliseconds
from bmq.table_definitions.definition import InvalidDefinition

index_app = typer.Typer(no_args_is_help=True, help="Find records by what is in them: indexes of topics.")

_PAGE: Final = 500
_QUERY_WAIT_S: Final = 75.0
"""More than a node waits for the query service."""
_PORT_MAX: Final = 65_535
_MIB: Final = 1024 * 1024

IndexName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the index")]
Warehouse = Annotated[
    str,
    typer.Option(
        "--warehouse",
        envvar="BMQ_TABLES_WAREHOUSE",
        metavar="URL",
        help="Directory of the index's files, as its job was given it: hdfs://… or /…",
    ),
]
TimeoutS = Annotated[float, typer.Option("--timeout-s", min=0.1, max=3_600, metavar="S", help="Time of one query")]
FileMib = Annotated[
    int, typer.Option("--file-mib", min=1, metavar="MIB", help="A query that reads more of the files is refused")
]
TailMib = Annotated[
    int, typer.Option("--tail-mib", min=1, metavar="MIB", help="So much is read of what is not indexed yet")
]
MemoryMib = Annotated[int, typer.Option("--memory-mib", min=32, metavar="MIB", help="Memory of the database")]


class MissingIndexLibrary(BmqError):
    """A library that queries need is not installed."""


@index_app.command("create")
@with_login
def create(
    name: IndexName,
    topic: Annotated[str, typer.Option("--topic", metavar="TOPIC", help="Topic of the index")],
    ddl: Annotated[
        Path,
        typer.Option("--ddl", metavar="FILE", help="Fields and keys as JSON (docs/INDEX.md); - is standard input"),
    ],
    rest: Rest = DEFAULT_URL,
    is_dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Create an index of a topic; succeeds if an equal one exists. Its job fills it: bmq spark index NAME."""
    definition = read_definition(ddl, name=name, topic=topic)
    if definition.index is None:
        raise InvalidDefinition(f"{ddl}: index is missing: it says by which keys records are found (docs/INDEX.md)")
    with ClusterClient(rest) as client:
        change = client.change("POST", "/v1/tables", json.loads(definition.to_json()), is_dry_run=is_dry_run)
    print_json(change) if as_json else sys.stdout.write(f"{change['summary']}\n")


@index_app.command("list")
@with_login
def index_list(
    prefix: Annotated[str, typer.Option(help="Only names with this prefix")] = "",
    rest: Rest = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Indexes in the order of their names."""
    found = []
    after: str | None = ""
    with ClusterClient(rest) as client:
        while after is not None:
            page = client.get("/v1/tables", prefix=prefix, after=after, limit=_PAGE)
            found += [each for each in page["tables"] if each.get("is_index")]
            after = page["next_after"]
    if as_json:
        print_json(found)
        return
    shown = Table("index", "topic", "format", "fields", "version", "altered", box=None, pad_edge=False)
    for each in found:
        cells = (each["name"], each["topic"], each["format"], each["fields"], each["version"])
        add_row(shown, *map(str, cells), when_text(each["altered_at"]))
    print_table(shown)


index_app.command("describe", help="One index: its topic, its fields, its keys.")(table.describe)
index_app.command("alter", help="Give an index another retention: FILE is the whole definition.")(table.alter)
index_app.command("status", help="Progress of an index: rows, files, and records that are not in it yet.")(table.status)
index_app.command("drop", help="Forget an index's definition. Its files stay.")(table.drop)


@index_app.command("query")
@with_login
def query_command(
    name: IndexName,
    keys: Annotated[
        list[str] | None, typer.Option("--key", metavar="FIELD=VALUE", help="Records with this value; may be repeated")
    ] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option("--range", metavar="FIELD=FROM..TO", help="Values from FROM on and before TO; one may be empty"),
    ] = None,
    prefixes: Annotated[
        list[str] | None, typer.Option("--prefix", metavar="FIELD=TEXT", help="Texts that begin so")
    ] = None,
    from_time: Annotated[
        str, typer.Option("--from", metavar="TIME", help="From this time: 2026-11-24T10:00, milliseconds, -2h")
    ] = "",
    to_time: Annotated[str, typer.Option("--to", metavar="TIME", help="Before this time")] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, metavar="N", help="Largest number of rows")] = 100,
    order: Annotated[str, typer.Option("--order", metavar="asc|desc", help="Oldest or least first, or last")] = "asc",
    order_by: Annotated[
        str, typer.Option("--order-by", metavar="FIELD", help="Field of the order; without it the index's time")
    ] = "",
    has_records: Annotated[bool, typer.Option("--records", help="Whole records, not only their places")] = False,
    continuation: Annotated[
        str, typer.Option("--continue", metavar="TOKEN", help="The next rows of the same query")
    ] = "",
    is_explained: Annotated[bool, typer.Option("--explain", help="Show what would be read, and read nothing")] = False,
    is_local: Annotated[
        bool, typer.Option("--local", help="Answer it in this process, not by `bmq index serve`")
    ] = False,
    warehouse: Warehouse = "",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    kafka: KafkaSettings = None,
    timeout_s: TimeoutS = 30.0,
    file_mib: FileMib = 1_024,
    tail_mib: TailMib = 64,
    memory_mib: MemoryMib = 256,
    rest: Rest = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Records with these values. All conditions must hold. Standard error says up to where the answer is complete."""
    form = {
        "equals": settings_of(keys, "--key"),
        "ranges": {field: _range(text) for field, text in settings_of(ranges, "--range").items()},
        "prefixes": settings_of(prefixes, "--prefix"),
        "from": _time(from_time),
        "to": _time(to_time),
        "limit": limit,
        "order": order,
        "order_by": order_by or None,
        "records": has_records,
        "explain": is_explained,
        "continuation": continuation or None,
    }
    with ClusterClient(rest, wait_s=_QUERY_WAIT_S) as client:
        if is_local:
            stored = client.get(f"/v1/tables/{quoted(name)}")
            limits = _limits(timeout_s, file_mib, tail_mib, memory_mib)
            answer = _local_answer(stored, form, warehouse, cluster_settings(bootstrap, kafka), limits)
        else:
            answer = client.change("POST", f"/v1/indexes/{quoted(name)}/query", form)
    if as_json:
        print_json(answer)
    elif is_explained:
        print_explanation(answer)
    else:
        print_answer(answer)


@index_app.command("serve")
@with_login
def serve_command(
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Address for the nodes; port 0 takes a free one")
    ] = "127.0.0.1:8090",
    warehouse: Warehouse = "",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    kafka: KafkaSettings = None,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="A file with the token that nodes have to send"),
    ] = None,
    queries_max: Annotated[int, typer.Option("--queries", min=1, max=64, metavar="N", help="Queries at once")] = 2,
    waiting_max: Annotated[
        int, typer.Option("--waiting", min=0, max=1_000, metavar="N", help="So many wait; more are refused")
    ] = 16,
    timeout_s: TimeoutS = 30.0,
    file_mib: FileMib = 1_024,
    tail_mib: TailMib = 64,
    memory_mib: MemoryMib = 256,
    rest: Rest = DEFAULT_URL,
) -> None:
    """Answer queries on indexes, which nodes forward here (index_service.url), until SIGTERM or Ctrl-C."""
    with libraries():
        from bmq.index.engine import EngineLimits
        from bmq.index.serving import ServeSettings, serve
    from bmq.rest_client.client import NoUrl, RestClient

    if not warehouse:
        raise typer.BadParameter("name the directory of the indexes' files", param_hint="--warehouse")
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > _PORT_MAX:
        raise typer.BadParameter(f"{listen!r} is not HOST:PORT", param_hint="--listen")
    try:
        client = RestClient(rest, current_login(), timeout=10.0)
    except NoUrl as error:
        raise typer.BadParameter(str(error), param_hint="--rest") from None
    settings = ServeSettings(
        host=host.strip("[]"),
        port=int(port),
        warehouse=warehouse,
        kafka=cluster_settings(bootstrap, kafka),
        token_file=token_file,
        queries_max=queries_max,
        waiting_max=waiting_max,
        limits=EngineLimits(**_limits(timeout_s, file_mib, tail_mib, memory_mib)),
    )
    configure_logs("info", "auto")
    with closing(client):
        serve(settings, client)


def _range(text: str) -> dict[str, Any]:
    start, dots, end = text.partition("..")
    if not dots:
        raise typer.BadParameter(f"{text!r} is not FROM..TO", param_hint="--range")
    return {"from": start or None, "to": end or None}


def _time(text: str) -> int | None:
    """Raises typer.BadParameter."""
    try:
        return milliseconds(text, now_ms=time.time_ns() // 1_000_000) if text else None
    except JobFailed as error:
        raise typer.BadParameter(str(error), param_hint="--from, --to") from None


def _limits(timeout_s: float, file_mib: int, tail_mib: int, memory_mib: int) -> dict[str, Any]:
    return {
        "timeout_s": timeout_s,
        "file_bytes_max": file_mib * _MIB,
        "tail_bytes_max": tail_mib * _MIB,
        "memory_bytes": memory_mib * _MIB,
    }


def _local_answer(
    stored_form: Any, form: dict[str, Any], warehouse: str, kafka: dict[str, str], limits: dict[str, Any]
) -> Any:
    with libraries():
        from bmq.index.engine import EngineLimits, QueryEngine
        from bmq.index.file_planning import IndexFiles
        from bmq.index.query import IndexQuery
        from bmq.index.stored_index import stored_index
        from bmq.index.topic_log import TopicLog
    if not warehouse:
        raise typer.BadParameter("name the directory of the index's files", param_hint="--warehouse")
    stored = stored_index(stored_form)
    query = IndexQuery.from_json(json.dumps(form))
    with (
        closing(TopicLog(kafka)) as topics,
        closing(
            QueryEngine(
                IndexFiles(warehouse), topics, EngineLimits(**limits), now_ms=lambda: time.time_ns() // 1_000_000
            )
        ) as engine,
    ):
        return engine.query(stored, query).to_json()


@contextmanager
def libraries() -> Iterator[None]:
    """Raises MissingIndexLibrary."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "bmq":
            raise
        raise MissingIndexLibrary(f"this command needs {error.name}: {install_command('index')}") from error
