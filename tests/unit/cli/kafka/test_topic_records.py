"""`bmq topic consume` and `produce` as far as they come without a cluster: usage, input that is wrong, dry runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from bmq.cli import topic_records
from tests.unit.cli.kafka.conftest import Commands

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "arguments",
    [
        ("--json", "--csv"),
        ("--group", "g", "--from", "-1h"),
        ("--group", "g", "-p", "0"),
        ("--last", "1", "--from-offset", "0"),
        ("--follow", "--to-offset", "3"),
        ("--value-format", "avro"),
        ("--value-schema", "x.avsc"),
        ("--value-format", "xml"),
        ("--limit", "0"),
    ],
)
def test_options_of_reading_that_contradict_each_other(bmq: Commands, arguments: tuple[str, ...]) -> None:
    assert bmq.run("topic", "consume", "orders", *arguments).exit_code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("--json", "--whole"),
        ("-K", ":", "--json"),
        ("-K", ":", "-k", "key"),
        ("-K", ""),
        ("--keep-partitions",),
        ("-H", "novalue"),
        ("--value-format", "avro-id", "--value-schema", "x.avsc"),
        ("--value-schema-id", "1"),
    ],
)
def test_options_of_writing_that_contradict_each_other(bmq: Commands, arguments: tuple[str, ...]) -> None:
    assert bmq.run("topic", "produce", "orders", *arguments, given="x\n").exit_code == 2


def test_topics_and_partitions_that_are_not_there(bmq: Commands) -> None:
    assert bmq.failure("topic", "consume", "gone") == "there is no topic 'gone'"
    assert bmq.failure("topic", "consume", "orders", "-p", "5") == "topic 'orders' has no partition 5; it has 2"
    assert bmq.failure("topic", "produce", "gone") == "there is no topic 'gone'; `bmq topic create gone` makes it"
    assert "is no time" in bmq.failure("topic", "consume", "orders", "--from", "yesterday")


def test_nothing_to_read_is_read_at_once(bmq: Commands) -> None:
    assert bmq.shown("topic", "consume", "empty") == ""
    assert bmq.shown("topic", "consume", "empty", "--csv") == "topic,partition,offset,timestamp,key,value,headers\n"
    assert bmq.shown("topic", "consume", "orders", "--last", "0") == ""


def test_a_dry_run_reads_and_checks_all_of_the_input(bmq: Commands, tmp_path: Path) -> None:
    good = bmq.run("topic", "produce", "orders", "--dry-run", given="a\nb")
    assert good.output == "2 records could be written to orders\n"
    assert bmq.run("topic", "produce", "orders", "--dry-run", "--whole", given="a\nb").output.startswith(
        "1 record could"
    )
    bad = bmq.run("topic", "produce", "orders", "--dry-run", "--json", given='{"value":"a"}\n{"value":\n')
    assert bad.exit_code == 1
    assert str(bad.exception) == "line 2: '{\"value\":' is not JSON"
    file = tmp_path / "records"
    assert "cannot read" in bmq.failure("topic", "produce", "orders", str(file))
    file.write_bytes(b"k:1\nk2\n")
    assert bmq.failure("topic", "produce", "orders", str(file), "-K", ":", "--dry-run").startswith(
        "line 2: there is no ':'"
    )


def test_an_input_without_end_is_refused(bmq: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(topic_records, "LINE_BYTES_MAX", 10)
    file = tmp_path / "records"
    file.write_bytes(b"012345678\n")
    bmq.shown("topic", "produce", "orders", str(file), "--dry-run")
    file.write_bytes(b"1\n" + b"0" * 12)
    assert bmq.failure("topic", "produce", "orders", str(file), "--dry-run") == "line 2 has more than 10 bytes"
    assert "has more than 10 bytes" in bmq.failure("topic", "produce", "orders", str(file), "--whole", "--dry-run")
