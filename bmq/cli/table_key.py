"""Options for tables whose records change rows: the key, and how records say what they do."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bmq.table_definitions.row_changes import ChangeMode

Key = Annotated[
    str,
    typer.Option(
        "--key", metavar="FIELD,…", help="The last record of each key is its row; left out: each record is a row"
    ),
]
Mode = Annotated[
    ChangeMode | None,
    typer.Option("--mode", help="upsert: a record is a row, one without a value deletes it; debezium: its envelope"),
]


def changes_form(key: str, mode: ChangeMode | None) -> dict[str, Any]:
    """The definition's `changes`, under that name; nothing without a key. Raises typer.BadParameter."""
    if not key:
        if mode is not None:
            raise typer.BadParameter("name the fields of the key too", param_hint="--key")
        return {}
    return {"changes": {"key": [name.strip() for name in key.split(",")], "mode": (mode or ChangeMode.UPSERT).value}}
