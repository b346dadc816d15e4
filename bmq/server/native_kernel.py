"""Says at a server's start that it works without its kernel, and why."""

from __future__ import annotations

import structlog

from bmq.records.native.library import kernel

_log = structlog.get_logger("bmq.cli")


def warn_without_kernel() -> None:
    """One line if records are read by Python: everything works, and produces of many small records take longer."""
    found = kernel()
    if found.library is None:
        _log.warning("kernel_missing", reason=found.reason)
