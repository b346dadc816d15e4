"""Runs `bmq` and records which functions of it are called between SIGUSR1 and SIGUSR2, in the file that
BMQ_WALK names.

A script of its own, so that it can run in the tree of an earlier revision. The file is JSON: {"path in bmq": calls}. A file with
`.begun` behind its name says that recording has begun.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

_called: Counter[str] = Counter()
_file = os.environ["BMQ_WALK"]


def _count(frame: FrameType, event: str, argument: object) -> None:
    _, found, path = frame.f_code.co_filename.rpartition("/bmq/")
    if event == "call" and found:
        _called[path] += 1


def _begin(number: int, frame: FrameType | None) -> None:
    _called.clear()
    sys.setprofile(_count)
    open(f"{_file}.begun", "w", encoding="utf-8").close()  # it is a mark


def _end(number: int, frame: FrameType | None) -> None:
    sys.setprofile(None)
    with open(f"{_file}.new", "w", encoding="utf-8") as file:
        json.dump(_called, file)
    Path(f"{_file}.new").replace(_file)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, _begin)
    signal.signal(signal.SIGUSR2, _end)
    from bmq.cli.main import main

    main()
