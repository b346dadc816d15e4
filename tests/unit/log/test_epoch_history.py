"""Leader epochs by offset, against a plain model: the epoch of every offset."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.epoch_history import UNDEFINED, EpochHistory

pytestmark = pytest.mark.unit

# How many records each of the epochs that follow each other wrote; -1 for an epoch nobody had.
EPOCHS = st.lists(st.integers(-1, 4), max_size=8)


def history_of(epochs: list[int]) -> tuple[EpochHistory, list[int]]:
    """The history, and for each offset the epoch that wrote it."""
    history, written = EpochHistory(), []  # type: ignore[var-annotated]
    for epoch, count in enumerate(epochs):
        if count >= 0:
            history.assign(epoch, len(written))
            history.assign(epoch, len(written))
            written += [epoch] * count
    return history, written


@given(EPOCHS)
def test_every_epoch_ends_where_the_next_one_that_wrote_begins(epochs: list[int]) -> None:
    history, written = history_of(epochs)
    led = [epoch for epoch, count in enumerate(epochs) if count >= 0]
    end = len(written)
    for epoch in range(-2, len(epochs) + 1):
        answer = history.end_offset_for(epoch, end)
        if epoch == -1 or not led or epoch > led[-1]:
            assert answer == UNDEFINED
        else:
            later = [offset for offset, writer in enumerate(written) if writer > epoch]
            assert answer[1] == (later[0] if later else end)
            known = [other for other, _ in history.entries if other <= epoch]
            assert answer[0] == (known[-1] if known else epoch)
    for offset, writer in enumerate(written):
        assert history.epoch_at(offset) == writer
    assert EpochHistory(history.entries).entries == history.entries


@given(EPOCHS, st.integers(0, 20))
def test_the_head_is_forgotten(epochs: list[int], log_start: int) -> None:
    history, written = history_of(epochs)
    log_start = min(log_start, len(written))
    history.truncate_head(log_start)
    for offset in range(log_start, len(written)):
        assert history.epoch_at(offset) == written[offset]
    assert all(start >= log_start for _, start in history.entries)


def test_an_epoch_older_than_all_known_ends_at_the_first_known_start() -> None:
    history = EpochHistory([(5, 100), (7, 200)])
    assert history.end_offset_for(3, 300) == (3, 100)
    assert history.end_offset_for(6, 300) == (5, 200)
    assert history.end_offset_for(-5, 300) == (-5, 100), "an epoch that no leader can have had, as in Kafka"
    assert history.entries[-1] == (7, 200)


@pytest.mark.parametrize(("epoch", "start"), [(-1, 0), (0, -1)])
def test_nonsense_is_refused(epoch: int, start: int) -> None:
    with pytest.raises(ValueError, match="cannot start"):
        EpochHistory().assign(epoch, start)
