"""Kernels run wherever the package lies; what they do is tested by those who call them."""

from __future__ import annotations

from typing import Any

import pytest

from bmq.arrow_records import kernels

pytestmark = pytest.mark.unit


def test_what_no_cache_can_hold_is_compiled_all_the_same() -> None:
    """As code is that comes from an archive, or where neither the package's directory nor the user's can be written."""
    namespace: dict[str, Any] = {}
    exec("def increased(value):\n    return value + 1\n", namespace)
    assert kernels.compiled(namespace["increased"])(1) == 2
