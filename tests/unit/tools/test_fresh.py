"""What `make fresh` searches beside simulated histories."""

from __future__ import annotations

import pytest

from tools.fresh import UNIT, property_tests

pytestmark = pytest.mark.unit


def test_every_property_is_drawn_anew_and_nothing_else() -> None:
    found = property_tests()
    expected = [f"{path}" for path in UNIT.rglob("test_*.py") if "\n@given(" in path.read_text()]
    assert set(expected) <= set(found)
    assert f"{UNIT / 'broker' / 'test_partition_histories.py'}" in found  # seeds of its own, more of them here
    assert f"{UNIT / 'test_purity.py'}" not in found
