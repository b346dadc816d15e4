"""`bmq table`: tables made of topics, through the REST address of any node of the cluster."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from bmq.cli.cluster import AsJson, DryRun, Yes
from bmq.cli.cluster_client import ClusterClient
from bmq.cli.cluster_output import duration_text, quoted, when_text
from bmq.cli.rest_options import DEFAULT_URL, Rest, with_login
from bmq.cli.table_change import change_table, print_change, table_cluster
from bmq.cli.table_file import read_definition
from bmq.cli.table_key import Key, Mode, changes_form
from bmq.cli.table_registry import commands as registry_commands
from bmq.cli.terminal import add_row, print_json, print_table

table_app = typer.Typer(no_args_is_help=True, help="Define tables made of topics, and show their progress.")
table_app.registered_commands += registry_commands.registered_commands

_PAGE: Final = 500

TableName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the table")]
DefinitionFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="The definition as JSON (docs/TABLES.md); - is standard input")
]
Prefix = Annotated[str, typer.Option(help="Only names with this prefix")]
Limit = Annotated[int, typer.Option(min=1, max=100_000, help="Largest number of entries")]


@table_app.command("create")
@with_login
def create(
    file: DefinitionFile,
    key: Key = "",
    mode: Mode = None,
    rest: Rest = DEFAULT_URL,
    is_dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Create a table of a topic; succeeds if an equal one exists."""
    definition = read_definition(file, **changes_form(key, mode))
    with table_cluster(rest) as client:
        body = json.loads(definition.to_json())
        print_change(client.change("POST", "/v1/tables", body, is_dry_run=is_dry_run), as_json)


