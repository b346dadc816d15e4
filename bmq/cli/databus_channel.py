"""`bmq databus channel`: what applications hand records to, through the REST address of any node of the cluster."""

from __future__ import annotations

import base64
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from bmq.channels.channel import SCHEMA_BYTES_MAX, Acks, Compression, InvalidChannel, KeyBy, SchemaCheck, SpoolFull
from bmq.cli.bounded_file import read_bounded
from bmq.cli.cluster import AsJson, DryRun, Yes
from bmq.cli.cluster_client import ClusterClient, ClusterRefused
from bmq.cli.cluster_output import quoted, when_text
from bmq.cli.rest_options import DEFAULT_URL, Rest, with_login
from bmq.cli.terminal import add_row, is_terminal, print_json, print_table

channel_app = typer.Typer(no_args_is_help=True, help="Channels: what applications hand records to.")

_PAGES: Final = "/v1/channels"
_NO_SUCH_PAGE: Final = "Not Found"
_CONTENTS: Final = {KeyBy.HEADER: "header", KeyBy.JSON_PATH: "path", KeyBy.CONSTANT: "constant"}

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the channel")]
Topic = Annotated[str, typer.Option("--topic", "-t", metavar="TOPIC", help="The topic that its records go to")]
OtherTopic = Annotated[
    str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="The topic that its records go to")
]
KeyRuleText = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="RULE",
        help="Where keys come from: none, header:NAME, json_path:FIELD.FIELD or constant:TEXT [none]",
    ),
]
CompressionName = Annotated[Compression | None, typer.Option("--compression", help="Codec of batches [lz4]")]
Linger = Annotated[
    int | None, typer.Option("--linger-ms", metavar="MS", help="How long records wait for others of their batch [100]")
]
BatchBytes = Annotated[int | None, typer.Option("--batch-bytes", metavar="BYTES", help="Largest batch [1048576]")]
AcksName = Annotated[Acks | None, typer.Option("--acks", help="Only with all does a record land once [all]")]
SamplingRate = Annotated[
    float | None, typer.Option("--sampling-rate", metavar="SHARE", help="Share of records produced, 0 to 1 [1]")
]
RecordRate = Annotated[
    int | None,
    typer.Option("--rate-limit-records-per-s", metavar="N", min=0, help="Of one agent; 0: no limit [no limit]"),
]
ByteRate = Annotated[
    int | None,
    typer.Option("--rate-limit-bytes-per-s", metavar="N", min=0, help="Of one agent; 0: no limit [no limit]"),
]
RecordBytes = Annotated[
    int | None, typer.Option("--max-record-bytes", metavar="BYTES", help="Largest record an agent takes [1000000]")
]
Check = Annotated[
    SchemaCheck | None,
    typer.Option("--schema-check", help="The check of values; --json-schema gives the schema [none]"),
]
SchemaFile = Annotated[
    Path | None,
    typer.Option("--json-schema", metavar="FILE", help="A JSON Schema of values; sets --schema-check json_schema"),
]
ProtobufFile = Annotated[
    Path | None,
    typer.Option(
        "--protobuf",
        metavar="FILE",
        help="protoc's descriptor set; with --protobuf-message it sets --schema-check protobuf",
    ),
]
MessageOption = Annotated[
    str | None, typer.Option("--protobuf-message", metavar="NAME", help="Full name of the message that values are")
]
Spool = Annotated[
    SpoolFull | None, typer.Option("--spool-full", help="The answer of an agent whose spool is full [refuse]")
]
Enabled = Annotated[bool | None, typer.Option("--enabled/--disabled", help="Whether agents take its records [enabled]")]
Description = Annotated[str | None, typer.Option("--description", metavar="TEXT", help="For people")]
CreateTopic = Annotated[bool, typer.Option("--create-topic", help="Create the topic if it is missing")]
Partitions = Annotated[
    int | None,
    typer.Option("--partitions", min=1, metavar="N", help="Number of partitions of a created topic [num.partitions]"),
]


