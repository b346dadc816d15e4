"""A cleaning takes little of the time beside producers, all of it without them, and more when it does not get done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.broker.compaction.cpu_share import ADJUST_INTERVAL_S, DOUBLED_AFTER_S, CleanerCpuShare, share_of_time
from bmq.log.compaction import CleaningEvent, CleaningPlan
from tests.unit.broker.world import World, virtual

pytestmark = pytest.mark.unit

SHARES = st.floats(0.01, 1.0)
SECONDS = st.floats(0.0, 1e7)


@given(SHARES, SECONDS)
def test_without_producers_it_runs_all_of_the_time(busy_share: float, at_work_s: float) -> None:
    assert share_of_time(busy_share, at_work_s, are_producers_there=False) == 1.0


@given(SHARES, SECONDS, SECONDS)
def test_beside_producers_it_never_takes_less_for_having_more_to_do(
    busy_share: float, one_s: float, other_s: float
) -> None:
    less, more = (
        share_of_time(busy_share, at_work_s, are_producers_there=True) for at_work_s in sorted((one_s, other_s))
    )
    assert busy_share <= less <= more <= 1.0


def test_what_is_not_done_for_long_takes_twice_the_time_each_time() -> None:
    shares = [share_of_time(0.25, DOUBLED_AFTER_S * part, are_producers_there=True) for part in (0, 0.9, 1, 2, 2e9)]
    assert shares == [0.25, 0.25, 0.5, 1.0, 1.0]


class Told:
    """A LogCleaning that is only told its shares."""

    def __init__(self) -> None:
        self.shares: list[float] = []

    def clean(self, plan: CleaningPlan) -> AsyncGenerator[CleaningEvent]:
        raise NotImplementedError

    def use_share(self, share: float) -> None:
        self.shares.append(share)

    async def close(self) -> None:
        return


def test_a_cleaning_is_told_of_producers_while_there_is_something_to_clean() -> None:
    async def main() -> None:
        context = World(compaction_busy_share=0.125).owner().manager.context
        cleaning = Told()
        share = CleanerCpuShare(context, cleaning)
        share.begin()
        for appended in (0, 3, 1, 0):
            context.counts.appended_batches += appended
            share.begin()  # the next partition: nothing new
            await asyncio.sleep(ADJUST_INTERVAL_S)
        assert cleaning.shares == [1.0, 1.0, 0.125, 0.125, 1.0]
        share.end()
        context.counts.appended_batches += 1
        await asyncio.sleep(10 * ADJUST_INTERVAL_S)
        assert len(cleaning.shares) == 5, "nothing is left to clean"
        share.begin()
        assert cleaning.shares[5:] == [0.125], "who wrote meanwhile may still do so"
        await asyncio.sleep(ADJUST_INTERVAL_S)
        assert cleaning.shares[6:] == [1.0]
        share.end()

    virtual(main)
