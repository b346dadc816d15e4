"""Spark's limits of a micro-batch: from 4.2 on Spark hands them in, before that there are none."""

from __future__ import annotations

from typing import Any

try:
    from pyspark.sql.streaming import datasource as _limits

    AvailableNow: type = _limits.SupportsTriggerAvailableNow
except ImportError:  # Spark 4.0, 4.1
    _limits = None  # type: ignore[assignment]

    class AvailableNow:  # type: ignore[no-redef]
        """What Spark 4.2 calls SupportsTriggerAvailableNow."""


def default(offsets_max: int | None, bytes_max: int | None) -> Any:
    """What Spark is to ask for when its trigger does not say otherwise. There is no limit of both: we keep to both."""
    if offsets_max is not None:
        return _limits.ReadMaxRows(offsets_max)
    return _limits.ReadAllAvailable() if bytes_max is None else _limits.ReadMaxBytes(bytes_max)


def is_all(limit: object) -> bool:
    """Whether Spark wants all there is, whatever the options say."""
    return _limits is not None and isinstance(limit, _limits.ReadAllAvailable)
