"""Whatever the order of owners, zombies, failures and hand-overs: an acknowledged batch is kept, once, in place."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.unit.broker.partition_histories import STATES_SEEN, run

pytestmark = pytest.mark.unit

HISTORIES = {"deep": 20_000, "fresh": 400}.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 200)


def test_acknowledged_batches_are_kept_once_and_in_place() -> None:
    seen: Counter[str] = Counter()
    for seed in range(HISTORIES):
        try:
            seen += run(seed)
        except Exception as error:
            error.add_note(
                f"seed {seed}: python -c 'from tests.unit.broker.partition_histories import run; run({seed})'"
            )
            raise
    assert seen["acknowledged"] > 10 * HISTORIES
    assert seen["owners"] > 3 * HISTORIES
    for state in (*STATES_SEEN, "Fenced", "AwaitingSegment", "Draining", "Closing", "Releasing"):
        name = state if isinstance(state, str) else state.__name__
        assert seen[name] > HISTORIES // 100, name
