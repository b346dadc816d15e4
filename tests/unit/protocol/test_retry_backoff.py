"""The text of bmq.share.retry.backoff."""

from __future__ import annotations

import pytest

from bmq.protocol.retry_backoff import STEPS_MAX, BadBackoff, backoff_of, delay_ms

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("", ()),
        ("  ", ()),
        ("1s", (1_000,)),
        ("0s,10s", (0, 10_000)),
        ("100ms, 2s ,5m,1h", (100, 2_000, 300_000, 3_600_000)),
        ("1s..60s", (1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000)),
        ("5s..5s", (5_000,)),
        ("24h", (86_400_000,)),
    ],
)
def test_ranges_and_lists(text: str, steps: tuple[int, ...]) -> None:
    assert backoff_of(text) == steps


@pytest.mark.parametrize(
    "text",
    ["1", "s", "-1s", "1s..", "..1s", "2s..1s", "0s..1s", "1s...2s", "1s,,2s", "25h", "1d", "1.5s", "\u0661s", "9" * 40 + "s",
     ",".join(["1s"] * (STEPS_MAX + 1))],
)  # fmt: skip
def test_what_cannot_be_understood_is_refused_in_one_clause(text: str) -> None:
    with pytest.raises(BadBackoff) as refused:
        backoff_of(text)
    assert len(str(refused.value)) > 20 and "\n" not in str(refused.value)


def test_the_last_step_counts_from_then_on() -> None:
    steps = backoff_of("1s,5s")
    assert [delay_ms(steps, count) for count in (0, 1, 2, 3, 200)] == [1_000, 1_000, 5_000, 5_000, 5_000]
    assert delay_ms((), 3) == 0
