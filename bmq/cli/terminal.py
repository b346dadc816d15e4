"""Tables and JSON on standard output, alike for all commands."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

_LINE_CHARACTERS_MAX: Final = 250


def add_row(table: Table, *cells: str) -> None:
    """Add cells as plain text: content from elsewhere may look like markup."""
    table.add_row(*(Text(cell) for cell in cells))


def print_json(document: Any) -> None:
    sys.stdout.write(f"{json.dumps(document, indent=2)}\n")


def print_table(table: Table) -> None:
    console().print(table)


def console() -> Console:
    # Each node or file keeps its own line, however narrow the terminal is; a pipe has no width at all.
    return Console(soft_wrap=True) if is_terminal() else Console(width=_LINE_CHARACTERS_MAX, soft_wrap=True)


def is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()
