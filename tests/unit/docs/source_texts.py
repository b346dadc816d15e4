"""Texts in the source that users and operators read: messages of errors, answers and log events, and descriptions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.unit.docs.pages import REPOSITORY


def packages() -> list[Path]:
    """The packages of bmq, without the generated messages of Kafka's protocol."""
    return sorted(path.parent for path in (REPOSITORY / "bmq").glob("*/__init__.py"))


def messages(package: Path) -> Iterator[tuple[str, str]]:
    """Place and text of each string with a blank in it that is no docstring; what an f-string inserts is an X."""
    for path in sorted(package.rglob("*.py")):
        if "messages" not in path.parts:
            yield from _messages_of(path)


def _messages_of(path: Path) -> Iterator[tuple[str, str]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(node.value)
        if isinstance(node, ast.JoinedStr):
            skipped.update(node.values)
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped:
            text = node.value
        else:
            continue
        if " " in text:
            yield f"{path.relative_to(REPOSITORY)}:{node.lineno}", text
