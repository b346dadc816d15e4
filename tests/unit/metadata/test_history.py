"""The history keeps the newest changes of each partition, within its bounds, and comes back from its records as it was."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.metadata.history import StateChange, StateChangeHistory
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.metadata_records import StateChangesRecord, decode_record, encode_record

pytestmark = pytest.mark.unit

TOPICS = (UUID(int=7), UUID(int=8))
ADDED = st.tuples(
    st.sampled_from(TOPICS), st.integers(0, 3), st.integers(0, 9), st.sampled_from(["node 1 is dead", "balance", ""])
)


def copied(history: StateChangeHistory) -> StateChangeHistory:
    """Through the bytes of its records."""
    again = StateChangeHistory()
    for record in history.records():
        decoded = decode_record(encode_record(record))
        assert isinstance(decoded, StateChangesRecord)
        again.take(decoded)
    return again


@given(st.lists(ADDED, max_size=80), st.integers(1, 6), st.sets(st.integers(0, 79)))
def test_the_newest_of_each_partition_are_kept(
    added: list[tuple[UUID, int, int, str]], per_partition: int, copies: set[int]
) -> None:
    history = StateChangeHistory(per_partition)
    model: dict[tuple[UUID, int], list[StateChange]] = {}
    for number, (topic_id, partition, leader, reason) in enumerate(added):
        change = StateChange(number, leader, number, reason)
        history.add(topic_id, partition, change)
        model.setdefault((topic_id, partition), []).append(change)
        if number in copies:
            # What came out of a snapshot is gone on with as if there had been none.
            again = StateChangeHistory(per_partition)
            for record in history.records():
                again.take(record)
            history = again
    for topic_id in TOPICS:
        for partition in range(5):
            kept = model.get((topic_id, partition), [])[-per_partition:]
            assert list(history.of(topic_id, partition)) == kept
            assert list(copied(history).of(topic_id, partition)) == kept
    assert len(history) == len(copied(history)) == sum(len(kept[-per_partition:]) for kept in model.values())


@given(st.lists(st.tuples(st.sampled_from(TOPICS), st.integers(0, 30)), max_size=300), st.integers(1, 40))
def test_there_are_never_more_than_allowed_and_the_newest_stays(
    added: list[tuple[UUID, int]], changes_max: int
) -> None:
    history = StateChangeHistory(5, changes_max)
    for number, (topic_id, partition) in enumerate(added):
        history.add(topic_id, partition, StateChange(number, 1, number, ""))
        assert len(history) <= changes_max
        kept = {(t, p): history.of(t, p) for t in TOPICS for p in range(31)}
        assert len(history) == sum(len(changes) for changes in kept.values())
    if added and changes_max >= 4:
        newest = {key: number for number, key in enumerate(added)}
        # The fullest partitions are thinned out before any loses its newest change.
        assert any(kept[key][-1].timestamp_ms == number for key, number in newest.items() if kept[key])


def test_a_deleted_topics_history_goes() -> None:
    history = StateChangeHistory()
    for topic_id in TOPICS:
        history.add(topic_id, 0, StateChange(1, 2, 3, "why"))
    history.forget(TOPICS[0])
    assert history.of(TOPICS[0], 0) == () and len(history) == 1
    assert [change.reason for change in history.of(TOPICS[1], 0)] == ["why"]
    history.forget(TOPICS[0])
    assert len(history) == 1


def test_many_changes_take_several_records() -> None:
    history = StateChangeHistory()
    for partition in range(1_500):
        for epoch in range(10):
            history.add(TOPICS[0], partition, StateChange(epoch, 1, epoch, "node 3 was silent for 2 s"))
    records = list(history.records())
    assert len(records) == 2
    assert all(len(record.reasons) == 1 for record in records)
    assert len(copied(history)) == 15_000


def test_columns_that_do_not_fit_are_refused() -> None:
    good = StateChangesRecord(
        topic_id=TOPICS[0],
        partitions=(0, 1),
        counts=(1, 2),
        timestamps_ms=(1, 2, 3),
        leaders=(1, 1, 1),
        leader_epochs=(1, 2, 3),
        reason_numbers=(0, 0, 1),
        reasons=("a", "b"),
    )
    StateChangeHistory().take(good)
    for bad in (
        replace(good, counts=(1,)),
        replace(good, counts=(4, -1)),
        replace(good, leaders=(1, 1)),
        replace(good, reason_numbers=(0, 0, 2)),
        replace(good, reason_numbers=(0, 0, -1)),
    ):
        with pytest.raises(MalformedMessage, match="do not fit"):
            StateChangeHistory().take(bad)
