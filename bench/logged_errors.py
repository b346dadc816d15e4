"""Which errors a node of bmq logged: its log goes with its directory, and they say why a part of a benchmark failed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from testing.processes import REPOSITORY

LINES_MAX: Final = 5
LINE_CHARACTERS_MAX: Final = 300
_LEVELS: Final = frozenset(("error", "critical"))
_LEFT_OUT: Final = frozenset(("level", "event", "timestamp", "exception"))


@contextmanager
def with_logged_errors(log_files: Iterable[Path]) -> Iterator[None]:
    """An error in here gets the first lines that these logs have of errors as notes (`said`)."""
    try:
        yield
    except Exception as error:
        for line in logged_errors(log_files):
            error.add_note(line)
        raise


def said(error: BaseException) -> str:
    """An error with its notes, in a line. Paths are relative to the tree, whose place is one machine's own."""
    notes = getattr(error, "__notes__", ())
    return "; ".join((f"{type(error).__name__}: {error}", *notes)).replace(f"{REPOSITORY}/", "")


def logged_errors(log_files: Iterable[Path]) -> list[str]:
    """The first ones, each with its log's name."""
    found: list[str] = []
    for path in log_files:
        for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
            if len(found) == LINES_MAX:
                return found
            entry = _entry(line)
            if entry is not None and entry.get("level") in _LEVELS:
                named = " ".join(f"{name}={value}" for name, value in entry.items() if name not in _LEFT_OUT)
                found.append(f"{path.stem} logged {entry.get('event')} {named}"[:LINE_CHARACTERS_MAX])
    return found


def _entry(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None  # of another process, or of the interpreter
    return entry if isinstance(entry, dict) else None
