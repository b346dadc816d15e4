"""The start of the `bmq` command: everything that must happen before its modules are imported."""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
from typing import Final

_OUTPUT_ENDS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EPIPE})
"""A full disk, a limit, or a reader that has gone."""


def main() -> None:
    """Entry point. A known failure is one sentence on standard error and exit code 1, never a traceback."""
    # Frames and batches are freed by reference counting; a full collection over a million live objects only costs
    # latency. Set before any import: objects of modules stay alive, and scanning them again and again took a tenth of a
    # start.
    gc.set_threshold(100_000, 20, 100)

    # What others wrote is shown whatever the terminal's encoding is.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

    from bmq.cli import shell_completion
    from bmq.cli.commands import app
    from bmq.protocol.errors import BmqError

    if shell_completion.is_asked():
        shell_completion.prepare()
    try:
        try:
            app(standalone_mode=True)
        finally:
            if isinstance(sys.stdout, io.TextIOWrapper):
                sys.stdout.flush()  # here it can still be told that nothing more goes there
    except BmqError as error:
        sys.stderr.write(f"bmq: {error}\n")
        sys.exit(1)
    except OSError as error:
        if error.errno not in _OUTPUT_ENDS or error.filename is not None:
            raise
        if error.errno != errno.EPIPE:
            sys.stderr.write(f"bmq: standard output takes no more: {error.strerror}\n")
        # Discard buffered output: the interpreter flushes it at exit, and would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)


if __name__ == "__main__":
    main()
