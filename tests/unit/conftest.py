from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from tests.fakes.stall_free_loop import StallFreeLoop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Of all coroutines that are tests or fixtures here; the one name is in no test's name."""
    return {"stall_free": StallFreeLoop}
