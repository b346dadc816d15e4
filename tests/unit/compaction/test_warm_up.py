"""A cleaning that comes after the warm-up finds its loops loaded."""

from __future__ import annotations

from typing import Any

import pytest

from bmq.arrow_records import kernels, key_map
from bmq.compaction.warm_up import warm_up

pytestmark = pytest.mark.unit


def test_it_cleans_with_every_loop() -> None:
    assert warm_up() == 3
    loops: tuple[Any, ...] = (kernels.scan, kernels.walk, key_map._put, key_map._find_newest)
    assert all(loop.signatures for loop in loops)
