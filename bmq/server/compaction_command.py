"""How the process that cleans logs is begun: its command line, for who begins it and for itself."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

COMMAND: Final = (sys.executable, "-P", "-m", "bmq.server.compaction_worker")
"""-P: modules come from the installation, not from the directory that the server was started in."""

_SHARE: Final = "--share"
_TAKE_PART: Final = "--take-part"
_BRIEF: Final = "--brief"


class Options(NamedTuple):
    """`share`: the descriptor of a `SharedCpuShare`. `take_part`: it does not wait until nobody else wants to run.

    `is_brief`: it has little to do, and runs as any other process.
    """

    share: int
    take_part: bool
    is_brief: bool


def arguments(options: Options) -> list[str]:
    """What `parse` understands."""
    words = [_SHARE, str(options.share)]
    words += [_TAKE_PART] if options.take_part else []
    return words + ([_BRIEF] if options.is_brief else [])


def parse(words: Sequence[str] | None = None) -> Options:
    """None: those of this process. Ends it, with a message, when they are not understood."""
    parser = argparse.ArgumentParser(prog="bmq.server.compaction_worker")
    parser.add_argument(_SHARE, type=int, required=True)
    parser.add_argument(_TAKE_PART, action="store_true")
    parser.add_argument(_BRIEF, action="store_true")
    found = parser.parse_args(words)
    return Options(found.share, found.take_part, found.brief)