@table_app.command("alter")
@with_login
def alter(
    file: DefinitionFile,
    rest: Rest = DEFAULT_URL,
    is_dry_run: DryRun = False,
    is_sure: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Change a table to the definition in FILE. Only changes that keep existing rows right are allowed."""
    definition = read_definition(file)
    change_table(
        "PUT", f"/v1/tables/{quoted(definition.name)}", definition.to_json(), rest, is_dry_run, is_sure, as_json
    )


@table_app.command("drop")
@with_login
def drop(
    name: TableName,
    rest: Rest = DEFAULT_URL,
    is_dry_run: DryRun = False,
    is_sure: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Forget a table's definition. Its rows stay."""
    change_table("DELETE", f"/v1/tables/{quoted(name)}", None, rest, is_dry_run, is_sure, as_json)


@table_app.command("list")
@with_login
def table_list(prefix: Prefix = "", limit: Limit = 1_000, rest: Rest = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Tables in the order of their names."""
    with table_cluster(rest) as client:
        found, has_more = _all(client, prefix, limit)
    if as_json:
        print_json(found)
    else:
        table = Table("table", "topic", "format", "fields", "version", "altered", "", box=None, pad_edge=False)
        for each in found:
            cells = (each["topic"], each["format"], each["fields"], each["version"])
            altered = "-" if each["altered_at"] is None else when_text(each["altered_at"])
            add_row(table, each["name"], *(_text(cell) for cell in cells), altered, each["definition_error"] or "")
        print_table(table)
    _tell_of_more(found, has_more)


@table_app.command("describe")
@with_login
def describe(
    name: TableName,
    is_definition: Annotated[
        bool, typer.Option("--definition", help="Only the definition as JSON, as `create` and `alter` take it")
    ] = False,
    rest: Rest = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """One table: its topic, its columns, its partitions."""
    with table_cluster(rest) as client:
        found = client.get(f"/v1/tables/{quoted(name)}")
    if is_definition or as_json:
        print_json(found["definition"] if is_definition else found)
        return
    definition = found["definition"]
    head = Table(box=None, pad_edge=False, show_header=False)
    add_row(head, "table", definition["name"])
    add_row(head, "id", found["table_id"])
    add_row(head, "topic", f"{definition['topic']} ({found['topic_id']})")
    add_row(head, "values", _format_text(definition))
    add_row(head, "rows", _rows_text(definition))
    add_row(head, "begins at", definition["starting_offsets"])
    add_row(head, "partitioned by", ", ".join(map(_partitioning_text, definition["partitioning"])) or "nothing")
    add_row(head, "what does not fit", _misfits_text(definition))
    add_row(head, "version", f"{found['version']}, of {when_text(found['altered_at'])}")
    if definition["description"]:
        add_row(head, "description", definition["description"])
    print_table(head)
    sys.stdout.write("\n")
    fields = Table("column", "type", "from", "", "description", box=None, pad_edge=False)
    for each in definition["fields"]:
        add_row(
            fields,
            each["name"],
            each["type"],
            _source_text(each, definition["format"]),
            _duty_text(each, definition),
            each["description"],
        )
    print_table(fields)


@table_app.command("status")
@with_login
def status(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name of the table [all tables]")] = None,
    prefix: Prefix = "",
    limit: Limit = 100,
    rest: Rest = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Progress of tables: rows, files, and records of the topic that are not in them yet."""
    with table_cluster(rest) as client:
        if name is not None:
            found = client.get(f"/v1/tables/{quoted(name)}/status")
            if as_json:
                print_json(found)
            else:
                _print_status(found)
            return
        tables, has_more = _all(client, prefix, limit)
        known = [each["name"] for each in tables if each["definition_error"] is None]
        found = [client.get(f"/v1/tables/{quoted(each)}/status") for each in known]
    if as_json:
        print_json(found)
    else:
        table = Table(
            "table", "state", "lag", "rows", "misfits", "files", "reported", "error", box=None, pad_edge=False
        )
        for each in found:
            cells = (each["lag"], each["rows"], each["dead_letter_rows"], each["files"])
            reported = "never" if each["reported_at"] is None else when_text(each["reported_at"])
            add_row(table, each["name"], _state_text(each), *map(_text, cells), reported, each["error"] or "")
        print_table(table)
    _tell_of_more(tables, has_more)


# -- Asking --------------------------------------------------------------------------------------------------------


def _all(client: ClusterClient, prefix: str, limit: int) -> tuple[list[Any], bool]:
    """Tables page by page, and whether there are more than `limit`."""
    found: list[Any] = []
    after: str | None = ""
    while after is not None and len(found) < limit:
        page = client.get("/v1/tables", prefix=prefix, after=after, limit=min(_PAGE, limit - len(found)))
        found += page["tables"]
        after = page["next_after"]
    return found, after is not None


# -- Printing ------------------------------------------------------------------------------------------------------


def _print_status(found: Any) -> None:
    head = Table(box=None, pad_edge=False, show_header=False)
    add_row(head, "table", found["name"])
    is_there = "" if found["topic_exists"] else ", which was deleted: nothing more can be read of it"
    add_row(head, "topic", f"{found['topic']}{is_there}")
    add_row(head, "job", _state_text(found))
    if found["error"]:
        add_row(head, "error", found["error"])
    if found["reported_at"] is None:
        add_row(
            head,
            "reported",
            "no job has reported since the active controller began; start it, or wait for its next commit",
        )
    else:
        committed = "never" if found["committed_at"] is None else when_text(found["committed_at"])
        add_row(head, "reported", when_text(found["reported_at"]))
        add_row(head, "committed", committed)
        add_row(head, "snapshot", _text(found["snapshot_id"]))
        add_row(head, "rows", _text(found["rows"]))
        add_row(head, "did not fit", _text(found["dead_letter_rows"]))
        add_row(head, "files", _text(found["files"]))
        add_row(head, "bytes", _text(found["bytes"]))
        add_row(head, "lag", _text(found["lag"]))
    print_table(head)
    if found["partitions"]:
        sys.stdout.write("\n")
        table = Table("partition", "next offset", "end", "lag", box=None, pad_edge=False)
        for each in found["partitions"]:
            cells = (each["partition"], each["offset"], each["end_offset"])
            lag = each["lag"] if found["reported_at"] is not None else None
            add_row(table, *map(_text, cells), _text(lag))
        print_table(table)


def _tell_of_more(found: list[Any], has_more: bool) -> None:
    if has_more:
        sys.stderr.write(f"there are more than these {len(found)}; see --limit and --prefix\n")


def _text(value: object) -> str:
    return "-" if value is None else str(value)


def _state_text(found: Any) -> str:
    if found["state"] is None:
        return "not known"
    if found.get("silent_s") is not None:  # older releases do not say it
        return f"silent for {duration_text(found['silent_s'])}"
    return str(found["state"]) if found["topic_exists"] else f"{found['state']}, without its topic"


def _format_text(definition: Any) -> str:
    match definition["format"]:
        case "avro":
            ids = ", ".join(sorted(definition["avro"]["writer_schemas"], key=int))
            return f"avro, schemas {ids}" if ids else "avro, one schema"
        case "protobuf":
            ids = ", ".join(sorted(definition["protobuf"].get("message_indexes", {}), key=int))
            return f"protobuf {definition['protobuf']['message']}" + (f", schemas {ids}" if ids else "")
        case other:
            return str(other)


def _partitioning_text(each: Any) -> str:
    if each["by"] == "identity":
        return str(each["field"])
    buckets = f" ({each['buckets']})" if each["buckets"] is not None else ""
    return f"{each['by']}{buckets} of {each['field']}"


def _rows_text(definition: Any) -> str:
    changes = definition.get("changes")  # older releases have no such key
    if changes is None:
        return "one for each record"
    return f"the last record of each {', '.join(changes['key'])} ({changes['mode']})"


def _duty_text(field: Any, definition: Any) -> str:
    if field["name"] in (definition.get("changes") or {"key": ()})["key"]:
        return "key"
    return "required" if field["required"] else ""


def _misfits_text(definition: Any) -> str:
    if definition["misfits"] == "stop":
        return "stops the job"
    return f"goes to {definition['dead_letter'] or definition['name'] + '_dead_letter'}"


def _source_text(field: Any, value_format: str) -> str:
    path = ".".join(field["path"]) or field["name"]
    match field["source"]:
        case "value" if value_format == "raw":
            return "value"
        case "value":
            unit = f" ({field['unit']})" if field["unit"] else ""
            return f"value {path}{unit}"
        case "header":
            return f"header {path}"
        case other:
            return str(other)
