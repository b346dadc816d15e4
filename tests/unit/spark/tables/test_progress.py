"""How far a table is behind its topic."""

from __future__ import annotations

import json

import pytest

from bmq.spark.tables.progress import TableProgress

pytestmark = pytest.mark.unit


def progress() -> TableProgress:
    return TableProgress(
        table="t",
        topic="orders",
        topic_id="AAAAAAAAAAAAAAAAAAAAAQ",
        batch=3,
        rows=7,
        dead_letters=1,
        files=2,
        table_rows=70,
        table_files=9,
        table_bytes=1_000,
        dead_letter_rows=4,
        next_offsets={0: 5, 1: 9},
        end_offsets={0: 8, 1: 9, 2: 4},
        snapshot_id=None,
        at_ms=1,
        duration_ms=2,
        is_replay=False,
    )


def test_lag_counts_offsets_that_the_table_has_not_reached() -> None:
    assert progress().lag == 7
    form = json.loads(progress().to_json())
    assert (form["lag"], form["next_offsets"], form["snapshot_id"]) == (7, {"0": 5, "1": 9}, None)
