"""Rows in their three forms."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.cli.kafka.rows import Column, Output, print_rows, printable

pytestmark = pytest.mark.unit

COLUMNS = (Column("name"), Column("count", text=lambda count: f"{count:,}"), Column("of_it"))
ROWS: list[dict[str, Any]] = [
    {"name": 'a"b,c', "count": 1000, "of_it": [1, 2], "more": True},
    {"name": None, "count": 2, "of_it": False},
]


def test_a_table_has_headings_and_its_own_texts(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(COLUMNS, ROWS, Output.TABLE)
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "name   count  of it",
        'a"b,c  1,000  1 2',
        "-      2      false",
    ]


def test_json_and_csv_have_the_plain_values(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(COLUMNS, ROWS, Output.JSON)
    assert json.loads(capsys.readouterr().out) == ROWS
    print_rows(COLUMNS, ROWS, Output.CSV)
    assert list(csv.reader(io.StringIO(capsys.readouterr().out))) == [
        ["name", "count", "of_it"],
        ['a"b,c', "1000", "1 2"],
        ["", "2", "false"],
    ]


@given(st.text())
def test_no_control_character_reaches_the_terminal(text: str) -> None:
    shown = printable(text)
    assert not any(ord(each) < 32 or 127 <= ord(each) < 160 for each in shown)
    assert printable("\x1b[31mred[bold]") == "\\x1b[31mred[bold]"
