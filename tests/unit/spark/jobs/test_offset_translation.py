"""Offsets translated: exact where the map reaches, and never behind a record that was not read."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from confluent_kafka import ConsumerGroupState
from hypothesis import given
from hypothesis import strategies as st

from bmq.spark.jobs.mirrored_groups import GroupMirror, OffsetMaps, translated
from bmq.spark.jobs.offset_translation import RUNS_MAX, MapEntry, OffsetMap
from bmq.spark.jobs.partition_copier import runs_of

pytestmark = pytest.mark.unit

COPIED = st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=8), min_size=1, max_size=6)
"""Transactions, each with the distances from one source offset to the next."""
IDS = ("source-id", "target-id")


def copied(transactions: list[list[int]]) -> tuple[OffsetMap, dict[int, int]]:
    """The map, and source offset -> target offset of every record; each transaction ends with a marker."""
    truth: dict[int, int] = {}
    offsets = OffsetMap()
    source, target = 4, 0
    for distances in transactions:
        sources = []
        for distance in distances:
            source += distance
            sources.append(source)
        entry = MapEntry.of("t", 0, runs_of(np.array(sources, np.int64), target), IDS)
        read = MapEntry.decode(entry.key, entry.value)
        assert read == entry
        offsets.add(read.runs)
        truth |= {each: target + place for place, each in enumerate(sources)}
        target += len(sources) + 1
    return offsets, truth


@given(COPIED)
def test_who_goes_on_at_a_translated_offset_misses_nothing_and_repeats_nothing(transactions: list[list[int]]) -> None:
    offsets, truth = copied(transactions)
    targets = set(truth.values())
    for offset in range(min(truth), max(truth) + 3):
        found = offsets.translate(offset)
        assert found is not None
        unread = [target for source, target in truth.items() if source >= offset]
        assert {target for target in targets if target >= found} == set(unread)


def test_what_the_map_does_not_reach_is_not_known() -> None:
    offsets, truth = copied([[1]])
    assert offsets.translate(min(truth) - 1) is None
    assert OffsetMap().translate(0) is None


def test_entries_read_twice_count_once() -> None:
    offsets, _ = copied([[1, 1]])
    count = len(offsets)
    offsets.add([(5, 0, 2)])
    assert len(offsets) == count


@given(COPIED, st.integers(5, 40), COPIED)
def test_a_log_that_was_cut_and_written_anew_is_translated_by_what_is_in_it_now(
    transactions: list[list[int]], cut: int, later: list[list[int]]
) -> None:
    """The target keeps what it has, and gets the new records behind it."""
    offsets, truth = copied(transactions)
    target = max(truth.values()) + 2
    truth = {source: at for source, at in truth.items() if source < cut}
    source = cut - 1
    for distances in later:
        sources = [source := source + distance for distance in distances]
        offsets.add(runs_of(np.array(sources, np.int64), target))
        truth |= {each: target + place for place, each in enumerate(sources)}
        target += len(sources) + 1
    for offset in range(min(truth), max(truth) + 3):
        found = offsets.translate(offset)
        assert found is not None
        unread = [at for each, at in truth.items() if each >= offset]
        assert found <= min(unread, default=target), "it misses nothing"
        if offset in truth:
            assert found == truth[offset]


def test_a_second_life_of_the_target_counts_alone() -> None:
    """The smallest case: 50 transactions of 100 records, and then everything at once into a new topic."""
    maps: Any = OffsetMaps.__new__(OffsetMaps)  # without its client
    maps._maps = {}
    first, second = ("source", "target"), ("source", "target again")
    for number in range(50):
        maps._take(MapEntry("t", 0, ((number * 100, number * 101, 100),), first))
    assert maps.of(("t", 0), first).translate(4_950) == 4_999
    maps._take(MapEntry("t", 0, ((0, 0, 5_000),), second))
    assert maps.of(("t", 0), second).translate(4_950) == 4_950
    for others in (first, ("", ""), ("source again", "target again")):
        assert not len(maps.of(("t", 0), others)), "offsets of a topic that is gone"
    maps._take(MapEntry.decode(b'["t",1]', b'{"runs":[[0,0,9]]}'))
    assert not len(maps.of(("t", 1), second)), "an earlier release did not say which topic it copied into"


def test_of_very_many_runs_some_are_dropped_and_nothing_is_missed() -> None:
    sources = np.arange(0, 4 * RUNS_MAX, 2, dtype=np.int64)
    offsets = OffsetMap()
    entry = MapEntry.of("t", 0, runs_of(sources, 100), IDS)
    assert len(entry.runs) <= RUNS_MAX
    offsets.add(entry.runs)
    for place, source in enumerate(sources.tolist()):
        found = offsets.translate(source)
        assert found is not None
        assert found <= 100 + place


@pytest.mark.parametrize("value", [b"", b"{}", b'{"runs":1}', b'{"runs":[[1]]}'])
def test_another_record_is_no_entry(value: bytes) -> None:
    with pytest.raises(ValueError):
        MapEntry.decode(b'["t",0]', value)


def test_a_group_is_never_set_back_and_begins_anew_where_nothing_is_known() -> None:
    offsets, _ = copied([[1, 1, 1], [1]])
    maps = {("t", 0): offsets, ("t", 1): OffsetMap(), ("u", 0): offsets}
    assert translated({("t", 0): 6}, maps, {}, {}) == {("t", 0): 1}
    assert translated({("t", 0): 6}, maps, {("t", 0): 1}, {}) == {}
    assert translated({("t", 0): 6}, maps, {("t", 0): 0}, {}) == {("t", 0): 1}
    assert translated({("u", 0): 2}, maps, {}, {("u", 0): 0}) == {("u", 0): 0}
    assert translated({("t", 1): 6, ("v", 0): 1}, maps, {}, {("t", 1): 0}) == {}


class FakeTarget:
    """Describes one group."""

    def __init__(self, state: ConsumerGroupState, members: int) -> None:
        self._described = SimpleNamespace(state=state, members=[object()] * members)

    def describe_consumer_groups(self, groups: list[str], **_: object) -> dict[str, Future[Any]]:
        described: Future[Any] = Future()
        described.set_result(self._described)
        return dict.fromkeys(groups, described)


@pytest.mark.parametrize(
    ("state", "members", "is_idle"),
    [
        (ConsumerGroupState.EMPTY, 0, True),
        (ConsumerGroupState.DEAD, 0, True),
        (ConsumerGroupState.STABLE, 1, False),
        (ConsumerGroupState.PREPARING_REBALANCING, 1, False),
        # The client does not know the states of the new protocol between two assignments.
        (ConsumerGroupState.UNKNOWN, 1, False),
    ],
)
def test_only_a_group_without_members_is_committed_for(state: ConsumerGroupState, members: int, is_idle: bool) -> None:
    mirror: Any = GroupMirror.__new__(GroupMirror)  # without its clients
    mirror._target = FakeTarget(state, members)
    assert mirror._is_idle("g") is is_idle
