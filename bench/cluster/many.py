"""A cluster with 10,000 partitions, mostly idle: its metadata, a new controller, and a group shard with 100,000 offsets."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from bench.cluster.admin import (
    AdminFailed,
    Connection,
    check,
    coordinator_of,
    create_topic,
    create_topics_request,
    metadata_request,
    wait_for_leaders,
)
from bench.cluster.sides import Side, most_loaded
from bmq.coordinator.runtime.directory import shard_of
from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bmq.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

TOPICS: Final = 10
OFFSETS_TOPIC: Final = "__consumer_offsets"
CREATE_WAIT_S: Final = 90.0
FAILOVER_WAIT_S: Final = 60.0
TRY_WAIT_S: Final = 5.0
"""One try of an admin request; a dead node's connection fails at once."""
POLL_S: Final = 0.01
COMMIT_PARTITIONS: Final = 1_000
GROUPS_TRIED_MAX: Final = 100_000
FEW: Final = 10


def create(side: Side, partitions: int) -> dict[str, Any]:
    """Ten topics of equal size; the seconds until all their partitions have a leader at every node."""
    began = time.monotonic()
    for name in topic_names():
        create_topic(side.addresses, create_topics_request(name, partitions // TOPICS, 1), CREATE_WAIT_S)
    created = time.monotonic()
    for name in topic_names():
        wait_for_leaders(side.addresses, name, partitions // TOPICS)
    return {
        "partitions": partitions,
        "created_s": round(created - began, 3),
        "led_s": round(time.monotonic() - began, 3),
    }


def topic_names() -> list[str]:
    return [f"many-{number}" for number in range(TOPICS)]


def metadata(side: Side, count: int) -> dict[str, Any]:
    """Milliseconds from an all-topics Metadata request to the last byte of its response, on connections that exist.

    `median_ms` is of requests that each follow a change of the metadata, so that no answer was prepared; `unchanged_ms`
    are those that came right behind. The nodes are asked in turn.
    """
    changed: list[float] = []
    unchanged: list[float] = []
    size_bytes = 0
    connections = [Connection(address) for address in side.addresses]
    try:
        for number in range(count):
            name = f"change-{number}"
            create_topic(side.addresses, create_topics_request(name, 1, 1))
            wait_for_leaders(side.addresses, name, 1)
            connection = connections[number % len(connections)]
            for samples in (changed, unchanged):
                began = time.perf_counter()
                frame = connection.exchange(ApiKey.METADATA, metadata_request(None))
                samples.append(round((time.perf_counter() - began) * 1000, 3))
                size_bytes = len(frame)
    finally:
        for connection in connections:
            connection.close()
    return {
        "median_ms": statistics.median(changed),
        "changed_ms": changed,
        "unchanged_ms": unchanged,
        "response_bytes": size_bytes,
    }


def controller_failovers(
    side: Side, count: int, done: Callable[[dict[str, Any]], None], *, is_last_started: bool
) -> None:
    """Kill the active controller; until a topic that was asked for afterwards is created. `done` is given each.

    `is_last_started`: whether the one that was killed last is started again.
    """
    for number in range(count):
        side.wait_whole()
        victim = side.active_controller()
        began = time.monotonic()
        side.nodes[victim].kill()
        tries = _until_changed(side, f"after-{number}-", began)
        answered = time.monotonic()
        done({"killed": victim, "answered_s": round(answered - began, 4), "tries": tries})
        if is_last_started or number + 1 < count:
            side.nodes[victim].start()


def _until_changed(side: Side, prefix: str, began: float) -> int:
    """How often it had to be tried. Raises AdminFailed."""
    reason = ""
    for number in itertools.count(1):
        # A new name each time: a try without an answer may have made its topic.
        request = create_topics_request(f"{prefix}{number}", 1, 1)
        request.timeout_ms = int(TRY_WAIT_S * 1000)
        try:
            create_topic(side.live_addresses, request, TRY_WAIT_S)
        except AdminFailed as error:
            reason = str(error)
        else:
            return number
        if time.monotonic() - began > FAILOVER_WAIT_S:
            break
        time.sleep(POLL_S)
    raise AdminFailed(f"nothing could be changed within {FAILOVER_WAIT_S:g} s after the controller's death: {reason}")


# -- A group shard -----------------------------------------------------------------------------------------------------


def groups_in(shard: int, shards: int, prefix: str) -> Iterator[str]:
    """Names of groups that this shard coordinates."""
    return (name for number in range(GROUPS_TRIED_MAX) if shard_of(name := f"{prefix}-{number}", shards) == shard)


def commit(side: Side, group: str, partitions: int) -> None:
    """One offset for each partition of all topics, by a group without members. Raises AdminFailed, OSError."""
    each = partitions // TOPICS
    with Connection(coordinator_of(side.addresses, group)[1]) as connection:
        for topic in topic_names():
            for begin in range(0, each, COMMIT_PARTITIONS):
                chunk = range(begin, min(begin + COMMIT_PARTITIONS, each))
                wanted = tuple(OffsetCommitRequestPartition(partition_index=p, committed_offset=p + 1) for p in chunk)
                request = OffsetCommitRequest(
                    group_id=group, topics=(OffsetCommitRequestTopic(name=topic, partitions=wanted),)
                )
                answer = connection.call(ApiKey.OFFSET_COMMIT, request)
                for partition in (p for t in answer.topics for p in t.partitions):
                    check(f"commit of {topic}-{partition.partition_index} by {group}", partition.error_code)


def fetched(address: str, group: str, topics: Sequence[str], partitions: int) -> int:
    """How many of the group's offsets in these topics are answered, and right. Raises AdminFailed, OSError."""
    wanted = tuple(OffsetFetchRequestTopics(name=topic, partition_indexes=tuple(range(partitions))) for topic in topics)
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=wanted),))
    with Connection(address, TRY_WAIT_S) as connection:
        answer = connection.call(ApiKey.OFFSET_FETCH, request).groups[0]
    check(f"offsets of {group}", answer.error_code)
    right = 0
    for topic in answer.topics:
        for partition in topic.partitions:
            check(f"offset of {group}", partition.error_code)
            right += partition.committed_offset == partition.partition_index + 1
    return right