@channel_app.command("create")
@with_login
def create(
    name: Name,
    topic: Topic,
    key: KeyRuleText = None,
    compression: CompressionName = None,
    linger_ms: Linger = None,
    batch_bytes: BatchBytes = None,
    acks: AcksName = None,
    sampling_rate: SamplingRate = None,
    rate_limit_records_per_s: RecordRate = None,
    rate_limit_bytes_per_s: ByteRate = None,
    max_record_bytes: RecordBytes = None,
    schema_check: Check = None,
    json_schema: SchemaFile = None,
    protobuf: ProtobufFile = None,
    protobuf_message: MessageOption = None,
    spool_full: Spool = None,
    enabled: Enabled = None,
    description: Description = None,
    create_topic: CreateTopic = False,
    partitions: Partitions = None,
    rest: Rest = DEFAULT_URL,
    is_dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Create a channel; succeeds if an equal one exists. Agents know it within a second."""
    given = _given(locals())
    query = {"if_version": 0, "create_topic": "true" if create_topic else None, "partitions": partitions}
    with _cluster(rest) as client:
        change = client.change(
            "PUT", f"{_PAGES}/{quoted(name)}", {"name": name, **given}, is_dry_run=is_dry_run, **query
        )
    _print_change(change, as_json)


@channel_app.command("alter")
@with_login
def alter(
    name: Name,
    topic: OtherTopic = None,
    key: KeyRuleText = None,
    compression: CompressionName = None,
    linger_ms: Linger = None,
    batch_bytes: BatchBytes = None,
    acks: AcksName = None,
    sampling_rate: SamplingRate = None,
    rate_limit_records_per_s: RecordRate = None,
    rate_limit_bytes_per_s: ByteRate = None,
    max_record_bytes: RecordBytes = None,
    schema_check: Check = None,
    json_schema: SchemaFile = None,
    protobuf: ProtobufFile = None,
    protobuf_message: MessageOption = None,
    spool_full: Spool = None,
    enabled: Enabled = None,
    description: Description = None,
    create_topic: CreateTopic = False,
    partitions: Partitions = None,
    rest: Rest = DEFAULT_URL,
    is_dry_run: DryRun = False,
    is_sure: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Change what the options name, and leave the rest. Agents follow within a second."""
    given = _given(locals())
    if not given:
        raise typer.BadParameter("name what to change, for example --linger-ms 50")
    query = {"create_topic": "true" if create_topic else None, "partitions": partitions}
    path = f"{_PAGES}/{quoted(name)}"
    with _cluster(rest) as client:
        known = client.get(path)
        if given.get("schema_check", SchemaCheck.JSON_SCHEMA.value) != SchemaCheck.JSON_SCHEMA.value:
            given["json_schema"] = None
        is_other = given.get("schema_check", SchemaCheck.PROTOBUF.value) != SchemaCheck.PROTOBUF.value
        if is_other and "protobuf" in known["channel"]:  # earlier releases refuse a key that they do not know
            given["protobuf"] = None
        body = {**known["channel"], **given}
        _change(client, "PUT", path, body, {"if_version": known["version"], **query}, is_dry_run, is_sure, as_json)


@channel_app.command("delete")
@with_login
def delete(
    name: Name,
    rest: Rest = DEFAULT_URL,
    is_dry_run: DryRun = False,
    is_sure: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete a channel: agents refuse its records. Its topic stays."""
    with _cluster(rest) as client:
        _change(client, "DELETE", f"{_PAGES}/{quoted(name)}", None, {}, is_dry_run, is_sure, as_json)


@channel_app.command("list")
@with_login
def channel_list(rest: Rest = DEFAULT_URL, as_json: AsJson = False) -> None:
    """All channels in the order of their names, and the version of all together."""
    with _cluster(rest) as client:
        found = client.get(_PAGES)
    if as_json:
        print_json(found)
        return
    table = Table("channel", "topic", "enabled", "key", "version", "altered", "", box=None, pad_edge=False)
    for each in found["channels"]:
        state = found["states"].get(each["name"])
        cells = (
            (str(state["version"]), when_text(state["altered_at"]), state["topic_problem"] or "")
            if state
            else ("-", "-", "")
        )
        add_row(table, each["name"], each["topic"], _yes_or_no(each["enabled"]), key_text(each["key"]), *cells)
    for name, why in found["unreadable"].items():
        add_row(table, name, "-", "-", "-", "-", "-", why)
    print_table(table)
    sys.stdout.write(f"version of all channels: {found['version']}\n")


@channel_app.command("show")
@with_login
def show(
    name: Name,
    is_schema: Annotated[bool, typer.Option("--schema", help="Only the JSON Schema of its values")] = False,
    rest: Rest = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """One channel, and whether its topic is there."""
    with _cluster(rest) as client:
        found = client.get(f"{_PAGES}/{quoted(name)}")
    channel = found["channel"]
    if is_schema:
        if channel["json_schema"] is None:
            raise ClusterRefused(f"channel {name} has no JSON Schema")
        sys.stdout.write(f"{channel['json_schema']}\n")
        return
    if as_json:
        print_json(found)
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    for label, value in channel.items():
        add_row(table, label, _value_text(label, value))
    add_row(table, "version", f"{found['version']}, of {when_text(found['altered_at'])}")
    if found["topic_problem"]:
        add_row(table, "problem", found["topic_problem"])
    print_table(table)


# -- Options -------------------------------------------------------------------------------------------------------

_KEYS: Final = (
    "topic",
    "compression",
    "linger_ms",
    "batch_bytes",
    "acks",
    "sampling_rate",
    "rate_limit_records_per_s",
    "rate_limit_bytes_per_s",
    "max_record_bytes",
    "schema_check",
    "spool_full",
    "enabled",
    "description",
)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """The keys of a channel that options name. Raises InvalidChannel."""
    given = {key: options[key] for key in _KEYS if options[key] is not None}
    for limit in ("rate_limit_records_per_s", "rate_limit_bytes_per_s"):
        if given.get(limit) == 0:
            given[limit] = None
    for choice in ("compression", "acks", "schema_check", "spool_full"):
        if choice in given:
            given[choice] = given[choice].value
    if not math.isfinite(given.get("sampling_rate", 1.0)):
        raise typer.BadParameter("a number from 0 to 1 is wanted", param_hint="--sampling-rate")
    if options["key"] is not None:
        given["key"] = _key_rule(options["key"])
    if options["json_schema"] is not None:
        if given.get("schema_check", SchemaCheck.JSON_SCHEMA.value) != SchemaCheck.JSON_SCHEMA.value:
            raise InvalidChannel("--json-schema is given, but --schema-check is another one; leave one of them out")
        given["schema_check"] = SchemaCheck.JSON_SCHEMA.value
        given["json_schema"] = _schema(options["json_schema"])
    if options["protobuf"] is not None or options["protobuf_message"] is not None:
        if options["protobuf"] is None or options["protobuf_message"] is None:
            raise InvalidChannel("--protobuf and --protobuf-message are given together")
        if given.get("schema_check", SchemaCheck.PROTOBUF.value) != SchemaCheck.PROTOBUF.value:
            raise InvalidChannel("--protobuf is given, but --schema-check is another one; leave one of them out")
        given["schema_check"] = SchemaCheck.PROTOBUF.value
        data = base64.b64encode(_content(options["protobuf"])).decode()
        given["protobuf"] = {"message": options["protobuf_message"], "descriptor_set": data}
    return given


def _key_rule(text: str) -> dict[str, str]:
    by, colon, content = text.partition(":")
    if by == KeyBy.NONE.value and not colon:
        return {"by": by}
    for each, name in _CONTENTS.items():
        if by == each.value and content:
            return {"by": by, name: content}
    raise typer.BadParameter(
        f"{text[:100]!r} is no rule: none, header:NAME, json_path:FIELD.FIELD or constant:TEXT", param_hint="--key"
    )


def _schema(path: Path) -> str:
    try:
        return _content(path).decode()
    except UnicodeDecodeError:
        raise InvalidChannel(f"{path} is no text in UTF-8") from None


def _content(path: Path) -> bytes:
    return read_bounded(path, SCHEMA_BYTES_MAX, InvalidChannel)


# -- Asking --------------------------------------------------------------------------------------------------------


@contextmanager
def _cluster(rest: str) -> Iterator[ClusterClient]:
    with ClusterClient(rest) as client:
        try:
            yield client
        except ClusterRefused as error:
            if str(error) != _NO_SUCH_PAGE:
                raise
            raise ClusterRefused(
                "the node that has to answer is of a release without channels; upgrade the nodes first"
            ) from error


def _change(
    client: ClusterClient,
    method: str,
    path: str,
    body: dict[str, Any] | None,
    query: dict[str, Any],
    is_dry_run: bool,
    is_sure: bool,
    as_json: bool,
) -> None:
    is_asked = not is_sure and not as_json and is_terminal()
    if is_dry_run or is_asked:
        _print_change(client.change(method, path, body, is_dry_run=True, **query), as_json)
        if is_dry_run:
            return
        typer.confirm("Go ahead?", abort=True)
    change = client.change(method, path, body, **query)
    if not is_asked:
        _print_change(change, as_json)


# -- Printing ------------------------------------------------------------------------------------------------------


def _print_change(change: Any, as_json: bool) -> None:
    if as_json:
        print_json(change)
        return
    sys.stdout.write(f"{change['summary']}\n")
    for each in change["changes"]:
        sys.stdout.write(f"  {each}\n")
    if change["channel"] is not None and change["channel"]["topic_problem"]:
        sys.stdout.write(f"  {change['channel']['topic_problem']}\n")


def key_text(key: Any) -> str:
    """A key rule as `--key` takes it."""
    content = key["header"] or ".".join(key["path"]) or key["constant"]
    return f"{key['by']}:{content}" if content else str(key["by"])


def _yes_or_no(value: bool) -> str:
    return "yes" if value else "no"


def _value_text(label: str, value: Any) -> str:
    if value is None:
        return "-"
    if label == "key":
        return key_text(value)
    if label == "json_schema":
        return f"{len(value)} characters; --schema shows them"
    if label == "protobuf":
        return f"{value['message']}, with its descriptor set"
    return _yes_or_no(value) if isinstance(value, bool) else str(value)
