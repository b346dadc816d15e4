"""The command line of the process that cleans logs: the server writes it, and the process parses it."""

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
    """`share`: the descriptor of a `SharedCpuShare`. `take_part`: run at normal priority, not only while processors are idle.
    `is_brief`: there is little to clean, so run as any other process.
    """

    share: int
    take_part: bool
    is_brief: bool


def arguments(options: Options) -> list[str]:
    """The command line of these options, as `parse` reads it."""
    words = [_SHARE, str(options.share)]
    words += [_TAKE_PART] if options.take_part else []
    return words + ([_BRIEF] if options.is_brief else [])


def parse(words: Sequence[str] | None = None) -> Options:
    """Options of a command line; None: that of this process. Ends the process with a message if it cannot parse them."""
    parser = argparse.ArgumentParser(prog="bmq.server.compaction_worker")
    parser.add_argument(_SHARE, type=int, required=True)
    parser.add_argument(_TAKE_PART, action="store_true")
    parser.add_argument(_BRIEF, action="store_true")
    found = parser.parse_args(words)
    return Options(found.share, found.take_part, found.brief)