def shard_failover(side: Side, partitions: int, offsets: int) -> dict[str, Any]:
    """Kill -9 of the node that owns a shard with so many committed offsets, until they are all answered again.

    `answered_s` counts from the kill: it has in it the noticing of the death, the takeover of the log and its replay. A
    shard with a single group's offsets at another broker, killed likewise, is the comparison that has no replay to speak of.
    """
    insist(lambda: coordinator_of(side.addresses, "any"))  # makes the topic of the shards
    shards = len(side.owners(OFFSETS_TOPIC))
    wait_for_leaders(side.addresses, OFFSETS_TOPIC, shards)
    owners = side.owners(OFFSETS_TOPIC)
    heavy_owner, _ = most_loaded(owners, side.broker_ids)
    heavy = next(shard for shard, owner in owners.items() if owner == heavy_owner)
    light = next(shard for shard, owner in owners.items() if owner != heavy_owner)
    heavy_groups = list(itertools.islice(groups_in(heavy, shards, "heavy"), offsets // partitions))
    light_groups = list(itertools.islice(groups_in(light, shards, "light"), 1))
    began = time.monotonic()
    for group in (*heavy_groups, *light_groups):
        insist(partial(commit, side, group, partitions))
    committed_s = time.monotonic() - began
    # The heavy one first: while a killed broker comes back, it is given partitions, and shards are among them.
    killed = {"heavy": _kill_owner(side, heavy, heavy_groups, partitions)}
    killed["light"] = _kill_owner(side, light, light_groups, partitions)
    return {"shards": shards, "committed_s": round(committed_s, 2), **killed}


def insist(act: Callable[[], object]) -> None:
    """Coordinators appear when they are first asked for, and some time later. Raises AdminFailed after a while."""
    deadline = time.monotonic() + FAILOVER_WAIT_S
    while True:
        try:
            act()
            return
        except AdminFailed:
            if time.monotonic() > deadline:
                raise
        time.sleep(POLL_S)


def _kill_owner(side: Side, shard: int, groups: list[str], partitions: int) -> dict[str, Any]:
    """The first answer is of ten offsets, so that neither encoding nor decoding is in it; then all are looked at."""
    side.wait_whole()
    victim = side.owners(OFFSETS_TOPIC)[shard]
    began = time.monotonic()
    side.nodes[victim].kill()
    reason = ""
    while time.monotonic() - began < FAILOVER_WAIT_S:
        try:
            address = coordinator_of(side.live_addresses, groups[0])[1]
            if fetched(address, groups[0], topic_names()[:1], FEW) == FEW:
                break
            reason = "it answered without the offsets"
        except (AdminFailed, OSError) as error:
            reason = str(error)
        time.sleep(POLL_S)
    else:
        raise AdminFailed(f"shard {shard} did not answer within {FAILOVER_WAIT_S:g} s: {reason}")
    answered_s = time.monotonic() - began
    wanted = len(groups) * partitions
    right = first_right = _right(side, groups, partitions)
    while right < wanted and time.monotonic() - began < FAILOVER_WAIT_S:
        right = _right(side, groups, partitions)
    side.nodes[victim].start()
    if right != wanted:
        raise AdminFailed(f"{right} of {wanted} committed offsets are there after the owner's death")
    # Kafka answers before the last of what was acknowledged is visible again.
    return {
        "killed": victim,
        "offsets": right,
        "answered_s": round(answered_s, 4),
        "missing_at_first": wanted - first_right,
    }


def _right(side: Side, groups: Sequence[str], partitions: int) -> int:
    """How many of the groups' offsets are answered, and right. Raises AdminFailed, OSError."""
    address = coordinator_of(side.live_addresses, groups[0])[1]
    return sum(fetched(address, group, topic_names(), partitions // TOPICS) for group in groups)
