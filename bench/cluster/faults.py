"""What producers notice when a process is killed, hangs, or ZooKeeper is away."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from bench.cluster.admin import create_topic, create_topics_request, leaders, wait_for_leaders
from bench.cluster.sides import BmqSide, Node, Side, most_loaded
from bench.cluster.steady import LoadStuck, SteadyLoad

Disturbance = Callable[[], Sequence[dict[str, Any]]]
"""Does its harm and says what it did."""

TOPIC: Final = "steady"
PARTITIONS: Final = 12
RATE: Final = 600.0
"""Records a second: 50 for each partition, so that a gap of one is known to 20 ms."""
CALM_S: Final = 1.0
WATCH_S: Final = 1.0
RECOVERY_WAIT_S: Final = 40.0
AFTERMATH_S: Final = 5.0
"""Watched beyond the return of what was away."""


def make_topic(
    side: Side, partitions: int = PARTITIONS, replication: int = 3, topic: str = TOPIC, **configs: str
) -> None:
    """`configs`: Kafka's names with _ for the dots."""
    named = {name.replace("_", "."): value for name, value in configs.items()}
    create_topic(side.addresses, create_topics_request(topic, partitions, replication, named))
    wait_for_leaders(side.addresses, topic, partitions)


def steady_load(side: Side) -> SteadyLoad:
    return SteadyLoad(side.bootstrap, TOPIC, PARTITIONS, RATE)


def rounds(
    side: Side,
    count: int,
    choose: Callable[[Side, int | None], tuple[int, int]],
    hurt: Callable[[Node], None],
    heal: Callable[[Node], None],
    done: Callable[[dict[str, Any]], None],
    *,
    load: SteadyLoad | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """`count` faults under one load, each healed before the next; `done` is given each as soon as it was measured.

    A round counts from the fault until every partition has acknowledged something sent after it, and a second more; or, with
    `back_s` None, until RECOVERY_WAIT_S are over: its gap is longer than what is noted. What the way back costs is kept
    beside it as `heal_gap_s`. Raises LoadStuck when a partition does not come back once everything is healed.
    """
    victim: int | None = None
    with load or steady_load(side) as load:
        for _ in range(count):
            side.wait_whole()
            load.wait_until_flowing()
            sleep(CALM_S)
            victim, partitions = choose(side, victim)
            calm = load.seen.gaps(time.monotonic() - CALM_S, time.monotonic())["gap_s"]
            began = time.monotonic()
            found: dict[str, Any] = {"victim": victim, "partitions": partitions, "calm_gap_s": calm}
            hurt(side.nodes[victim])
            found["back_s"] = _back_s(load, began, sleep)
            found.update(load.seen.gaps(began, time.monotonic()))
            try:
                found["heal_gap_s"] = _heal(side, load, partial(heal, side.nodes[victim]))
            finally:
                done(found)
        load.finish()
        if load.failed:
            raise LoadStuck(f"{len(load.failed)} records were refused: {load.failed[:3]}")


def _back_s(load: SteadyLoad, began: float, sleep: Callable[[float], None]) -> float | None:
    """Seconds until every partition acknowledged something again, watched a little longer; None when some did not."""
    try:
        back_s = load.wait_until_flowing(began, RECOVERY_WAIT_S)
    except LoadStuck:
        return None
    sleep(WATCH_S)
    return round(back_s, 4)


def _heal(side: Side, load: SteadyLoad, heal: Callable[[], None]) -> float:
    """The longest gap until everything is as it was. Raises LoadStuck, AdminFailed when it does not come back."""
    began = time.monotonic()
    heal()
    side.wait_whole()
    load.wait_until_flowing()
    return load.seen.gaps(began, time.monotonic())["gap_s"]


def busiest_broker(side: Side, previous: int | None) -> tuple[int, int]:
    """The broker that owns most partitions of the load's topic, and how many; not always the same of equals."""
    return most_loaded(side.owners(TOPIC), side.broker_ids, previous)


def busiest_proxy(side: BmqSide) -> tuple[int, int]:
    """The proxy that clients go to for most of the partitions, and for how many."""
    return most_loaded(leaders(side.live_addresses, TOPIC), side.proxy_ids)


def windows(side: Side, window_s: float, disturb: Disturbance) -> dict[str, Any]:
    """The longest gaps of an undisturbed and of an equally long disturbed time.

    `disturb(end)` does its work and returns before `end`.
    """
    with steady_load(side) as load:
        load.wait_until_flowing()
        time.sleep(CALM_S)
        began = time.monotonic()
        time.sleep(window_s)
        undisturbed = load.seen.gaps(began, time.monotonic())
        time.sleep(CALM_S)
        began = time.monotonic()
        events = disturb()
        time.sleep(max(0.0, began + window_s - time.monotonic()))
        ended = time.monotonic()
        disturbed = {**load.seen.gaps(began, ended), "seconds": round(ended - began, 1)}
        load.wait_until_flowing()
        load.finish()
        return {
            "window_s": window_s,
            "undisturbed": undisturbed,
            "disturbed": disturbed,
            "events": list(events),
            "load": load.facts(),
        }


def kill_controllers(side: Side, count: int, apart_s: float) -> Disturbance:
    """Kill the active controller every `apart_s`, and start it again in the middle between."""

    def disturb() -> Sequence[dict[str, Any]]:
        began = time.monotonic()
        events = []
        for number in range(count):
            time.sleep(max(0.0, began + number * apart_s - time.monotonic()))
            victim = side.active_controller()
            killed = time.monotonic()
            side.nodes[victim].kill()
            time.sleep(apart_s / 2)
            side.nodes[victim].start()
            events.append({"killed": victim, "at_s": round(killed - began, 2)})
        return events

    return disturb


def without(stop: Callable[[], None], start: Callable[[], None], away_s: float) -> Disturbance:
    """Take something away for `away_s`."""

    def disturb() -> Sequence[dict[str, Any]]:
        stop()
        stopped = time.monotonic()
        time.sleep(away_s)
        start()
        return [{"away_s": round(time.monotonic() - stopped, 2)}]

    return disturb
