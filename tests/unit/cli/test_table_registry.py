"""`bmq table define` and `refresh` against a registry's REST API, as Confluent's client asks it."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from bmq.cli.commands import app
from bmq.cli.kafka.schema_registry import IMPORTS_MAX
from bmq.table_definitions.definition import TableDefinition
from tests.unit.cli.rest_node import Node
from tests.unit.table_definitions.registered_files import ADDRESS, ORDER, text

pytestmark = pytest.mark.unit

FIRST: dict[str, Any] = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}


class Registry(ThreadingHTTPServer):
    """Subjects with their versions: (id, kind, schema); `status` answers everything with an error of that number.

    `compiled`: Protobuf schemas as `format=serialized` gives them. `references`: of a subject, as the registry's API has them.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.subjects: dict[str, list[tuple[int, str, str]]] = {}
        self.compiled: dict[str, str] = {}
        self.references: dict[str, list[dict[str, Any]]] = {}
        self.status = 0
        self.body = b""
        self.logins: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, path: str) -> tuple[int, Any]:
        _, subjects, subject, versions, *number = path.split("?")[0].split("/")
        assert (subjects, versions) == ("subjects", "versions")
        known = self.subjects.get(subject)
        if known is None:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        if not number:
            return 200, list(range(1, len(known) + 1))
        schema_id, kind, schema = known[int(number[0]) - 1]
        if "format=serialized" in path:
            schema = self.compiled.get(subject, schema)
        answer = {"subject": subject, "version": int(number[0]), "id": schema_id, "schema": schema}
        answer |= {"references": self.references[subject]} if subject in self.references else {}
        return 200, answer if kind == "AVRO" else {**answer, "schemaType": kind}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        registry = self.server
        assert isinstance(registry, Registry)
        registry.logins.append(self.headers.get("authorization"))
        status, form = (registry.status, {"error_code": 50001, "message": "the store is away"})
        if not status:
            status, form = registry.answer(self.path)
        body = registry.body or json.dumps(form).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[Registry]:
    server = Registry()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    server.subjects = {
        "orders-value": [(7, "AVRO", json.dumps(FIRST)), (9, "AVRO", json.dumps(SECOND))],
        "visits": [(3, "JSON", json.dumps({"type": "object", "properties": {"who": {"type": "string"}, "x": {}}}))],
        "old": [(1, "PROTOBUF", "syntax = 'proto3';")],
    }
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def bmq(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["table", *arguments])


def sentence(result: Result) -> str:
    assert result.exit_code == 1 and result.exception is not None
    return str(result.exception)


def test_a_definition_of_a_subject(registry: Registry) -> None:
    result = bmq("define", "rows", "--topic", "orders", "--registry", registry.url)
    assert result.exit_code == 0, result.exception
    definition = TableDefinition.from_json(result.stdout)
    assert [(each.name, each.type) for each in definition.fields] == [("id", "long"), ("note", "string")]
    assert definition.avro is not None and set(definition.avro.by_id) == {7, 9}
    late = bmq("define", "rows", "--topic", "orders", "--registry", registry.url, "--from-version", "2")
    only = TableDefinition.from_json(late.stdout)
    assert only.avro is not None and set(only.avro.by_id) == {9}


def test_a_definition_with_a_key(registry: Registry) -> None:
    ask = ("define", "rows", "--topic", "orders", "--registry", registry.url)
    definition = TableDefinition.from_json(bmq(*ask, "--key", "id, note").stdout)
    assert definition.changes is not None and str(definition.changes) == "upsert by id, note"
    assert "no envelope of Debezium" in sentence(bmq(*ask, "--key", "id", "--mode", "debezium"))
    unusable = bmq(*ask, "--mode", "debezium")
    assert unusable.exit_code == 2 and "name the fields of the key too" in unusable.stderr


def test_a_subject_of_json_says_what_is_left_out(registry: Registry) -> None:
    result = bmq("define", "rows", "--topic", "orders", "--registry", registry.url, "--subject", "visits")
    assert json.loads(result.stdout)["json_framing"] == "registry"
    assert result.stderr == "x has no column: it has more than one type, or none\n"


