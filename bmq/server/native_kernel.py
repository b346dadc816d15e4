"""Warns at a server's start that the C kernel is missing, and says why."""

from __future__ import annotations

import structlog

from bmq.records.native.library import kernel

_log = structlog.get_logger("bmq.cli")


def warn_without_kernel() -> None:
    """Warn once if records are read by Python code. Everything works, but produces of many small records take longer."""
    found = kernel()
    if found.library is None:
        _log.warning("kernel_missing", reason=found.reason)
