"""Rows as a table, as JSON or as CSV: the same names in all, and no control character on a terminal."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import typer
from rich.table import Table

from bmq.cli.terminal import add_row, print_json, print_table
from bmq.dataclass import dataclass

_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def output_of(*, as_json: bool, as_csv: bool) -> Output:
    """Raises typer.BadParameter for both."""
    if as_json and as_csv:
        raise typer.BadParameter("--json or --csv, not both")
    return Output.JSON if as_json else Output.CSV if as_csv else Output.TABLE


def printable(text: str) -> str:
    r"""Control characters as \xNN: what others wrote must not steer the terminal."""
    return text.translate(_CONTROL)


def counted(count: int, noun: str) -> str:
    """1 topic, 2 topics."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def cell_text(value: object) -> str:
    """`-` for None; items of a list after each other; true and false as in JSON."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return str(value)


@dataclass(frozen=True, slots=True)
class Column:
    """`name`: of the key in JSON and of the column in CSV. `text`: the cell of a table."""

    name: str
    heading: str | None = None
    text: Callable[[Any], str] = cell_text


def print_rows(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]], output: Output) -> None:
    """JSON has everything that is in the rows, the others the columns. CSV: empty for None, RFC 4180."""
    match output:
        case Output.JSON:
            print_json(list(rows))
        case Output.CSV:
            print_csv([column.name for column in columns], ([row[c.name] for c in columns] for row in rows))
        case Output.TABLE:
            headings = (
                column.name.replace("_", " ") if column.heading is None else column.heading for column in columns
            )
            table = Table(*headings, box=None, pad_edge=False)
            for row in rows:
                add_row(table, *(printable(column.text(row[column.name])) for column in columns))
            print_table(table)


def print_csv(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow(["" if value is None else cell_text(value) for value in row])


def print_head(pairs: Iterable[tuple[str, object]]) -> None:
    """Names and values in two columns, above a table."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in pairs:
        add_row(table, name, printable(cell_text(value)))
    print_table(table)
