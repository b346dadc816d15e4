"""The process that cleans logs, beside the server that owns them.

Only it loads what decodes records, half a second and 100 MB that a server does not need, and it has a processor to
itself if there is one: it runs when nobody else wants to, unless it is told to take part. All that is set before it loads
anything: that takes a processor as well.
"""

from __future__ import annotations

import asyncio
import os
from typing import Final

from bmq.cli.compaction_command import parse
from bmq.cli.duty_cycle import DutyCycle
from bmq.cli.scheduling import run_when_idle
from bmq.cli.shared_share import SharedShare

NICENESS: Final = 10


def main() -> None:
    options = parse()
    if options.take_part:
        os.nice(NICENESS)
    else:
        run_when_idle()
    DutyCycle(SharedShare(options.share).look).begin()

    from bmq.cli.compaction_service import run

    try:
        asyncio.run(run())
    except BrokenPipeError:
        os._exit(1)  # nobody waits for the answer, nor for what is still buffered


if __name__ == "__main__":
    main()
