"""Asks what a scrape of /metrics needs. What cannot be asked keeps its old values, and the others are shown all the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import structlog

_log = structlog.get_logger("bmq.admin")


class Refreshed(Protocol):
    """A collector that has to ask before a scrape."""

    async def refresh(self) -> None: ...


async def refresh_all(collectors: Iterable[Refreshed]) -> None:
    """One after the other. Raises nothing."""
    for each in collectors:
        try:
            await each.refresh()
        except Exception:  # noqa: BLE001 any bug is logged, and takes no other metric away
            _log.exception("metrics_not_refreshed", collector=type(each).__name__)
