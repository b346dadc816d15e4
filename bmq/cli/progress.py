"""How far a long job is, on standard error."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

LINE_EVERY_S: Final = 10.0


class JobProgress:
    """On standard error, so that a report on standard output stays clean. A bar on a terminal, else a line now and then.

    `has_document`: standard output gets a document. Where both streams are one file (`2>&1`, or under spark-submit, which
    joins them) nothing is shown then: lines before the document would make it unreadable.
    """

    def __init__(self, what: str, *, has_document: bool = False) -> None:
        self._what = what
        self._is_silent = has_document and _are_streams_joined()
        self._shown_s = -LINE_EVERY_S
        self._shown = (-1, -1)
        self._bar: Progress | None = None
        self._task: Any = None
        if sys.stderr.isatty() and not self._is_silent:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(what, total=None)

    def __enter__(self) -> JobProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, done: int, total: int, unit: str) -> None:
        if self._is_silent:
            return
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total, description=f"{self._what}, {unit}")
            return
        now_s = time.monotonic()
        if (done, total) != self._shown and (done == total or now_s - self._shown_s >= LINE_EVERY_S):
            self._shown_s, self._shown = now_s, (done, total)
            share = f"{done / total:.0%}" if total else "100%"
            sys.stderr.write(f"{self._what}: {done} of {total} {unit} ({share})\n")
            sys.stderr.flush()


def _are_streams_joined() -> bool:
    """Whether standard output and standard error are one file or pipe; a terminal is no file that is read afterwards."""
    try:
        return not sys.stdout.isatty() and os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
    except (OSError, ValueError):  # a stream that is no file, or closed
        return False
