"""What all tests share: hypothesis profiles, clocks and fakes.

`quick` (the default) gives the same examples every time; `HYPOTHESIS_PROFILE=fresh` others each time, or those of
`--hypothesis-seed`; `deep` searches further.
"""

from __future__ import annotations

import gc
import os
from collections.abc import AsyncIterator, Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from testing.patience import slowness
from testing.servers import PATIENCE, BmqServer
from tests.fakes.clock import FakeClock
from tests.fakes.loop_time import LoopTime
from tests.fakes.partition_log import FakePartitions
from tests.fakes.store import FakeStore
from tests.support.known_examples import leave_out_constants_of_modules
from tests.support.places import add_option, fail_without_a_place, is_left_out, keep_those_of_the_place

# Asyncio's debug mode makes every call ten times slower, and timings part of the warnings.
os.environ.pop("PYTHONASYNCIODEBUG", None)
BmqServer.patience = PATIENCE

_SLOW_IS_FINE = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.differing_executors)
settings.register_profile(
    "quick", derandomize=True, database=None, deadline=None, max_examples=20, suppress_health_check=_SLOW_IS_FINE
)
settings.register_profile(
    "fresh", database=None, deadline=None, max_examples=120, print_blob=True, suppress_health_check=_SLOW_IS_FINE
)
settings.register_profile("deep", deadline=None, max_examples=3_000, suppress_health_check=_SLOW_IS_FINE)
_PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "quick")
settings.load_profile(_PROFILE)
if _PROFILE == "quick":
    leave_out_constants_of_modules()


def pytest_addoption(parser: pytest.Parser) -> None:
    add_option(parser)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """None leaves it to pytest's own rules."""
    return is_left_out(collection_path, config) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    keep_those_of_the_place(config, items)
    for item in items:
        give_time(item)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected lives as long as this process: the garbage collector does not look through it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def give_time(item: pytest.Item) -> None:
    """The time limit of a test, which ends a hang, is as patient as its waits: both are longer on a slower machine."""
    mark = item.get_closest_marker("timeout")
    limit_s = float(mark.args[0] if mark else item.config.getoption("timeout", None) or 0)
    if limit_s and slowness() > 1:
        item.add_marker(pytest.mark.timeout(limit_s * slowness()), append=False)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    fail_without_a_place(item)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def loop_time() -> AsyncIterator[LoopTime]:
    """The time of the test's event loop stands still but for what the test moves it."""
    with LoopTime.stopped() as stopped:
        yield stopped


@pytest.fixture
def fake_store() -> FakeStore:
    """A faultless store in memory, seed 0; `fake_store.client("a")` is a `SegmentStore`."""
    return FakeStore()


@pytest.fixture
def fake_partitions(fake_store: FakeStore) -> FakePartitions:
    """Partition logs in memory whose files can be read through any client of `fake_store`."""
    return FakePartitions(fake_store)
