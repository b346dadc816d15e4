"""Times on a command line."""

from __future__ import annotations

import pytest

from bmq.spark.jobs.outcome import JobFailed
from bmq.spark.jobs.time_text import milliseconds, text_of

pytestmark = pytest.mark.unit

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1700000000123", 1_700_000_000_123),
        ("0", 0),
        ("-2h", NOW_MS - 7_200_000),
        ("-90s", NOW_MS - 90_000),
        ("2023-11-14T22:13:20", NOW_MS),
        ("2023-11-14T23:13:20+01:00", NOW_MS),
        ("2023-11-14", 1_699_920_000_000),
    ],
)
def test_a_time_is_read(text: str, expected: int) -> None:
    assert milliseconds(text, now_ms=NOW_MS) == expected


@pytest.mark.parametrize(
    "text",
    ["", "soon", "-5", "-2w", "2023-13-01", "１２", "9" * 20, "9" * 5000, f"-{'9' * 20}d", "-99999d", "1969-12-31"],
)
def test_another_text_is_one_sentence(text: str) -> None:
    with pytest.raises(JobFailed, match="is no time"):
        milliseconds(text, now_ms=NOW_MS)


def test_a_time_is_written() -> None:
    assert text_of(NOW_MS + 7) == "2023-11-14T22:13:20.007Z"
    assert text_of(None) == "-"
    assert text_of(1 << 62) == str(1 << 62)
    assert text_of(-1) == "1969-12-31T23:59:59.999Z"
