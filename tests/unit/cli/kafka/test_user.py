"""`bmq user`: what it asks the cluster for, and that no password is an argument or printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.kafka_client import FakeKafka
from tests.unit.cli.kafka.conftest import Commands

pytestmark = pytest.mark.unit


def test_a_user_gets_keys_for_both_mechanisms(kafka: FakeKafka, bmq: Commands) -> None:
    result = bmq.run("user", "add", "alice", given="hunter2\n")
    assert result.exit_code == 0 and "hunter2" not in result.output
    assert kafka.calls == [
        ("add_user", "alice", "SCRAM-SHA-256", 4096, "hunter2"),
        ("add_user", "alice", "SCRAM-SHA-512", 4096, "hunter2"),
    ]


def test_a_password_from_a_file_and_one_mechanism(kafka: FakeKafka, bmq: Commands, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2\nmore\n")
    options = ("--mechanism", "SCRAM-SHA-512", "--iterations", "8192", "--password-file", str(secret))
    assert bmq.run("user", "add", "alice", *options).exit_code == 0
    assert kafka.calls == [("add_user", "alice", "SCRAM-SHA-512", 8192, "hunter2")]


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        (("--mechanism", "PLAIN"), "x\n"),
        (("--iterations", "100"), "x\n"),
        (("--password-file", "/nowhere/at/all"), ""),
        ((), "\n"),
        ((), "x" * 2000),
    ],
)
def test_what_cannot_be_is_refused(kafka: FakeKafka, bmq: Commands, arguments: tuple[str, ...], given: str) -> None:
    assert bmq.run("user", "add", "alice", *arguments, given=given).exit_code == 2
    assert kafka.calls == []


def test_users_are_listed_and_deleted(kafka: FakeKafka, bmq: Commands) -> None:
    kafka.scram = {("alice", "SCRAM-SHA-256"): 4096, ("bob", "SCRAM-SHA-512"): 8192}
    assert bmq.run("user", "list", "--csv").output.split() == [
        "user,mechanism,iterations",
        "alice,SCRAM-SHA-256,4096",
        "bob,SCRAM-SHA-512,8192",
    ]
    assert bmq.run("user", "delete", "alice", "--yes").exit_code == 0
    assert kafka.calls == [("delete_user", "alice", "SCRAM-SHA-256")]
    again = bmq.run("user", "delete", "alice", "--yes")
    assert again.exit_code != 0
