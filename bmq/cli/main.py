"""Where the `bmq` command begins: what has to be settled before its modules are imported."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Entry point. A failure that has a name is one sentence on standard error and exit code 1, never a traceback."""
    # Frames and batches die by reference count; a full collection over a million live objects only costs latency. Set
    # before anything is imported: what modules are made of lives on, and looking at it again and again took a tenth of a start.
    gc.set_threshold(100_000, 20, 100)

    from bmq.cli.commands import app
    from bmq.protocol.errors import BmqError

    try:
        app(standalone_mode=True)
    except BmqError as error:
        sys.stderr.write(f"bmq: {error}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
