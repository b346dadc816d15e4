"""`bmq databus` against a node's REST application: channels, what is shown of them, and the agents of all nodes."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from bmq.channels.channel import InvalidChannel
from bmq.cli import cluster_client
from bmq.cli.cluster_client import ClusterRefused, ClusterUnreachable
from bmq.cli.commands import app
from bmq.metadata.image import Node as ImageNode
from tests.unit.cli.rest_node import Node
from tests.unit.table_definitions.definitions import descriptor_set

pytestmark = pytest.mark.unit

SCHEMA = '{"type": "object", "required": ["page"]}'


def bmq(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(app, ["databus", *arguments], input=given)


def shown(*arguments: str) -> str:
    result = bmq(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def document(*arguments: str) -> Any:
    return json.loads(shown(*arguments, "--json"))


def refusal(*arguments: str) -> str:
    result = bmq(*arguments)
    assert isinstance(result.exception, ClusterRefused | ClusterUnreachable | InvalidChannel), result.output
    return str(result.exception)


def test_a_channel_from_its_creation_to_its_end(node: Node) -> None:
    create = ("channel", "create", "clicks", "--topic", "orders", "--key", "header:user", "--linger-ms", "5")
    sentence = "Channel clicks leads to topic orders.\n"
    assert shown(*create, "--dry-run") == sentence
    assert node.cluster.image.channels == {}
    assert shown(*create) == sentence
    assert shown(*create) == "Channel clicks is so already.\n"
    assert refusal("channel", "create", "clicks", "-t", "orders") == (
        "there is a channel clicks already, and it is another one; alter it, or delete it first"
    )

    alter = ("channel", "alter", "clicks", "--linger-ms", "50", "--rate-limit-records-per-s", "1000", "--disabled")
    expected = (
        "Channel clicks changes; agents follow at once.\n"
        "  linger_ms is 50; it was 5\n"
        "  rate_limit_records_per_s is 1000; it was not set\n"
        "  enabled is false; it was true\n"
    )
    assert shown(*alter, "--dry-run") == expected
    assert document("channel", "show", "clicks")["version"] == 1
    assert shown(*alter) == expected
    assert document("channel", "show", "clicks")["version"] == 2
    changes = document("channel", "alter", "clicks", "--rate-limit-records-per-s", "0", "--enabled")["changes"]
    assert changes == ["rate_limit_records_per_s is not set; it was 1000", "enabled is true; it was false"]

    assert "Channel clicks is deleted" in shown("channel", "delete", "clicks", "--dry-run")
    assert "clicks" in node.cluster.image.channels
    assert document("channel", "delete", "clicks")["version"] == 4
    assert refusal("channel", "show", "clicks") == "there is no channel clicks"


def test_every_option_is_a_key_of_the_channel(node: Node, tmp_path: Path) -> None:
    file = tmp_path / "click.json"
    file.write_text(SCHEMA, encoding="utf-8")
    options = {
        "--topic": "orders", "--key": "json_path:user.id", "--compression": "zstd", "--linger-ms": "7",
        "--batch-bytes": "2048", "--acks": "1", "--sampling-rate": "0.25", "--rate-limit-records-per-s": "8",
        "--rate-limit-bytes-per-s": "9", "--max-record-bytes": "10", "--json-schema": str(file),
        "--spool-full": "drop_oldest", "--description": "Clicks.",
    }  # fmt: skip
    words = [word for pair in options.items() for word in pair]
    made = document("channel", "create", "clicks", *words, "--disabled")["channel"]["channel"]
    key = {"by": "json_path", "header": None, "path": ["user", "id"], "constant": None}
    assert made == {
        "name": "clicks", "topic": "orders", "key": key, "compression": "zstd", "linger_ms": 7, "batch_bytes": 2048,
        "acks": "1", "sampling_rate": 0.25, "rate_limit_records_per_s": 8, "rate_limit_bytes_per_s": 9,
        "max_record_bytes": 10, "schema_check": "json_schema", "json_schema": SCHEMA, "spool_full": "drop_oldest",
        "enabled": False, "description": "Clicks.",
    }  # fmt: skip
    assert shown("channel", "show", "clicks", "--schema") == f"{SCHEMA}\n"
    lines = [" ".join(line.split()) for line in shown("channel", "show", "clicks").splitlines()]
    for line in ("key json_path:user.id", "enabled no", "json_schema 40 characters; --schema shows them"):
        assert line in lines
    changed = document("channel", "alter", "clicks", "--schema-check", "json")["channel"]["channel"]
    assert (changed["schema_check"], changed["json_schema"], changed["linger_ms"]) == ("json", None, 7)
    assert refusal("channel", "show", "clicks", "--schema") == "channel clicks has no JSON Schema"


def test_values_are_messages(node: Node, tmp_path: Path) -> None:
    file = tmp_path / "shop.pb"
    file.write_bytes(base64.b64decode(descriptor_set()))
    create = ("channel", "create", "clicks", "--topic", "orders")
    given = ("--protobuf", str(file), "--protobuf-message", "shop.Order")
    made = document(*create, *given)["channel"]["channel"]
    assert made["schema_check"] == "protobuf"
    assert made["protobuf"] == {"message": "shop.Order", "descriptor_set": descriptor_set()}
    lines = [" ".join(line.split()) for line in shown("channel", "show", "clicks").splitlines()]
    assert "protobuf shop.Order, with its descriptor set" in lines
    changed = document("channel", "alter", "clicks", "--schema-check", "json")["channel"]["channel"]
    assert changed["schema_check"] == "json" and "protobuf" not in changed
    other = (*create[:2], "other", *create[3:])
    assert refusal(*other, *given[:2]) == "--protobuf and --protobuf-message are given together"
    assert refusal(*other, *given, "--schema-check", "json").startswith("--protobuf is given, but --schema-check is")
    wrong = refusal(*other, *given[:3], "shop.None")
    assert wrong == "protobuf.descriptor_set: it has no message shop.None, or lacks what that imports"


@pytest.mark.parametrize(
    ("rule", "key"),
    [
        ("none", {"by": "none"}),
        ("header:a:b", {"by": "header", "header": "a:b"}),
        ("constant:x", {"by": "constant", "constant": "x"}),
    ],
)
def test_key_rules(node: Node, rule: str, key: dict[str, str]) -> None:
    made = document("channel", "create", "clicks", "-t", "orders", "--key", rule)["channel"]["channel"]
    assert {name: value for name, value in made["key"].items() if value} == key
    (line,) = [line for line in shown("channel", "list").splitlines() if line.startswith("clicks")]
    assert line.split()[3] == rule


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--key", "header"), "is no rule: none, header:NAME"),
        (("--key", "colour:red"), "is no rule: none, header:NAME"),
        (("--sampling-rate", "nan"), "a number from 0 to 1 is wanted"),
        (("--acks", "2"), "'2' is not one of"),
    ],
)
def test_options_that_cannot_be(node: Node, words: tuple[str, ...], sentence: str) -> None:
    result = bmq("channel", "create", "clicks", "-t", "orders", *words)
    assert result.exit_code == 2
    assert sentence in " ".join(result.output.replace("│", " ").split())
    assert node.cluster.image.channels == {}


def test_nothing_to_alter(node: Node) -> None:
    result = bmq("channel", "alter", "clicks")
    assert result.exit_code == 2
    assert "name what to change, for example --linger-ms 50" in result.output


def test_what_the_cluster_refuses_is_one_sentence(node: Node, tmp_path: Path) -> None:
    create = ("channel", "create", "clicks", "--topic")
    assert refusal(*create, "none") == "there is no topic none; create it first, or ask for it with create_topic"
    assert refusal(*create, "orders", "--sampling-rate", "2").startswith("body.sampling_rate: Input should be less")
    file = tmp_path / "schema.json"
    for content, sentence in (
        (b" " * 65_537, f"{file} has more than 65536 bytes"),
        (b"\xff", f"{file} is no text in UTF-8"),
        (b"{", "body.json_schema: the schema is no JSON: "),
    ):
        file.write_bytes(content)
        assert refusal(*create, "orders", "--json-schema", str(file)).startswith(sentence)
    assert refusal(*create, "orders", "--json-schema", str(tmp_path)).startswith(f"cannot read {tmp_path}: ")
    both = ("--json-schema", str(file), "--schema-check", "json")
    assert refusal(*create, "orders", *both).startswith("--json-schema is given, but --schema-check is another one")


def test_channels_are_listed_with_what_is_wrong(node: Node) -> None:
    assert shown("channel", "create", "clicks", "-t", "orders")
    image = node.cluster.image
    topics = {name: topic for name, topic in image.topics.items() if name != "orders"}
    texts = {**image.channels, "later": "{}"}
    node.cluster.controller.image = replace(image, topics=topics, channels=texts)
    lines = [" ".join(line.split()) for line in shown("channel", "list").splitlines()]
    assert any(line.startswith("clicks orders yes none 1") and "there is no topic orders" in line for line in lines)
    assert any(line.startswith("later - - - - - a later release of bmq wrote this") for line in lines)
    assert "version of all channels: 1" in lines
    assert "there is no topic orders" in shown("channel", "show", "clicks")
    assert document("channel", "list")["states"]["clicks"]["version"] == 1


@pytest.mark.parametrize(("answer", "is_done"), [("n", False), ("y", True)])
def test_on_a_terminal_what_changes_is_shown_and_asked_for(
    node: Node, monkeypatch: pytest.MonkeyPatch, answer: str, is_done: bool
) -> None:
    shown("channel", "create", "clicks", "-t", "orders")
    monkeypatch.setattr("bmq.cli.databus_channel.is_terminal", lambda: True)
    result = bmq("channel", "delete", "clicks", given=f"{answer}\n")
    assert result.output.count("Channel clicks is deleted") == 1
    assert "Go ahead?" in result.output
    assert ("clicks" in node.cluster.image.channels) is not is_done


def test_a_release_without_channels_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = {"type": "about:blank", "title": "Not Found", "status": 404, "detail": "Not Found"}
    answer = httpx.MockTransport(lambda request: httpx.Response(404, json=problem))
    monkeypatch.setattr(cluster_client, "TRANSPORT", answer)
    assert refusal("channel", "list").startswith("the node that has to answer is of a release without channels")


# --- agents


def ask(node: Node, agent: str, applied: int) -> None:
    async def poll() -> None:
        await node.cluster.get("/v1/channels/changes", agent=agent, applied=applied)

    node.run(poll)


def test_agents_of_all_nodes_are_listed_once(node: Node) -> None:
    shown("channel", "create", "clicks", "-t", "orders")
    ask(node, "host-b", 0)
    ask(node, "host-a", 1)
    found = document("agents")
    assert found["version"] == 1
    assert [(each["id"], each["applied_version"], each["address"]) for each in found["agents"]] == [
        ("host-a", 1, "127.0.0.1"), ("host-b", 0, "127.0.0.1"),
    ]  # fmt: skip
    asked = set(node.hosts)
    assert {"10.0.0.1:8080", "10.0.0.2:8080", "[fe80::3]:8080"} <= {
        host if not host.startswith("fe80") else f"[{host.rpartition(':')[0]}]:{host.rpartition(':')[2]}"
        for host in asked
    }
    lines = [" ".join(line.split()) for line in shown("agents").splitlines()]
    assert any(re.fullmatch(r"host-a 127\.0\.0\.1 1 \d+ s ago \d", line) for line in lines)
    assert any(re.fullmatch(r"host-b 127\.0\.0\.1 0 behind \d+ s ago \d", line) for line in lines)
    assert lines[-1] == "version of all channels: 1"


def test_a_node_that_does_not_answer_is_named(node: Node) -> None:
    node.deaf = {"10.0.0.2"}
    ask(node, "host-a", 0)
    result = bmq("agents")
    assert result.exit_code == 0
    assert "node 2 does not say which agents it knows: no node answers at http://10.0.0.2:8080" in result.output
    assert "host-a" in result.output


def test_a_server_that_is_the_whole_cluster_is_asked_itself(node: Node) -> None:
    alone = {1: ImageNode(1, "127.0.0.1", 9092)}
    node.cluster.controller.image = replace(node.cluster.image, nodes=alone)
    ask(node, "host-a", 0)
    assert [each["id"] for each in document("agents")["agents"]] == ["host-a"]
