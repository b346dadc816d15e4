"""One collector that fails takes no other metric away."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from bmq.admin.metrics_refresh import refresh_all

pytestmark = pytest.mark.unit


class Broken:
    async def refresh(self) -> None:
        raise RuntimeError("a bug")


class Sound:
    count = 0

    async def refresh(self) -> None:
        self.count += 1


async def test_a_failing_collector_is_logged_and_the_others_are_refreshed() -> None:
    sound = Sound()
    with capture_logs() as events:
        await refresh_all([Broken(), sound])
    assert sound.count == 1
    (event,) = events
    assert (event["event"], event["log_level"], event["collector"]) == ("metrics_not_refreshed", "error", "Broken")
    assert event["exc_info"]