def test_a_subject_of_protobuf_with_its_imports(registry: Registry) -> None:
    registry.subjects |= {
        "shop": [(21, "PROTOBUF", 'syntax = "proto3";')],
        "address": [(20, "PROTOBUF", 'syntax = "proto3";')],
    }
    registry.compiled = {"shop": text(ORDER), "address": text(ADDRESS)}
    registry.references = {"shop": [{"name": "common/address.proto", "subject": "address", "version": 1}]}
    ask = ("define", "rows", "--topic", "orders", "--registry", registry.url, "--subject", "shop")
    result = bmq(*ask, "--message", "shop.Order")
    assert result.exit_code == 0, result.exception
    definition = TableDefinition.from_json(result.stdout)
    assert definition.protobuf is not None and definition.protobuf.indexes_by_id == {21: (1,)}
    assert "address_city" in {each.name for each in definition.fields}
    assert "tags has no column: no column holds a list or a map" in result.stderr
    assert "it has no message shop.None" in sentence(bmq(*ask, "--message", "shop.None"))
    registry.references["address"] = [
        {"name": f"{number}.proto", "subject": "address", "version": 1} for number in range(IMPORTS_MAX + 1)
    ]
    assert "more than 100 imports" in sentence(bmq(*ask))


def test_a_login_is_in_a_file(registry: Registry, tmp_path: Path) -> None:
    file = tmp_path / "registry.settings"
    file.write_text("basic.auth.user.info=me:secret\n")
    result = bmq("define", "rows", "--topic", "orders", "--registry", registry.url, "--registry-config", f"@{file}")
    assert result.exit_code == 0
    assert set(registry.logins) == {"Basic " + base64.b64encode(b"me:secret").decode()}


def test_a_registry_that_gives_no_schema_is_a_sentence(registry: Registry) -> None:
    ask = ("define", "rows", "--topic", "orders", "--registry")
    assert sentence(bmq(*ask, registry.url, "--subject", "none")) == (
        f"the registry at {registry.url} has no subject none"
    )
    assert "gives it as text, not compiled" in sentence(bmq(*ask, registry.url, "--subject", "old"))
    assert "has a login in it" in sentence(bmq(*ask, "http://me:secret@h:1"))
    assert "secret" not in sentence(bmq(*ask, "http://me:secret@h:1"))
    assert "is no URL of a registry" in sentence(bmq(*ask, "h:1"))
    assert "Unrecognized properties: colour" in sentence(bmq(*ask, registry.url, "--registry-config", "colour=red"))
    registry.status = 422
    assert sentence(bmq(*ask, registry.url)) == f"the registry at {registry.url} refused with 422: the store is away"
    registry.status, registry.body = 0, b"<html>"
    assert "cannot be asked" in sentence(bmq(*ask, registry.url)) and "\n" not in sentence(bmq(*ask, registry.url))
    registry.body = b""
    registry.subjects["orders-value"] = [(7, "AVRO", json.dumps(FIRST) + " " * 300_000)]
    assert "is longer than" in sentence(bmq(*ask, registry.url))


def test_without_a_registry_the_usage_is_said() -> None:
    result = bmq("define", "rows", "--topic", "orders")
    assert result.exit_code == 2 and "name the registry's URL" in result.stderr


def test_a_table_is_refreshed(registry: Registry, node: Node, tmp_path: Path) -> None:
    made = bmq("define", "rows", "--topic", "orders", "--registry", registry.url, "--from-version", "2")
    (tmp_path / "rows.json").write_text(made.stdout)
    assert bmq("create", str(tmp_path / "rows.json")).exit_code == 0
    third = {**SECOND, "fields": [*SECOND["fields"], {"name": "city", "type": ["null", "string"], "default": None}]}
    registry.subjects["orders-value"].append((12, "AVRO", json.dumps(third)))
    ask = ("refresh", "rows", "--registry", registry.url, "--from-version", "2")
    planned = bmq(*ask, "--dry-run")
    assert planned.exit_code == 0, planned.exception
    assert "field city (string) is added" in planned.stdout and "Avro schema 12 is added" in planned.stdout
    assert "city" not in bmq("describe", "rows").stdout
    assert bmq(*ask, "--yes").exit_code == 0
    assert "city" in bmq("describe", "rows").stdout
    assert "schemas 9, 12" in bmq("describe", "rows").stdout
