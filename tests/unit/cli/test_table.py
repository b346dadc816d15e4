"""`bmq table` against a node's REST application: definitions out of files, what is shown, and how failures are said."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from bmq.cli import cluster_client
from bmq.cli.cluster_client import ClusterRefused
from bmq.cli.commands import app
from bmq.cli.table import _state_text
from bmq.cli.table_file import read_definition
from bmq.table_definitions.definition import InvalidDefinition, TableDefinition
from tests.unit.cli.rest_node import Node
from tests.unit.table_definitions.definitions import ORDER_SCHEMA, avro_form, descriptor_set, json_form, protobuf_form

pytestmark = pytest.mark.unit

FORM = {**json_form(), "name": "rows", "topic": "orders"}
NOTE = {"name": "note", "type": "string", "source": "header", "path": ["x.note"], "description": "[bold]Not markup"}


def bmq(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(app, ["table", *arguments], input=given)


def shown(*arguments: str) -> str:
    result = bmq(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def document(*arguments: str) -> Any:
    return json.loads(shown(*arguments, "--json"))


def written(directory: Path, form: Any, name: str = "table.json") -> str:
    path = directory / name
    path.write_text(json.dumps(form), encoding="utf-8")
    return str(path)


def test_a_table_from_its_file_to_its_end(node: Node, tmp_path: Path) -> None:
    file = written(tmp_path, FORM)
    sentence = "Table rows is made of topic orders (3 partitions).\n"
    assert shown("create", file, "--dry-run") == sentence
    assert "rows" not in node.cluster.image.tables
    assert shown("create", file) == sentence
    assert shown("create", file) == "Table rows is there already.\n"
    assert document("create", file)["table"]["version"] == 1

    text = shown("describe", "rows", "--definition")
    assert TableDefinition.from_json(text) == TableDefinition.model_validate(FORM)
    more = json.loads(text)
    more["fields"].append(NOTE)
    file = written(tmp_path, more)
    expected = (
        "Table rows changes; its job follows with its next batch.\n"
        "  field note (string) is added; rows that are there have null\n"
    )
    assert shown("alter", file, "--dry-run") == expected
    assert document("describe", "rows")["version"] == 1
    assert shown("alter", file) == expected
    assert document("describe", "rows")["version"] == 2
    assert shown("alter", file) == "Table rows is so already: nothing changes.\n"

    assert [each["name"] for each in document("list")] == ["orders", "rows"]
    assert "The definition of table rows is dropped" in shown("drop", "rows", "--dry-run")
    assert "rows" in node.cluster.image.tables
    assert document("drop", "rows")["table"] is None
    assert [each["name"] for each in document("list")] == ["orders"]


def test_a_definition_from_standard_input(node: Node) -> None:
    result = bmq("create", "-", given=json.dumps(FORM))
    assert result.exit_code == 0, result.exception
    assert "rows" in node.cluster.image.tables


def test_a_table_with_a_key_from_the_command(node: Node, tmp_path: Path) -> None:
    file = written(tmp_path, FORM)
    shown("create", file, "--key", "id")
    stored = node.cluster.image.tables["rows"]
    assert '"changes":{"key":["id"],"mode":"upsert"' in str(stored)
    text = " ".join(shown("describe", "rows").split())
    assert "rows the last record of each id (upsert)" in text and "id long value id key" in text
    assert bmq("create", file, "--key", "id", "--mode", "debezium").exit_code == 1, "another one exists"
    with_key = written(tmp_path, {**FORM, "changes": {"key": ["id"], "mode": "upsert"}}, "key.json")
    assert shown("create", with_key) == "Table rows is there already.\n"
    refused = bmq("create", with_key, "--key", "city")
    assert refused.exit_code == 1 and "the command says" in str(refused.exception)


@pytest.mark.parametrize(("answer", "is_done"), [("n", False), ("y", True)])
def test_on_a_terminal_what_changes_is_shown_and_asked_for(
    node: Node, monkeypatch: pytest.MonkeyPatch, answer: str, is_done: bool
) -> None:
    monkeypatch.setattr("bmq.cli.table_change.is_terminal", lambda: True)
    result = bmq("drop", "orders", given=f"{answer}\n")
    assert result.output.count("The definition of table orders is dropped; its rows stay where they are.") == 1
    assert "Go ahead?" in result.output
    assert result.exit_code == (0 if is_done else 1)
    assert ("orders" in node.cluster.image.tables) is not is_done
    if not is_done:
        assert "Go ahead?" not in shown("drop", "orders", "--yes")


def test_tables_are_described(node: Node, tmp_path: Path) -> None:
    form = {
        **FORM,
        "fields": [*FORM["fields"], NOTE, {"name": "t", "type": "timestamp", "unit": "ms", "required": True}],
    }
    shown("create", written(tmp_path, {**form, "description": "All of them."}))
    text = shown("describe", "rows")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    table_id = node.cluster.image.topics["orders"].topic_id
    for line in (
        "table rows",
        f"topic orders ({table_id})",
        "values json",
        "rows one for each record",
        "begins at earliest",
        "partitioned by day of at, bucket (16) of id",
        "what does not fit goes to rows_dead_letter",
        "version 1, of 2023-11-14 22:13:20.000Z",
        "description All of them.",
        "id long value id required",
        "city string value customer.address.city",
        "at timestamp timestamp",
        "note string header x.note [bold]Not markup",
        "t timestamp value t (ms) required",
    ):
        assert line in lines
    shown(
        "create",
        written(tmp_path, {**avro_form(writer_schemas={"10": ORDER_SCHEMA, "9": ORDER_SCHEMA}), "name": "avro"}),
    )
    text = shown("describe", "avro")
    assert "avro, schemas 9, 10" in text
    assert "partitioned by nothing" in " ".join(text.split())
    raw = {
        "name": "raw",
        "topic": "orders",
        "format": "raw",
        "fields": [{"name": "v", "type": "binary"}],
        "misfits": "stop",
    }
    shown("create", written(tmp_path, raw))
    text = shown("describe", "raw")
    assert "what does not fit stops the job" in " ".join(text.split())
    assert text.splitlines()[-1].split() == ["v", "binary", "value"]
    shown("create", written(tmp_path, {**avro_form(), "name": "bare"}))
    assert "avro, one schema" in shown("describe", "bare")
    shown("create", written(tmp_path, {**protobuf_form(), "name": "proto"}))
    assert "protobuf shop.Order" in shown("describe", "proto")


def test_tables_are_listed(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmq.cli.table._PAGE", 2)
    for number in range(4):
        shown("create", written(tmp_path, {**FORM, "name": f"rows{number}"}))
    lines = [line.split() for line in shown("list").splitlines()]
    assert lines[0] == ["table", "topic", "format", "fields", "version", "altered"]
    assert lines[1] == ["orders", "orders", "json", "4", "1", "1970-01-01", "00:00:01.000Z"]
    assert [line[0] for line in lines[2:]] == [f"rows{number}" for number in range(4)]
    result = bmq("list", "--prefix", "rows", "--limit", "3")
    assert len(result.stdout.splitlines()) == 4
    assert result.stderr == "there are more than these 3; see --limit and --prefix\n"


def test_how_far_tables_are(node: Node) -> None:
    text = shown("status", "orders")
    assert "no job has reported since the active controller began" in text
    assert [line.split() for line in text.splitlines()][-3:] == [
        ["0", "-", "5", "-"],
        ["1", "-", "0", "-"],
        ["2", "-", "0", "-"],
    ]
    assert shown("status").splitlines()[1].split() == ["orders", "not", "known", "-", "-", "-", "-", "never"]
    table = document("describe", "orders")

    async def report() -> None:
        body = {
            "table_id": table["table_id"],
            "topic_id": table["topic_id"],
            "partitions": [{"partition": 0, "offset": 2}],
            "committed_at": "2026-01-02T03:04:05Z",
            "snapshot_id": 99,
            "rows": 7,
            "files": 3,
            "bytes": 100,
            "state": "failed",
            "error": "the disk is full",
        }
        await node.cluster.put("/v1/tables/orders/status", body=body)

    node.run(report)
    lines = [" ".join(line.split()) for line in shown("status", "orders").splitlines()]
    for line in (
        "job failed",
        "error the disk is full",
        "committed 2026-01-02 03:04:05.000Z",
        "snapshot 99",
        "rows 7",
        "did not fit -",
        "files 3",
        "bytes 100",
        "lag 3",
        "0 2 5 3",
    ):
        assert line in lines
    row = shown("status").splitlines()[1].split()
    assert row[:6] == ["orders", "failed", "3", "7", "-", "3"]
    assert document("status", "orders")["silent_s"] is None
    assert document("status", "orders")["lag"] == 3
    assert [each["name"] for each in document("status")] == ["orders"]


def test_a_job_that_is_silent_is_told_with_an_age() -> None:
    running = {"state": "running", "topic_exists": True}
    assert _state_text({**running, "silent_s": None}) == "running"
    assert _state_text(running) == "running", "of an older release"
    for seconds, text in ((101, "1 min"), (59, "59 s"), (3_600, "1 h"), (86_399, "23 h"), (200_000, "2 d")):
        assert _state_text({**running, "silent_s": seconds}) == f"silent for {text}"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("drop", "none"), "there is no table none"),
        (("describe", "none"), "there is no table none"),
        (("status", "none"), "there is no table none"),
        (("describe", "No"), "path.name: String should match pattern '^[a-z][a-z0-9_]{0,99}$'"),
    ],
)
def test_what_the_cluster_refuses_is_its_sentence(node: Node, arguments: tuple[str, ...], sentence: str) -> None:
    result = bmq(*arguments)
    assert isinstance(result.exception, ClusterRefused)
    assert str(result.exception) == sentence


def test_a_controller_of_an_older_release(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = httpx.Response(404, json={"detail": "Not Found"})
    monkeypatch.setattr(cluster_client, "TRANSPORT", httpx.MockTransport(lambda request: problem))
    result = bmq("list")
    assert isinstance(result.exception, ClusterRefused)
    assert (
        str(result.exception) == "the node that has to answer is of a release without tables; upgrade the nodes first"
    )


# --- files


def test_schemas_in_files_beside_the_definition(tmp_path: Path) -> None:
    written(tmp_path, ORDER_SCHEMA, "order.avsc")
    (tmp_path / "shop.desc").write_bytes(base64.b64decode(descriptor_set()))
    for given, expected in (
        (avro_form(writer_schema_file="order.avsc"), avro_form()),
        (avro_form(writer_schema_files={"3": "order.avsc"}), avro_form(writer_schemas={"3": ORDER_SCHEMA})),
        (
            {**protobuf_form(), "protobuf": {"message": "shop.Order", "descriptor_set_file": "shop.desc"}},
            protobuf_form(),
        ),
    ):
        assert read_definition(Path(written(tmp_path, given))) == TableDefinition.model_validate(expected)


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ([], "{file}: Input should be an object"),
        ({**FORM, "colour": "red"}, "{file}: there is no key colour"),
        (avro_form(writer_schema_file="none.avsc"), "cannot read {directory}/none.avsc: No such file or directory"),
        (avro_form(writer_schema_file="table.txt"), "{directory}/table.txt is no JSON: "),
        (avro_form(writer_schema_file=7), "avro.writer_schema_file: the name of a file is wanted"),
        (avro_form(writer_schema_files=[]), "avro.writer_schema_files: an object with a file for each id is wanted"),
        (
            {**protobuf_form(), "protobuf": {"message": "shop.Order", "descriptor_set_file": "table.txt"}},
            "{file}: protobuf.descriptor_set: it is no descriptor set",
        ),
    ],
)
def test_files_that_are_refused(tmp_path: Path, form: Any, sentence: str) -> None:
    (tmp_path / "table.txt").write_text("no JSON", encoding="utf-8")
    file = written(tmp_path, form)
    with pytest.raises(InvalidDefinition) as caught:
        read_definition(Path(file))
    assert str(caught.value).startswith(sentence.format(file=file, directory=tmp_path))


def test_a_file_that_is_not_there_or_too_large(tmp_path: Path) -> None:
    result = bmq("create", str(tmp_path / "none.json"))
    assert str(result.exception) == f"cannot read {tmp_path}/none.json: No such file or directory"
    large = tmp_path / "large.json"
    large.write_bytes(b" " * (1024 * 1024 + 1))
    assert str(bmq("create", str(large)).exception) == f"{large} has more than 1048576 bytes"
