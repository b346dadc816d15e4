"""`bmq group` over a cluster in memory."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from bmq.cli.kafka.model import Group, GroupDetails, Member
from tests.fakes.kafka_client import FakeKafka
from tests.unit.cli.kafka.conftest import Commands

pytestmark = pytest.mark.unit

READER = Member("m-1", "static-1", "client", "/10.0.0.1", (("orders", 0),))


@pytest.fixture(autouse=True)
def _groups(kafka: FakeKafka) -> None:
    kafka.group_details["live"] = GroupDetails("live", "consumer", "stable", "uniform", 2, (READER,))
    kafka.group_details["idle"] = GroupDetails("idle", "classic", "empty", "", 1, ())
    kafka.simple.append(Group("words", "other", "stable", False))
    kafka.group_offsets["live"] = {("orders", 0): 1}
    kafka.group_offsets["idle"] = {("orders", 0): 2, ("orders", 1): 0, ("deleted", 0): 7}


def test_groups_are_listed_by_state_and_name(bmq: Commands) -> None:
    assert bmq.rows("group", "list") == [
        ["idle", "classic", "empty"],
        ["live", "consumer", "stable"],
        ["words", "other", "stable"],
    ]
    assert [row["group"] for row in bmq.document("group", "list", "--state", "Stable")] == ["live", "words"]
    assert [row["group"] for row in bmq.document("group", "list", "--pattern", "i.*")] == ["idle"]
    assert bmq.run("group", "list", "--pattern", "[").exit_code == 2


def test_a_group_is_described_by_partitions_and_by_members(bmq: Commands) -> None:
    text = bmq.shown("group", "describe", "live")
    assert "coordinator  node 2" in text
    assert text.splitlines()[-1].split() == ["orders", "0", "1", "3", "2", "m-1", "client", "/10.0.0.1"]
    members = bmq.shown("group", "describe", "live", "--members").splitlines()[-1]
    assert members.split() == ["m-1", "static-1", "client", "/10.0.0.1", "orders-0"]
    rows = list(csv.DictReader(io.StringIO(bmq.shown("group", "describe", "idle", "--csv"))))
    assert [(row["topic"], row["partition"], row["committed"], row["lag"]) for row in rows] == [
        ("deleted", "0", "7", ""),
        ("orders", "0", "2", "1"),
        ("orders", "1", "0", "1"),
    ]
    words, live = bmq.document("group", "describe", "words", "live")
    assert (words["kind"], words["members"], words["partitions"]) == ("other", [], [])
    assert (live["lag"], live["members"][0]["assigned"]) == (2, ["orders-0"])
    assert bmq.failure("group", "describe", "gone").startswith("there is no group 'gone'; ")


def test_the_lag_of_all_groups_by_topic(bmq: Commands) -> None:
    rows = bmq.document("group", "lag")
    assert [(row["group"], row["topic"], row["partitions"], row["lag"], row["unknown"]) for row in rows] == [
        ("idle", "deleted", 1, 0, 1),
        ("idle", "orders", 2, 2, 0),
        ("live", "orders", 1, 2, 0),
    ]
    assert bmq.rows("group", "lag", "live") == [["live", "orders", "1", "2", "2", "0"]]


@pytest.mark.parametrize(
    ("how", "offsets"),
    [
        (("--to-earliest",), [0, 0]),
        (("--to-latest",), [3, 1]),
        (("--to-offset", "2"), [2, 1]),
        (("--to-time", "16"), [1, 1]),
        (("--shift-by", "-1"), [1, 0]),
        (("--shift-by", "1"), [3, 1]),
    ],
)
def test_where_a_reset_goes(bmq: Commands, kafka: FakeKafka, how: tuple[str, ...], offsets: list[int]) -> None:
    plan = bmq.document("group", "reset", "idle", "-t", "orders", *how, "--dry-run")
    assert [row["offset"] for row in plan] == offsets
    assert kafka.calls == []
    before = [2, 0]
    changes = {("orders", n): to for n, (to, was) in enumerate(zip(offsets, before, strict=True)) if to != was}
    bmq.shown("group", "reset", "idle", "-t", "orders", *how)
    assert kafka.calls == [("commit", "idle", changes)]
    assert bmq.document("group", "reset", "idle", "-t", "orders", "--to-current")[0]["committed"] == offsets[0]


def test_a_plan_is_kept_and_restored(bmq: Commands, kafka: FakeKafka, tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text(bmq.shown("group", "reset", "idle", "--all-topics", "--to-current", "--csv"))
    bmq.shown("group", "reset", "idle", "--all-topics", "--to-latest")
    bmq.shown("group", "reset", "idle", "--from-file", str(plan))
    assert kafka.group_offsets["idle"] == {("orders", 0): 2, ("orders", 1): 0, ("deleted", 0): 7}
    plan.write_text("topic,partition,offset\ngone,0,1\n")
    assert bmq.failure("group", "reset", "idle", "--from-file", str(plan)) == "there is no topic 'gone'"
    plan.write_bytes(b"\xff")
    assert bmq.failure("group", "reset", "idle", "--from-file", str(plan)).endswith("is not UTF-8")
    assert "cannot read" in bmq.failure("group", "reset", "idle", "--from-file", str(tmp_path))


def test_a_reset_says_what_it_means_and_leaves_groups_in_use_alone(bmq: Commands, kafka: FakeKafka) -> None:
    shown = bmq.shown("group", "reset", "idle", "-t", "orders:0", "--to-earliest")
    assert "reads 2 again" in shown
    assert "1 offset of group idle set" in shown
    assert "nothing to change" in bmq.shown("group", "reset", "idle", "-t", "orders:0", "--to-earliest")
    del kafka.calls[:]
    refused = bmq.failure("group", "reset", "live", "-t", "orders", "--to-latest")
    assert refused == "group 'live' has 1 member; end them first"
    assert "new" in bmq.shown("group", "reset", "brand-new", "-t", "orders:1", "--to-latest")
    assert kafka.calls == [("commit", "brand-new", {("orders", 1): 1})]
    assert "has no committed offsets" in bmq.failure("group", "reset", "never", "--all-topics", "--to-latest")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("-t", "orders"),
        ("--to-latest",),
        ("-t", "orders", "--to-latest", "--to-earliest"),
        ("-t", "orders", "--all-topics", "--to-latest"),
        ("-t", "orders", "--from-file", "plan.csv"),
        ("-t", "orders", "--to-offset", "-1"),
    ],
)
def test_a_reset_is_asked_for_in_one_way(bmq: Commands, arguments: tuple[str, ...]) -> None:
    assert bmq.run("group", "reset", "idle", *arguments).exit_code == 2


@pytest.mark.usefixtures("on_a_terminal")
def test_nothing_is_set_or_deleted_on_a_terminal_without_a_yes(bmq: Commands, kafka: FakeKafka) -> None:
    asked = bmq.run("group", "reset", "idle", "-t", "orders", "--to-latest", given="n\n")
    assert (asked.exit_code, "skips 1" in asked.output, "Set 2 offsets of group idle?" in asked.output) == (
        1,
        True,
        True,
    )
    assert bmq.run("group", "delete", "idle", given="\n").exit_code == 1
    assert kafka.calls == []


def test_groups_are_deleted(bmq: Commands, kafka: FakeKafka) -> None:
    assert bmq.run("group", "delete").exit_code == 2
    assert bmq.failure("group", "delete", "gone") == "there is no group 'gone'"
    assert bmq.shown("group", "delete", "--pattern", "gone") == "no such group is there\n"
    assert bmq.shown("group", "delete", "idle", "--dry-run") == "group idle: classic, empty, offsets in 3 partitions\n"
    assert "not empty" in bmq.failure("group", "delete", "live")
    assert kafka.calls == []
    bmq.shown("group", "delete", "--pattern", "idle|words")
    assert kafka.calls == [("delete group", "idle"), ("delete group", "words")]
