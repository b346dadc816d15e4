"""The tests of one module again in another, which gives the fixtures of the same names something else.

for name, test in same_tests(test_takeover, lambda fixtures: "own_ha_hdfs" not in fixtures).items():
    globals()[name] = test
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import Any, Final

PLACES: Final = frozenset({"contract", "hurt", "faults", "e2e", "campaign"})
"""Marks that say where a test runs: those of the module that takes it count."""


def same_tests(module: ModuleType, is_wanted: Callable[[set[str]], bool]) -> Mapping[str, Callable[..., Any]]:
    """By names that no other module has: copies of the tests whose fixtures are wanted, without their places."""
    own = module.__name__.rpartition("test_")[2]
    found = {}
    for name, test in inspect.getmembers(module, inspect.isfunction):
        if name.startswith("test_") and is_wanted(set(inspect.signature(test).parameters)):
            copied = f"test_{own}_{name.removeprefix('test_')}"
            found[copied] = _copy(test, copied)
    return found


def _copy(test: FunctionType, name: str) -> Callable[..., Any]:
    copy = FunctionType(test.__code__, test.__globals__, name, test.__defaults__, test.__closure__)
    copy.__kwdefaults__ = test.__kwdefaults__
    copy.__annotations__ = test.__annotations__
    copy.__doc__ = test.__doc__
    marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name not in PLACES]
    copy.pytestmark = marks  # type: ignore[attr-defined]
    return copy
