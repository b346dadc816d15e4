"""The process that cleans logs, beside the server that owns them.

A long cleaning runs only while processors are idle, unless `take_part` is set. The priority is set before other modules are
loaded. Few modules are loaded, because small logs are cleaned within a moment.
"""

from __future__ import annotations

import sys
from typing import Final

NICENESS: Final = 10
_LEFT_OUT: Final = ("rich",)
"""Packages that structlog would load for traces in colour: they take as long as all else together."""


def leave_out() -> None:
    """Make imports of these modules fail from now on, which structlog expects."""
    for name in _LEFT_OUT:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]


def main() -> None:
    leave_out()

    import asyncio
    import os

    from bmq.server.compaction_command import parse
    from bmq.server.duty_cycle import DutyCycle
    from bmq.server.scheduling import run_when_idle
    from bmq.server.shared_cpu_share import SharedCpuShare

    options = parse()
    if options.take_part:
        os.nice(NICENESS)
    elif not options.is_brief:
        run_when_idle()
    if not options.is_brief:
        DutyCycle(SharedCpuShare(options.share).get).begin()

    from bmq.server.compaction_service import run

    try:
        asyncio.run(run())
    except BrokenPipeError:
        os._exit(1)  # nobody waits for the answer, nor for what is still buffered


if __name__ == "__main__":
    main()
