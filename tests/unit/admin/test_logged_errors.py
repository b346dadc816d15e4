"""What is logged is counted by event, hidden lines too, and never grows without a bound."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog
from prometheus_client import CollectorRegistry

from bmq.admin.logged_errors import EVENTS_MAX, OTHER, LoggedErrors
from bmq.server.logs import show_logs

pytestmark = pytest.mark.unit


@pytest.fixture
def errors() -> Iterator[LoggedErrors]:
    times = iter(range(1_000, 1_000_000, 1_000))
    errors = LoggedErrors(lambda: next(times))
    before = structlog.get_config()
    show_logs(lambda name, level: level >= 40, "error", "json", errors.note)
    structlog.configure(cache_logger_on_first_use=False)
    yield errors
    structlog.configure(**before)


def test_warnings_and_errors_are_counted(errors: LoggedErrors, capsys: pytest.CaptureFixture[str]) -> None:
    log = structlog.get_logger("bmq.part")
    log.info("begun")
    log.warning("it_waits", reason="secret")
    log.error("it_failed")
    try:
        raise ValueError
    except ValueError:
        log.exception("it_failed")
    registry = CollectorRegistry()
    registry.register(errors)

    def value(name: str, event: str, severity: str) -> float | None:
        return registry.get_sample_value(name, {"event": event, "severity": severity})

    assert value("bmq_log_events_total", "it_waits", "warning") == 1
    assert value("bmq_log_events_total", "it_failed", "error") == 2
    assert value("bmq_log_event_last_timestamp_seconds", "it_failed", "error") == 3
    assert [one.event for one in errors.since(0)] == ["it_failed"]
    assert errors.since(3_001) == ()
    assert "begun" not in repr(list(errors.collect()))
    assert "secret" not in repr(list(errors.collect()))
    assert "it_waits" not in capsys.readouterr().err  # hidden by the level, and counted


def test_names_are_bounded() -> None:
    errors = LoggedErrors(lambda: 7)
    for number in range(EVENTS_MAX + 50):
        errors.note(None, "error", {"event": f"event_{number}"})
    found = {one.event: one.count for one in errors.since(0)}
    assert len(found) == EVENTS_MAX + 1
    assert found[OTHER] == 50
