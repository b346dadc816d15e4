"""Every sentence that `--help` of a command shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from bmq.cli.commands import app


def help_texts() -> Iterator[tuple[str, str]]:
    """Command (`bmq topic list`, an option behind it) and text, of all commands."""
    yield from _texts(get_command(app), "bmq")


def _texts(command: Any, name: str) -> Iterator[tuple[str, str]]:
    if command.help:
        yield name, command.help
    for parameter in command.params:
        if getattr(parameter, "help", None):
            yield f"{name} {parameter.name}", parameter.help
    if hasattr(command, "list_commands"):
        context = command.context_class(command)
        for each in command.list_commands(context):
            yield from _texts(command.get_command(context, each), f"{name} {each}")
