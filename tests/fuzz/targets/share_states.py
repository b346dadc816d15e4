"""The state of a share partition as a snapshot and its changes say it, and the snapshot that is made of it again."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final
from uuid import UUID

from bmq.coordinator.runtime.moment import Moment
from bmq.coordinator.share_state.partition import PartitionKey, SharePartition
from bmq.coordinator.share_state.snapshots import add_part, parts
from bmq.protocol.errors import MalformedMessage, UnsupportedVersion
from bmq.protocol.share_state_records import (
    RECORD_TYPES,
    LockedRecords,
    SnapshotKey,
    SnapshotValue,
    StateBatch,
    StateValue,
    UpdateKey,
    UpdateValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from tests.fuzz.mutation import changed
from tests.fuzz.random_messages import changed_message, random_message
from tests.fuzz.target import Target

_NOW: Final = Moment(1_000.0, 1_700_000_000_000)
_TOPIC: Final = UUID(int=77)
_SNAPSHOT, _UPDATE = 0, 1
_ENTITIES: Final = {number: RECORD_TYPES.formats[number][1].entity(0) for number in (_SNAPSHOT, _UPDATE)}  # type: ignore[union-attr]


def check(data: bytes) -> bool:
    """The parts of a snapshot of a shard, then changes. What is believed is the same after it was written again."""
    partitions: dict[PartitionKey, SharePartition] = {}
    try:
        for _, key, value in parts(data):
            named = decode_key(key)
            state = decode_value(named, value)
            place = PartitionKey(named.group, named.topic_id, named.partition)
            if isinstance(state, SnapshotValue):
                partition = partitions[place] = SharePartition(place, 0)
                partition.begin(state, _NOW)
            elif isinstance(state, UpdateValue) and place in partitions:
                partitions[place].change(state, _NOW)
    except (MalformedMessage, UnsupportedVersion):
        return False
    for place, partition in partitions.items():
        _check_kept(place, partition)
    return bool(partitions)


def _check_kept(place: PartitionKey, partition: SharePartition) -> None:
    window = partition.window
    if window is not None:
        assert len(window.states) == len(window.counts) == len(window.numbers), "the columns are of different lengths"
        assert window.locked == sum(lock.held for lock in window.holds.all_locks()) >= 0, "locks are counted wrongly"
    told = partition.snapshot(_NOW, 1)
    again = SharePartition(place, 0)
    key = SnapshotKey(group="g", topic_id=place.topic_id, partition=0)
    kept = decode_value(key, encode_value(told))
    assert isinstance(kept, SnapshotValue)
    again.begin(kept, _NOW)
    assert again.snapshot(_NOW, 1) == told, "it is not kept"


def seeds() -> Iterator[bytes]:
    dice = Random(8)
    for _ in range(20):
        yield _shard([_plausible(_SNAPSHOT, dice), *(_plausible(_UPDATE, dice) for _ in range(dice.randrange(3)))])
    yield _shard([random_message(_ENTITIES[_SNAPSHOT], dice), random_message(_ENTITIES[_UPDATE], dice)])


def mutate(data: bytes, dice: Random) -> bytes:
    """A change more, or a field of one of the values drawn anew."""
    values: list[StateValue] = []
    try:
        for _, key, value in parts(data):
            state = decode_value(decode_key(key), value)
            if state is not None:
                values.append(state)
    except (MalformedMessage, UnsupportedVersion):
        values = []
    if not values:
        values = [_plausible(_SNAPSHOT, dice)]
    place = dice.randrange(len(values))
    match dice.randrange(4):
        case 0:
            values.append(_plausible(_UPDATE, dice))
        case 1:
            values[place] = _plausible(_SNAPSHOT if isinstance(values[place], SnapshotValue) else _UPDATE, dice)
        case _:
            entity = _ENTITIES[_SNAPSHOT if isinstance(values[place], SnapshotValue) else _UPDATE]
            values[place] = changed_message(entity, values[place], dice)
    made = _shard(values[:20])
    return made if dice.randrange(4) else changed(made, dice)


def _plausible(kind: int, dice: Random) -> Any:
    """Offsets of a window that could be."""

    def span() -> dict[str, int]:
        first = dice.randrange(60)
        return {"first_offset": first, "last_offset": first + dice.randrange(30)}

    batches = tuple(
        StateBatch(delivery_state=dice.choice((0, 2, 3, 4)), delivery_count=dice.randrange(6), **span())
        for _ in range(dice.randrange(4))
    )
    locks = tuple(
        LockedRecords(
            deadline_ms=_NOW.wall_ms + dice.randrange(60_000),
            member_id=dice.choice(("a", "b")),
            node_id=1,
            node_epoch=dice.randrange(3),
            session=dice.randrange(3),
            **span(),
        )
        for _ in range(dice.randrange(4))
    )
    start = dice.choice((-1, 0, 0, 10, 40))
    message_class = SnapshotValue if kind == _SNAPSHOT else UpdateValue
    return message_class(snapshot_epoch=1, start_offset=start, state_batches=batches, locks=locks)


def _shard(values: list[StateValue]) -> bytes:
    out = bytearray()
    for value in values:
        key_class = SnapshotKey if isinstance(value, SnapshotValue) else UpdateKey
        add_part(out, encode_key(key_class(group="g", topic_id=_TOPIC, partition=0)), encode_value(value))
    return bytes(out)


TARGET: Final = Target(
    "share_states",
    seeds,
    check,
    ("bmq.coordinator.share_state", "bmq.protocol.share_state_records", "bmq.protocol.record_types"),
    mutate,
)
