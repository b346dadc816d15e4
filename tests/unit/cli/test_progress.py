"""What a job's progress looks like: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from select import select

import pytest

from bmq.cli import progress as progress_module
from bmq.cli.progress import JobProgress
from testing.patience import Patience

pytestmark = pytest.mark.unit


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Standard error is one; yields the end that a person looks at."""
    seen, shown = os.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with os.fdopen(shown, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        yield seen
    os.close(seen)


@pytest.mark.parametrize("what", ["stats", "find", "verify", "backfill", "mirror"])
def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    with terminal(monkeypatch) as seen:
        with JobProgress(what) as progress:
            progress.show(3, 10, "offsets")
        # At the end the bar is taken away. A terminal passes on what was written piece by piece.
        missing, text = {f"{what}, offsets", "30%", "\x1b[2K"}, ""
        while missing and select([seen], [], [], 10)[0]:
            text += os.read(seen, 65_536).decode()
            missing = {each for each in missing if each not in text}
    assert not missing, text


def test_lines_elsewhere(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now_s = iter([100.0, 101.0, 110.0, 111.0, 112.0])
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: next(now_s))  # type: ignore[attr-defined]
    with JobProgress("find") as progress:
        for done in (0, 1, 2, 10, 10):
            progress.show(done, 10, "offsets")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "find: 0 of 10 offsets (0%)",
        "find: 2 of 10 offsets (20%)",
        "find: 10 of 10 offsets (100%)",
    ]


def test_nothing_to_do_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    JobProgress("verify").show(0, 0, "files")
    assert capsys.readouterr().err == "verify: 0 of 0 files (100%)\n"


@pytest.mark.parametrize("has_document", [True, False])
@pytest.mark.parametrize("are_joined", [True, False])
def test_a_document_in_the_same_pipe_is_not_spoilt(are_joined: bool, has_document: bool) -> None:
    """As under spark-submit, which joins the streams of the program it runs."""
    program = f"""
from bmq.cli.progress import JobProgress
with JobProgress("stats", has_document={has_document}) as progress:
    progress.show(1, 2, "offsets")
print("[]")
"""
    stderr = subprocess.STDOUT if are_joined else subprocess.PIPE
    done = subprocess.run(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        check=True,
        timeout=Patience(50).limit_s,
    )
    line = "stats: 1 of 2 offsets (50%)\n"
    if are_joined:
        assert done.stdout == ("[]\n" if has_document else f"{line}[]\n")
    else:
        assert (done.stdout, done.stderr) == ("[]\n", line)
