"""`bmq cluster` against a node's REST application: what is shown, what is ordered, and how failures are said."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer
from typer.testing import CliRunner, Result

from bmq.cli import cluster_client
from bmq.cli.cluster_client import ClusterClient, ClusterRefused, ClusterUnreachable, TaskFailed
from bmq.cli.commands import app
from bmq.cli.late_groups import LATE_GROUPS
from bmq.metadata.history import StateChange
from tests.unit.cli.rest_node import Node

pytestmark = pytest.mark.unit


def bmq(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["cluster", *arguments])


def shown(*arguments: str) -> str:
    result = bmq(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def document(*arguments: str) -> Any:
    return json.loads(shown(*arguments, "--json"))


def columns(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_status(node: Node) -> None:
    rows = [line.rstrip() for line in shown("status").splitlines()]
    assert rows == [
        "cluster          cluster",
        "controller       node 1 at 10.0.0.1:8080",
        "nodes            5",
        "topics           14",
        "partitions       18, 1 without an owner",
        "metadata offset  42",
    ]
    assert document("status")["topics"] == 14


def test_nodes_are_asked_at_the_controller(node: Node) -> None:
    lines = shown("nodes", "--rest", "http://10.0.0.2:8080").splitlines()
    assert node.hosts == ["10.0.0.2:8080", "10.0.0.1:8080"]
    assert lines[1].split() == [
        "1", "broker,controller,coordinator,proxy", "r1", "10.0.0.1:9092", "10.0.0.1:8080", "6", "1", "kB", "2", "kB",
        "controller",
    ]  # fmt: skip
    assert lines[3].split()[:4] == ["3", "broker", "-", "[fe80::3]:8080"]
    node.deaf.add("10.0.0.1")
    assert shown("nodes", "--rest", "http://10.0.0.2:8080").splitlines()[1:2] == lines[1:2]
    node.deaf.clear()
    assert [each["node_id"] for each in document("nodes")] == [1, 2, 3, 100, 101]


def test_topics_page_by_page(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmq.cli.cluster._PAGE", 4)
    assert [topic["name"] for topic in document("topics")] == sorted(node.cluster.image.topics)
    result = bmq("topics", "--limit", "6")
    assert len(result.stdout.splitlines()) == 7
    assert result.stderr == "there are more than these 6; see --limit and --prefix\n"
    assert columns(shown("topics", "--prefix", "ord"))[1][:3] == ["orders", "3", "2"]


def test_partition_and_its_history(node: Node) -> None:
    text = shown("partition", "orders", "0")
    assert "owner           node 1" in text
    assert "high watermark  5" in text
    assert "1970-01-01 00:00:01.000Z  node 2  2      node 1 is gone: its connection was lost" in text
    assert "high watermark  at least 0" in shown("partition", "orders", "1")
    assert "owner           nobody" in shown("partition", "orders", "2")
    assert [change["leader"] for change in document("history", "--topic", "orders", "--partition", "0")["changes"]] == [
        1, 2,
    ]  # fmt: skip
    assert "orders-2" in shown("history")


def test_the_history_of_one_partition(node: Node) -> None:
    node.cluster.controller.history.add(
        node.cluster.image.topics["orders"].topic_id, 2, StateChange(64_000, 3, 3, "it had no owner")
    )
    lines = shown("history", "orders", "2").splitlines()
    assert [line.rstrip() for line in lines[:5]] == [
        "partition         orders-2",
        "owner             nobody",
        "without an owner  1 min",
        "earlier epochs    2, not kept",
        "",
    ]
    assert lines[6].split()[2:] == ["node", "3", "3", "0.000", "s", "1", "min", "it", "had", "no", "owner"]
    assert lines[7].split()[2:] == ["nobody", "2", "1", "min", "no", "replica", "lives"]
    limited = bmq("history", "orders", "2", "--limit", "1")
    assert "no replica lives" not in limited.stdout
    assert limited.stderr == "there are more than these 1; see --limit\n"
    assert document("history", "orders", "2")["without_owner_ms"] == 62_500
    only = shown("history", "orders")
    assert "orders-2" in only and "orders-0" in only
    assert "lasted" not in only
    twice = bmq("history", "orders", "--topic", "orders")
    assert twice.exit_code == 2 and "name the topic once" in twice.stderr.replace("\n", " ")


def test_segments(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmq.cli.cluster._PAGE", 1)
    _, closed, opened = shown("segments", "orders", "0").splitlines()
    assert "[0, 3)" in closed
    assert "closed" in closed
    assert closed.endswith("/0/00000001.open/00000000.log")
    assert "[3, …)" in opened
    assert "open" in opened
    assert len(document("segments", "orders", "0")) == 2


def test_an_order_is_followed_to_its_end(node: Node) -> None:
    lines = shown("drain", "2").splitlines()
    assert lines[0].endswith("  Node 2 takes no partitions on and gives 6 partitions away.")
    assert lines[-1].startswith("task ")
    assert lines[-1].endswith(" (drain node 2) succeeded, 100% done")
    assert document("undrain", "2")["state"] == "succeeded"
    tasks = document("tasks")["tasks"]
    assert [task["kind"] for task in tasks] == ["undrain", "drain"]
    assert columns(shown("tasks"))[1][1:5] == ["undrain", "node", "2", "succeeded"]
    for follow in ((), ("--follow",)):
        assert "node 2 leads nothing" in shown("task", tasks[1]["id"], *follow)
    assert document("task", tasks[1]["id"]) == tasks[1]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (("scale", "6"), {1, 2, 3, 100, 101, 102}),
        (("scale", "4"), {1, 2, 3, 100}),
        (("rebalance",), {1, 2, 3, 100, 101}),
        (("move", "orders", "0", "--to", "3"), {1, 2, 3, 100, 101}),
    ],
)
def test_orders(node: Node, order: tuple[str, ...], expected: set[int]) -> None:
    before = node.cluster.image
    assert document(*order, "--dry-run")["summary"].endswith(".")
    shown(*order, "--dry-run")
    assert node.cluster.image is before
    assert shown(*order).splitlines()[-1].endswith("succeeded, 100% done")
    assert set(node.cluster.image.nodes) == expected


def test_a_plan_says_why_and_how_much(node: Node) -> None:
    text = shown("scale", "8", "--dry-run")
    assert "Nodes 102, 103, 104 start: 8 brokers then.\nstart: 102, 103, 104\n" in text
    assert "node 1 owns 6 partitions" in text
    assert "stop: 101" in shown("scale", "4", "--dry-run")


def test_an_order_that_is_not_waited_for(node: Node) -> None:
    text = shown("drain", "2", "--no-wait")
    task_id = text.split()[1]
    assert text == f"task {task_id} has begun; follow it with `bmq cluster task {task_id} --follow`\n"
    assert "succeeded" in shown("task", task_id, "--follow")


@pytest.mark.parametrize(("answer", "is_done"), [("n", False), ("y", True)])
def test_on_a_terminal_the_plan_is_shown_and_asked_for(
    node: Node, monkeypatch: pytest.MonkeyPatch, answer: str, is_done: bool
) -> None:
    monkeypatch.setattr("bmq.cli.cluster.is_terminal", lambda: True)
    monkeypatch.setattr("bmq.cli.cluster_output.is_terminal", lambda: True)
    result = CliRunner().invoke(app, ["cluster", "move", "orders", "0", "--to", "3"], input=f"{answer}\n")
    assert "orders-0 moves from node 1 to node 3." in result.output
    assert "Go ahead?" in result.output
    assert ("succeeded, 100% done" in result.output) is is_done
    assert result.exit_code == (0 if is_done else 1)
    assert node.cluster.image.topics["orders"].partitions[0].leader == (3 if is_done else 1)
    sure = shown("move", "orders", "0", "--to", "2", "--yes")
    assert "Go ahead?" not in sure
    assert "move orders-0 to node 2" in sure
    assert "1 of 1 partition moved" in sure


def test_a_task_that_fails_ends_with_its_sentence(node: Node) -> None:
    node.cluster.driver.ending.add(102)
    result = bmq("scale", "6")
    assert isinstance(result.exception, TaskFailed)
    assert str(result.exception).endswith("(scale 6 brokers) failed: node 102 did not stay: it ended: no ZooKeeper")
    task_id = document("tasks")["tasks"][0]["id"]
    assert "failed" in shown("task", task_id)
    for follow in (("--follow",), ("--follow", "--json")):
        assert isinstance(bmq("task", task_id, *follow).exception, TaskFailed)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("drain", "9"), "there is no live node 9; live are: 1, 2, 3, 100, 101"),
        (("partition", "a b", "0"), "path.name: String should match pattern '^[a-zA-Z0-9._-]{1,249}$'"),
        (("partition", "../nodes", "0"), "Not Found"),
        (("partition", "orders", "7"), "topic orders has no partition 7; it has 3"),
        (("scale", "2"), "3 of the brokers would have to go, and the driver manages only these: 100, 101; stop the others where they run"),
        (("task", "nonsense"), "path.task_id: String should match pattern '^[0-9a-f]{16}$'"),
    ],
)  # fmt: skip
def test_what_the_cluster_refuses_is_its_sentence(node: Node, arguments: tuple[str, ...], sentence: str) -> None:
    result = bmq(*arguments)
    assert isinstance(result.exception, ClusterRefused)
    assert str(result.exception) == sentence


def test_scaling_to_nothing_is_a_usage_error(node: Node) -> None:
    assert bmq("scale", "0").exit_code == 2
    assert node.hosts == []


# --- who does not answer


def client_that(answer: Callable[[httpx.Request], httpx.Response]) -> ClusterClient:
    return ClusterClient("http://node", httpx.MockTransport(answer))


def test_an_answer_that_was_lost_is_asked_for_again_under_the_same_key() -> None:
    keys: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["Idempotency-Key"])
        if len(keys) == 1:
            raise httpx.ReadError("reset", request=request)
        return httpx.Response(202, json={"id": "1"})

    with client_that(answer) as client:
        assert client.order("/v1/rebalance") == {"id": "1"}
        client.order("/v1/rebalance")
    assert keys[0] == keys[1] != keys[2]


def test_a_redirection_is_followed_with_body_and_key() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "node":
            return httpx.Response(307, headers={"Location": f"http://controller{request.url.path}"})
        assert "Idempotency-Key" in request.headers
        return httpx.Response(202, json=json.loads(request.content))

    with client_that(answer) as client:
        assert client.order("/v1/scale", {"brokers": 3}) == {"brokers": 3}


def raising(error: type[httpx.RequestError]) -> Callable[[httpx.Request], httpx.Response]:
    def answer(request: httpx.Request) -> httpx.Response:
        raise error("", request=request)

    return answer


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (
            raising(httpx.ConnectError),
            "no node answers at http://node; name a running node with --rest or BMQ_REST_URL",
        ),
        (raising(httpx.ReadTimeout), "http://node did not answer within 15 s"),
        (raising(httpx.ReadError), "http://node cannot be asked: ReadError"),
        (
            lambda request: httpx.Response(307, headers={"Location": str(request.url)}),
            "the nodes do not agree on the active controller yet; ask again",
        ),
        (lambda _: httpx.Response(200, text="hello"), "http://node/x answered 200, and not as a bmq node does"),
        (lambda _: httpx.Response(502, text="proxy"), "http://node/x answered 502, and not as a bmq node does"),
        (lambda _: httpx.Response(404, json=[]), "http://node/x answered 404, and not as a bmq node does"),
    ],
)
def test_whoever_is_there_instead(answer: Callable[[httpx.Request], httpx.Response], sentence: str) -> None:
    with client_that(answer) as client, pytest.raises(ClusterUnreachable) as raised:
        client.get("/x")
    assert str(raised.value) == sentence


@pytest.mark.parametrize("url", ["http://[::1", "http://node:x"])
def test_what_is_no_url(url: str) -> None:
    result = bmq("status", "--rest", url)
    assert isinstance(result.exception, ClusterUnreachable)
    assert str(result.exception) == "--rest cannot be used: it is no URL of the form https://HOST:PORT"


@pytest.fixture
def secret(tmp_path: Path) -> str:
    path = tmp_path / "secret"
    path.write_text("geheim\n")
    path.chmod(0o600)
    return str(path)


def test_a_login_goes_to_every_node_that_is_asked(node: Node, secret: str) -> None:
    shown("nodes", "--rest", "http://10.0.0.2:8080", "--rest-user", "alice", "--rest-password-file", secret)
    assert node.logins == ["Basic YWxpY2U6Z2VoZWlt"] * 2
    shown("status", "--rest-token-file", secret)
    shown("status")
    assert node.logins[2:] == ["Bearer geheim", None]


def test_a_login_may_come_from_variables(node: Node, secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BMQ_REST_TOKEN_FILE", secret)
    shown("status")
    shown("status", "--rest-user", "alice", "--rest-password-file", secret)
    assert node.logins == ["Bearer geheim", "Basic YWxpY2U6Z2VoZWlt"]


def test_a_login_that_cannot_be_used_is_one_sentence(node: Node, secret: str) -> None:
    for options, sentence in (
        (["--rest-user", "alice"], "a REST login by password needs both a user and a password file"),
        (["--rest-token-file", "/nowhere"], "/nowhere cannot be read: No such file or directory"),
        (["--rest-ca-file", secret], f"the CA file {secret} cannot be used: NO_CERTIFICATE_OR_CRL_FOUND"),
    ):
        result = bmq("status", *options)
        assert str(result.exception) == sentence
    assert isinstance(bmq("status", "--rest", "http://alice:geheim@node").exception, ClusterUnreachable)
    assert "geheim" not in str(bmq("status", "--rest", "http://alice:geheim@node").exception)
    assert node.logins == []


def test_who_has_to_log_in_is_told_how(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = httpx.Response(401, json={"detail": "log in: this address wants HTTP Basic"})
    monkeypatch.setattr(cluster_client, "TRANSPORT", httpx.MockTransport(lambda request: problem))
    assert str(bmq("status").exception) == (
        "log in: this address wants HTTP Basic (--rest-user and --rest-password-file, or --rest-token-file)"
    )


def test_every_command_that_asks_rest_can_log_in() -> None:
    for group in ("cluster", "table", "spark"):
        module, variable = LATE_GROUPS[group]
        commands = typer.main.get_group(getattr(import_module(module), variable)).commands
        for name, command in commands.items():
            options = {option for one in command.params for option in one.opts}
            assert ("--rest" in options) == ("--rest-token-file" in options), (group, name)
