"""Where a batch ends, out of a checkpoint."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.spark.tables.errors import TableMismatch
from bmq.spark.tables.offset_log import end_offsets

pytestmark = pytest.mark.unit

METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'


def test_of_the_connector() -> None:
    assert end_offsets(f'v1\n{METADATA}\n{{"orders":{{"1":7,"0":12}}}}', "f") == {"orders": {0: 12, 1: 7}}


def test_of_our_own_source() -> None:
    line = '{"begin":{"orders":{"0":1}},"offsets":{"orders":{"0":9}},"topicIds":{"orders":"x"},"version":1}'
    assert end_offsets(f"v1\n{METADATA}\n{line}\n", "f") == {"orders": {0: 9}}


@pytest.mark.parametrize("text", ["", "v1", "v2\n{}\n{}", "v1\n{}\n{}\n{}", 'v1\n{}\n{"logOffset":3}', "v1\n{}\n-"])
def test_of_anything_else_in_a_sentence(text: str) -> None:
    with pytest.raises(TableMismatch, match="the/file is no checkpoint"):
        end_offsets(text, "the/file")


@given(st.text())
def test_no_text_gives_a_traceback(text: str) -> None:
    with pytest.raises(TableMismatch):
        end_offsets(text, "f")
