"""How `bmq index query` shows an answer: rows as a table, and on standard error how complete they are."""

from __future__ import annotations

import base64
import sys
from typing import Any, Final

from rich.table import Table

from bmq.cli.terminal import add_row, print_table

_CELL_CHARACTERS_MAX: Final = 60
_PARTITIONS_SHOWN_MAX: Final = 20


def print_answer(answer: Any) -> None:
    rows = answer["rows"]
    if rows:
        names = list(rows[0]["fields"])
        has_records = "record" in rows[0]
        more = ["key", "value"] if has_records else []
        table = Table("partition", "offset", "timestamp", *names, *more, box=None, pad_edge=False)
        for row in rows:
            cells = [row["partition"], row["offset"], row["timestamp"], *(row["fields"][name] for name in names)]
            if has_records:
                cells += [_content(row["record"]["key"]), _content(row["record"]["value"])]
            add_row(table, *map(_cell, cells))
        print_table(table)
    for line in completeness_lines(answer):
        sys.stderr.write(f"{line}\n")
    if answer["continuation"] is not None:
        sys.stderr.write(f"there are more; the next ones: --continue {answer['continuation']}\n")


def print_explanation(answer: Any) -> None:
    for line in answer["explanation"]:
        sys.stdout.write(f"{line}\n")


def completeness_lines(answer: Any) -> list[str]:
    """Up to where an answer is complete, and what it left out."""
    rows, partitions = len(answer["rows"]), answer["partitions"]
    behind = [each for each in partitions if each["complete_to"] < each["end"]]
    lines = [f"{rows} row{'' if rows == 1 else 's'} in {answer['elapsed_ms']} ms"]
    if not behind:
        lines.append(f"complete up to the ends of all {len(partitions)} partitions")
    lines += [
        f"partition {each['partition']} is complete up to offset {each['complete_to']} of {each['end']}: "
        "the rest is not indexed yet, and was too much to read now"
        for each in behind[:_PARTITIONS_SHOWN_MAX]
    ]
    if len(behind) > _PARTITIONS_SHOWN_MAX:
        lines.append(f"and {len(behind) - _PARTITIONS_SHOWN_MAX} more partitions are not complete")
    if answer["tail"]["misfits"]:
        lines.append(f"{answer['tail']['misfits']} records that are not indexed yet do not fit the index's fields")
    if answer["gone"]:
        lines.append(f"{answer['gone']} records that matched were compacted away")
    return lines


def _cell(value: object) -> str:
    text = "-" if value is None else str(value)
    return text if len(text) <= _CELL_CHARACTERS_MAX else f"{text[: _CELL_CHARACTERS_MAX - 1]}…"


def _content(encoded: str | None) -> str | None:
    """Bytes as text, as far as they are any."""
    return None if encoded is None else base64.b64decode(encoded).decode("utf-8", "backslashreplace")
