from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def no_logs_of_workers() -> Iterator[None]:
    """What Spark's workers set up for their logs ends with the test, and so does the standard error they hold."""
    was_configured = structlog.is_configured()
    yield
    if not was_configured:
        structlog.reset_defaults()
