from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import structlog

from tests.fakes.stall_free_loop import StallFreeLoop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Of all coroutines that are tests or fixtures here; the one name is in no test's name."""
    return {"stall_free": StallFreeLoop}


@pytest.fixture(autouse=True)
def logs_of_this_test_alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a command sets up for its logs ends with the test, and no logger keeps it: others capture theirs."""
    was_configured, before, configure = structlog.is_configured(), structlog.get_config(), structlog.configure

    def configured(**given: Any) -> None:
        configure(**{**given, "cache_logger_on_first_use": False})

    monkeypatch.setattr(structlog, "configure", configured)
    yield
    if was_configured:
        configure(**before)
    else:
        structlog.reset_defaults()
