"""Spark's limits of a micro-batch: Spark passes them from 4.2 on."""

from __future__ import annotations

from typing import Any

try:
    from pyspark.sql.streaming import datasource as _limits

    AvailableNow: type = _limits.SupportsTriggerAvailableNow
except ImportError:  # Spark 4.0, 4.1
    _limits = None

    class AvailableNow:  # type: ignore[no-redef]
        """Stands for Spark 4.2's SupportsTriggerAvailableNow."""


def default(offsets_max: int | None, bytes_max: int | None) -> Any:
    """The limit that Spark should pass if its trigger sets none. Spark has no limit on both; we enforce both ourselves."""
    if offsets_max is not None:
        return _limits.ReadMaxRows(offsets_max)
    return _limits.ReadAllAvailable() if bytes_max is None else _limits.ReadMaxBytes(bytes_max)


def is_all(limit: object) -> bool:
    """Whether Spark wants everything, whatever the options say."""
    return _limits is not None and isinstance(limit, _limits.ReadAllAvailable)
