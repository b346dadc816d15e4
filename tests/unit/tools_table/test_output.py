"""What is compared of what a tool printed, and which options it used."""

from __future__ import annotations

import pytest

from tests.tools_table.case import Step
from tests.tools_table.compare import Difference, compared
from tests.tools_table.output import Shown
from tests.tools_table.tools import TOOLS, options_of, used_options

pytestmark = pytest.mark.campaign("unit")

SHOWN = Shown({"127.0.0.1:9092": "SERVER", "9092": "PORT"})


@pytest.mark.parametrize(
    ("printed", "lines"),
    [
        ("127.0.0.1:9092 (id: 1)", ["SERVER (id: 1)"]),
        ("on port 9092", ["on port PORT"]),
        ("Topic: a\tTopicId: AAAAAAAAAAAAAAAAAAAAAA\tn", ["Topic: a TopicId: ID n"]),
        ("consumer-1-7f1d2c9a-5b60-4c0e-9d3e-0123456789ab", ["consumer-N-ID"]),
        ("GROUP   TOPIC\n\ng       t     ", ["GROUP TOPIC", "g t"]),
        ("java.lang.Error: x\n\tat a.b.C.run(C.java:1)\n\t... 3 more", ["java.lang.Error: x"]),
        ("at 2026-11-25T10:00:00.000Z or 1764000000000", ["at TIME or TIME"]),
        ('{"size":17,"offsetLag":0}', ['{"size":N,"offsetLag":0}']),
        ("T: a\tConfigs: b.c=1,a=x,y,d=", ["T: a", "Config: a=x,y", "Config: b.c=1", "Config: d="]),
    ],
)
def test_what_differs_from_run_to_run_is_named(printed: str, lines: list[str]) -> None:
    assert SHOWN.lines(printed) == lines


def test_columns_are_hidden_where_a_table_has_them() -> None:
    shown = Shown({}, hidden=("ProducerId",))
    printed = "Id  ProducerId  State\na  4000  Empty\nb  4001  Open\nand something else here\n"
    assert shown.lines(printed) == [
        "Id ProducerId State",
        "a <ProducerId> Empty",
        "b <ProducerId> Open",
        "and something else here",
    ]


def test_options_are_those_at_the_beginning_of_a_line() -> None:
    jopt = "Tool.\n* --bootstrap-server <String>  as --this\n--list   \n                 --never\n--a.b <x>\n------\n"
    assert options_of(jopt) == ["--bootstrap-server", "--list", "--a.b"]
    argparse = "usage: t [-h] --x X\n             [--y]\noptional arguments:\n  -h, --help   text\n  --x X   see --y\n"
    assert options_of(argparse) == ["--help", "--x"]


def test_an_option_counts_for_its_subcommand_too() -> None:
    used = used_options(TOOLS["kafka-features"], ["--command-config", "f", "upgrade", "--feature=a", "--dry-run"])
    assert used >= {"--command-config", "upgrade", "upgrade --feature", "upgrade --dry-run"}
    assert "upgrade --command-config" not in used


def test_steps_are_compared_line_by_line() -> None:
    same = Step("a", frozenset({"--x"}), ["1", "2", "3"])
    first, second = compared([same, same], [Step("a", frozenset(), ["1", "x", "3"])])
    assert first.differences == (Difference(("2",), ("x",)),)
    assert second.differences == (Difference(("1", "2", "3"), ("not run",)),)
